// The direction family on rows: products with sums of unit rows, and the integral over kappa.
// Formulas: src/scstream/families/direction.py and sphere.py, which are the specification.
#pragma once

#include "dots.h"
#include "pass.h"
#include "rising.h"

namespace SCSTREAM_ISA {

using scstream::DirectionPrior;

// Debye's expansion for large orders of the log moment generating function, as `sphere._expansion`.
INLINE vd expansion(vd square, double order) {
    const vd r = root(square + order * order), w = ratio(all(1.0), r);
    const vd share = order * w, y = share * share;
    const vd third = ((9945.0 - 5525.0 * y) * y - 4779.0) * y + 375.0;
    const vd second = (y - 1.0) * (5.0 * y - 1.0);
    const vd small = w * (w * (w * third * (1.0 / 5760.0) + second * (1.0 / 16.0)) + 0.125 -
                          y * (5.0 / 24.0));
    return small + r - order * log_of(order + r) - 0.5 * log_of(r);
}

class DirectionTables {
  public:
    DirectionTables(const DirectionPrior& prior, const double* table, int64_t groups,
                    bool predictive, const double* add)
        : groups(groups),
          prior_(prior),
          predictive_(predictive),
          width_(prior.table_width(predictive)),
          table_(table),
          add_(groups, RAW),
          zero_(expansion(vd{}, prior.order)) {
        for (int64_t g = 0; g < groups; ++g) add_[g] = add ? add[g] : 0.0;
    }

    // Scores of tiles of rows under every group: out[g * stride + row]; `top` is raised to the
    // best.
    void scores(const double* x, int64_t tiles, double* out, int64_t stride, double* top,
                double) const {
        constexpr int T = TILE<double>;
        for (int64_t t = 0; t < tiles; ++t, x += (prior_.d + 1) * T, out += T, top += T)
            all_products<ROW_VECTORS>(
                groups, [this](int64_t g) { return vector(g); }, prior_.d, x, T,
                [&](int64_t g, const vd(&s)[ROW_VECTORS]) {
                    for (int v = 0; v < ROW_VECTORS; ++v) {
                        const vd value = score_of(g, s[v], load(x + prior_.d * T + v * LD));
                        store(out + g * stride + v * LD, value);
                        store(top + v * LD, larger<double>(value, load(top + v * LD)));
                    }
                });
    }

    // Scores of one vector of rows under one group.
    vd score(int64_t g, const double* x) const {
        return score_of(g, product(vector(g), prior_.d, x), load(x + prior_.d * LD));
    }

    bool in_cache() const { return true; }  // a tile is large: only one is held at a time

    const int64_t groups;

  private:
    const double* vector(int64_t g) const { return table_ + g * width_ + (predictive_ ? 0 : 1); }

    // By the product of rows with the sum of the group, and `along`, strength times the one with
    // the centre: the log of the sum over the concentrations.
    INLINE_MEMBER vd score_of(int64_t g, vd with_sum, vd along) const {
        if (!predictive_) return with_sum + (table_[g * width_] + add_[g]);
        const double* square = vector(g) + prior_.d;
        const double* factor = square + prior_.c;
        if (prior_.c == 1) return term(0, square[0], with_sum, along) + (factor[0] + add_[g]);
        vd value[scstream::MOST_CONCENTRATIONS], top = all(-double(INFINITY)), total = {};
        for (int64_t i = 0; i < prior_.c; ++i) {
            value[i] = term(i, square[i], with_sum, along) + factor[i];
            top = larger<double>(top, value[i]);
        }
        for (int64_t i = 0; i < prior_.c; ++i) total += exp_of(value[i] - top);
        return top + log_of(total) + add_[g];
    }

    INLINE_MEMBER vd term(int64_t i, double square, vd with_sum, vd along) const {
        const double scale = prior_.scales[i];
        const vd natural = with_sum * (2.0 * scale * scale) + (2.0 * scale * along + scale * scale) +
                           square;
        return expansion(larger<double>(natural, vd{}), prior_.order) - zero_;
    }

