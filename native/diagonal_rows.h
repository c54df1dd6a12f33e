// The diagonal family on rows: sums over features, of which any may be missing (NaN).
//
// Rows stand in tiles, feature by feature, as those of the Gaussian family; after the features
// comes one number that tells whether anything is missing in the tile.
#pragma once

#include <type_traits>

#include "diagonal.h"
#include "tables.h"

namespace SCSTREAM_ISA {

constexpr double FARTHEST_SQUARE = 1e75;  // so that a product of four stays finite

// How features are added up: squares; one power of all features, so that a logarithm serves four;
// or powers that differ, as they do where entries were missing.
enum Addition { SQUARES, ONE_POWER, POWERS };

template <class T> class DiagonalTables {
  public:
    DiagonalTables(int64_t d, const double* table, int64_t groups, bool predictive,
                   const double* add)
        : groups(groups),
          d_(d),
          width_((predictive ? 4 : 3) * d),
          table_(table, groups * width_),
          add_(groups, RAW),
          addition_(groups, RAW) {
        for (int64_t g = 0; g < groups; ++g) {
            add_[g] = add ? add[g] : 0.0;
            const double* power = table + g * width_ + 3 * d;
            addition_[g] = predictive ? ONE_POWER : SQUARES;
            for (int64_t j = 1; predictive && j < d; ++j)
                if (power[j] != power[0]) addition_[g] = POWERS;
            // In float32, one plus a square keeps too little to be multiplied.
            if (predictive && !std::is_same<T, double>::value) addition_[g] = POWERS;
        }
    }

    // Scores of tiles of rows under every group: out[g * stride + row]; `top` is raised to the
    // best.
    void scores(const T* x, int64_t tiles, T* out, int64_t stride, T* top, T) const {
        const int64_t tile_size = (d_ + 1) * TILE<T>;
        const bool by_tile = in_cache();
        for (int64_t outer = 0; outer < (by_tile ? tiles : groups); ++outer)
            for (int64_t inner = 0; inner < (by_tile ? groups : tiles); ++inner) {
                const int64_t t = by_tile ? outer : inner, g = by_tile ? inner : outer;
                Vec<T> s[ROW_VECTORS];
                add_features<ROW_VECTORS>(g, x + t * tile_size, TILE<T>, s);
#pragma GCC unroll 4
                for (int v = 0; v < ROW_VECTORS; ++v) {
                    T* best = top + t * TILE<T> + v * LANES<T>;
                    store(out + g * stride + t * TILE<T> + v * LANES<T>, s[v]);
                    store(best, larger<T>(s[v], load(best)));
                }
            }
    }

    // Scores of one vector of rows under one group.
    Vec<T> score(int64_t g, const T* x) const {
        Vec<T> s[1];
        add_features<1>(g, x, LANES<T>, s);
        return s[0];
    }

    bool in_cache() const { return groups * width_ <= IN_CACHE; }

    const int64_t groups;

  private:
    template <int RV>
    void add_features(int64_t g, const T* x, int64_t stride, Vec<T> (&s)[RV]) const {
        const bool missing = x[d_ * stride] != T(0);
        switch (addition_[g]) {
            case SQUARES:
                return missing ? add<SQUARES, true>(g, x, stride, s)
                               : add<SQUARES, false>(g, x, stride, s);
            case ONE_POWER:
                return missing ? add<ONE_POWER, true>(g, x, stride, s)
                               : add<ONE_POWER, false>(g, x, stride, s);
            default:
                return missing ? add<POWERS, true>(g, x, stride, s)
                               : add<POWERS, false>(g, x, stride, s);
        }
    }

    template <Addition HOW, bool MISSING, int RV>
    void add(int64_t g, const T* x, int64_t stride, Vec<T> (&s)[RV]) const {
        const T *whiten = table_.get() + g * width_, *centre = whiten + d_, *constant = centre + d_;
        const T* power = constant + d_;
        Vec<T> apart[RV] = {}, product[RV], present[RV] = {};
        T constants = T(0);
        for (int v = 0; v < RV; ++v) product[v] = all(T(1));
        for (int64_t j = 0; j < d_; ++j) {
            const T w = whiten[j], b = centre[j];
            constants += constant[j];
#pragma GCC unroll 4
            for (int v = 0; v < RV; ++v) {
                const Vec<T> value = load(x + j * stride + v * LANES<T>);
                Vec<T> y = w * value - b;
                if (MISSING) {
                    const Int<T> here = (Int<T>)(value == value);
                    y = here ? y : Vec<T>{};
                    present[v] += here ? all(constant[j]) : Vec<T>{};
                }
                if (HOW == SQUARES) apart[v] += y * y;
                if (HOW == POWERS) apart[v] += power[j] * log1p_of<T>(y * y);
                if (HOW == ONE_POWER) {
                    const Vec<T> square = y * y, most = all(T(FARTHEST_SQUARE));
                    product[v] *= T(1) + (square > most ? most : square);
                    if (j % 4 == 3 || j == d_ - 1) {
                        apart[v] += log_of(product[v]);
                        product[v] = all(T(1));
                    }
                }
            }
        }
        const T factor = HOW == SQUARES ? T(0.5) : HOW == ONE_POWER ? power[0] : T(1);
        for (int v = 0; v < RV; ++v)
            s[v] = T(add_[g]) + (MISSING ? present[v] : all(constants)) - factor * apart[v];
    }

    const int64_t d_, width_;
    const Rounded<T> table_;
    Buffer<double> add_;
    Buffer<Addition> addition_;
};

// Sums of moments of the two subclusters of one cluster. With few features every lane sums for itself.
class DiagonalSums {
  public:
    explicit DiagonalSums(const DiagonalPrior& prior)
        : d_(prior.d),
          n_stats_(prior.n_stats()),
          lanes_(d_ <= FEW_FEATURES ? 2 * n_stats_ : 0),
          row_(d_ + LD),
          zero_(d_ + LD) {}