    const DirectionPrior& prior_;
    const bool predictive_;
    const int64_t width_;
    const double* table_;
    Buffer<double> add_;
    const vd zero_;
};

// Counts and sums of unit rows of the two sub-clusters of one cluster.
struct DirectionSums {
    void add(const double* x, vd left, vd right, double* stats) {
        const vd weights[2] = {left, right};
        for (int side = 0; side < 2; ++side, stats += 1 + d) {
            const vd weight = weights[side];
            if (all_zero(weight)) continue;
            stats[0] += sum<double>(weight);
            for (int64_t j = 0; j < d; ++j) stats[1 + j] += weighted(weight, x + j * LD);
        }
    }
    void flush(double*) {}

    const int64_t d;
};

INLINE double inverse_length(const double* row, int64_t d) {
    vd squares = {};
    for (int64_t j = 0; j < d; j += LD) {
        const vd value = load_some(row + j, d - j, 0.0);
        squares += value * value;
    }
    const double square = sum<double>(squares);
    return square > 0.0 ? 1.0 / std::sqrt(square) : 1.0;
}

// The family as the pass sees it. Behind the features of a tile stands the product of each row with
// the centre, times the strength.
struct DirectionFamily {
    using T = double;
    template <class R> using Tables = DirectionTables;

    int64_t n_stats() const { return 1 + prior.d; }
    DirectionSums sums() const { return {prior.d}; }

    template <class R>
    DirectionTables tables(const double* table, int64_t groups, bool predictive,
                           const double* add = nullptr) const {
        return DirectionTables(prior, table, groups, predictive, add);
    }

    int64_t tile_size() const { return (prior.d + 1) * TILE<T>; }
    int64_t vector_size() const { return (prior.d + 1) * LD; }

    // A tile of rows; beyond `count` the last is repeated.
    void pack_tile(const Rows& rows, int64_t first, int64_t count, double* out) const {
        int64_t row[TILE<T>];
        for (int64_t r = 0; r < TILE<T>; ++r) row[r] = first + (r < count ? r : count - 1);
        pack<ROW_VECTORS>(rows, row, out);
    }
    void pack_vector(const Rows& rows, const int64_t (&row)[LD], double* out) const {
        pack<1>(rows, row, out);
    }

    const DirectionPrior& prior;

  private:
    template <int RV> void pack(const Rows& rows, const int64_t* row, double* out) const {
        constexpr int N = RV * LD;
        double inverse[N];
        for (int r = 0; r < N; ++r)
            inverse[r] = inverse_length(rows.x + row[r] * prior.d, prior.d);
        transpose(N, prior.d, N, out,
                  [&](int64_t r, int64_t j) { return rows.x[row[r] * prior.d + j] * inverse[r]; });
        const double* centre[1] = {prior.centre};
        vd along[1][RV];
        products<1, RV>(centre, prior.d, out, N, along);
        for (int v = 0; v < RV; ++v) store(out + prior.d * N + v * LD, prior.strength * along[0][v]);
    }
};

static scstream::Pass* direction_pass(const DirectionPrior& prior, const AssignmentParams& plan) {
    return new RowPass<DirectionFamily>(DirectionFamily{prior}, plan);
}

static void direction_scores(const DirectionPrior& prior, const double* table, int64_t groups,
                             bool predictive, const Rows& rows, int64_t begin, int64_t end,
                             double* out) {
    row_scores(DirectionFamily{prior}, table, groups, predictive, rows, begin, end, out);
}

static void direction_stats(const DirectionPrior& prior, const Rows& rows, const int64_t* group,
                            double* out) {
    const int64_t d = prior.d;
    for (int64_t r = 0; r < rows.n; ++r) {
        if (group[r] < 0) continue;
        const double *x = rows.x + r * d, weight = rows.weight ? rows.weight[r] : 1.0;
        const double scale = weight * inverse_length(x, d);
        double* stats = out + group[r] * (1 + d);
        stats[0] += weight;
        for (int64_t j = 0; j < d; ++j) stats[1 + j] += scale * x[j];
    }
}

}  // namespace SCSTREAM_ISA