    // Add one vector of rows, x by features, with their weights in either half.
    void add(const double* x, vd left, vd right, double* stats) {
        if (d_ <= FEW_FEATURES) return add_lanes(x, left, right);
        for (int lane = 0; lane < LD; ++lane) {
            const double weight = left[lane] + right[lane];
            if (weight == 0.0) continue;
            for (int64_t j = 0; j < d_; ++j) row_[j] = x[j * LD + lane];
            add_to_moments(row_.get(), zero_.get(), d_, weight,
                           stats + (right[lane] != 0.0 ? n_stats_ : 0));
        }
    }

    // Write what was collected to the statistics (2, P) of the cluster, and begin again.
    void flush(double* stats) {
        for (int64_t p = 0; d_ <= FEW_FEATURES && p < 2 * n_stats_; ++p) {
            stats[p] += sum<double>(lanes_[p]);
            lanes_[p] = vd{};
        }
    }

  private:
    static constexpr int64_t FEW_FEATURES = 16;

    void add_lanes(const double* x, vd left, vd right) {
        vd *l = lanes_.get(), *r = l + n_stats_;
        l[0] += left;
        r[0] += right;
        for (int64_t j = 1; j <= d_; ++j) {
            const vd read = load(x + (j - 1) * LD);
            const Int<double> present = (Int<double>)(read == read);
            const vd value = present ? read : vd{};
            const vd in_left = present ? left : vd{}, in_right = present ? right : vd{};
            l[j] += in_left;
            r[j] += in_right;
            l[j + d_] += in_left * value;
            r[j + d_] += in_right * value;
            l[j + 2 * d_] += in_left * value * value;
            r[j + 2 * d_] += in_right * value * value;
        }
    }

    const int64_t d_, n_stats_;
    Buffer<vd> lanes_;
    Buffer<double> row_, zero_;
};

// The family as the pass sees it.
template <class Real> struct DiagonalFamily {
    using T = Real;
    static constexpr bool CAN_SCREEN = false;
    using Sums = DiagonalSums;
    template <class R> using Tables = DiagonalTables<R>;

    explicit DiagonalFamily(const DiagonalPrior& prior) : prior(prior) {}

    int64_t n_stats() const { return prior.n_stats(); }
    Sums sums() const { return Sums(prior); }

    template <class R>
    Tables<R> tables(const double* table, int64_t groups, bool predictive,
                     const double* add = nullptr) const {
        return Tables<R>(prior.d, table, groups, predictive, add);
    }

    int64_t tile_size() const { return (prior.d + 1) * TILE<T>; }
    int64_t vector_size() const { return (prior.d + 1) * LD; }

    // A tile of rows; beyond `count` the last is repeated.
    void pack_tile(const Rows& rows, int64_t first, int64_t count, T* out) const {
        bool missing = false;
        for (int64_t r = 0; r < TILE<T>; ++r)
            missing |= pack(rows, first + (r < count ? r : count - 1), out + r, TILE<T>);
        out[prior.d * TILE<T>] = T(missing ? 1 : 0);
    }

    void pack_vector(const Rows& rows, const int64_t (&row)[LD], double* out) const {
        bool missing = false;
        for (int l = 0; l < LD; ++l) missing |= pack(rows, row[l], out + l, LD);
        out[prior.d * LD] = missing ? 1.0 : 0.0;
    }

    const DiagonalPrior& prior;

  private:
    template <class R> bool pack(const Rows& rows, int64_t row, R* out, int64_t stride) const {
        const double* x = rows.x + row * prior.d;
        bool missing = false;
        for (int64_t j = 0; j < prior.d; ++j) {
            out[j * stride] = R(x[j] - prior.origin[j]);
            missing |= x[j] != x[j];
        }
        return missing;
    }
};

static scstream::Pass* diagonal_pass(const DiagonalPrior& prior, const AssignmentParams& plan) {
    return row_pass<DiagonalFamily>(prior, plan);
}

static void diagonal_scores(const DiagonalPrior& prior, const double* table, int64_t groups,
                            bool predictive, const Rows& rows, int64_t begin, int64_t end,
                            double* out) {
    row_scores(DiagonalFamily<double>(prior), table, groups, predictive, rows, begin, end, out);
}

}  // namespace SCSTREAM_ISA
