// The subspace family on rows: a Gaussian in the coordinates of the basis, a round one outside.
// Formulas: src/scstream/families/subspace.py and isotropic.py, which are the specification.
#pragma once

#include "dots.h"
#include "gaussian_rows.h"
#include "pass.h"

namespace SCSTREAM_ISA {

using scstream::SubspacePrior;

// Tables of groups: that of the Gaussian inside; then mean, precision and constant outside.
class SubspaceTables {
  public:
    SubspaceTables(const SubspacePrior& prior, const double* table, int64_t groups, bool predictive,
                   const double* add)
        : groups(groups),
          prior_(prior),
          predictive_(predictive),
          inside_(scstream::gaussian_params(prior.q) + (predictive ? 1 : 0)),
          width_(prior.table_width(predictive)),
          table_(table),
          constant_(groups, RAW),
          square_(groups, RAW) {
        for (int64_t g = 0; g < groups; ++g) {
            const double *inside = table + g * width_, *mean = inside + inside_;
            constant_[g] = inside[at(prior.q, 0) + prior.q] + mean[prior.d + 1] - prior.log_scale +
                           (add ? add[g] : 0.0);
            double square = 0.0;
            for (int64_t j = 0; j < prior.d; ++j) square += mean[j] * mean[j];
            square_[g] = square;
        }
    }

    // Scores of tiles of rows under every group: out[g * stride + row]; `top` is raised to the
    // best.
    void scores(const double* x, int64_t tiles, double* out, int64_t stride, double* top,
                double) const {
        constexpr int T = TILE<double>;
        for (int64_t t = 0; t < tiles; ++t, x += prior_.packed() * T, out += T, top += T)
            all_products<ROW_VECTORS>(
                groups, [this](int64_t g) { return mean(g); }, prior_.d, x, T,
                [&](int64_t g, const vd(&s)[ROW_VECTORS]) {
                    vd value[ROW_VECTORS];
                    score_of<ROW_VECTORS>(g, s, x, value);
                    for (int v = 0; v < ROW_VECTORS; ++v) {
                        store(out + g * stride + v * LD, value[v]);
                        store(top + v * LD, larger<double>(value[v], load(top + v * LD)));
                    }
                });
    }

    // Scores of one vector of rows under one group.
    vd score(int64_t g, const double* x) const {
        const vd s[1] = {product(mean(g), prior_.d, x)};
        vd value[1];
        score_of<1>(g, s, x, value);
        return value[0];
    }

    bool in_cache() const { return true; }  // a tile is large: only one is held at a time

    const int64_t groups;

  private:
    const double* mean(int64_t g) const { return table_ + g * width_ + inside_; }

    // By the products of the rows with the mean outside.
    template <int RV>
    INLINE_MEMBER void score_of(int64_t g, const vd (&with_mean)[RV], const double* x,
                                vd (&out)[RV]) const {
        constexpr int N = RV * LD;
        const double *inside = table_ + g * width_, *y = x + prior_.d * N, *rest = y + prior_.q * N;
        const double precision = mean(g)[prior_.d], power = inside[inside_ - 1];
        vd apart[RV];
        squares_in_strips<double, RV>(inside, prior_.q, y, N, apart);
        for (int v = 0; v < RV; ++v) {
            const vd far = load(rest + v * LD) + (square_[g] - 2.0 * with_mean[v]);
            out[v] = constant_[g] - 0.5 * precision * larger<double>(far, vd{});
            out[v] -= predictive_ ? power * log1p_of<double>(apart[v]) : 0.5 * apart[v];
        }
    }

    const SubspacePrior& prior_;
    const bool predictive_;
    const int64_t inside_, width_;
    const double* table_;
    Buffer<double> constant_, square_;
};

// Counts, first moments, square lengths and second moments inside of two sub-clusters.
struct SubspaceSums {
    void add(const double* x, vd left, vd right, double* stats) {
        const vd weights[2] = {left, right};
        for (int side = 0; side < 2; ++side, stats += prior.n_stats()) {
            const vd weight = weights[side];
            if (all_zero(weight)) continue;
            stats[0] += sum<double>(weight);
            for (int64_t j = 0; j < prior.d; ++j) stats[1 + j] += weighted(weight, x + j * LD);
            const double* y = x + prior.d * LD;
            double *second = stats + 2 + prior.d, inside = 0.0;
            for (int64_t i = 0; i < prior.q; ++i) {
                const vd scaled = weight * load(y + i * LD);
                inside += weighted(scaled, y + i * LD);
                for (int64_t j = i; j < prior.q; ++j) *second++ += weighted(scaled, y + j * LD);
            }
            stats[1 + prior.d] += weighted(weight, y + prior.q * LD) + inside;
        }
    }
    void flush(double*) {}

    const SubspacePrior& prior;
};

// The family as the pass sees it. A tile has the scaled rows, their coordinates inside, and their
// square lengths outside.
struct SubspaceFamily {
    using T = double;
    template <class R> using Tables = SubspaceTables;

    int64_t n_stats() const { return prior.n_stats(); }
    SubspaceSums sums() const { return {prior}; }

    template <class R>
    SubspaceTables tables(const double* table, int64_t groups, bool predictive,
                          const double* add = nullptr) const {
        return SubspaceTables(prior, table, groups, predictive, add);
    }

    int64_t tile_size() const { return prior.packed() * TILE<T>; }
    int64_t vector_size() const { return prior.packed() * LD; }

    // A tile of rows; beyond `count` the last is repeated.
    void pack_tile(const Rows& rows, int64_t first, int64_t count, double* out) const {
        int64_t row[TILE<T>];
        for (int64_t r = 0; r < TILE<T>; ++r) row[r] = first + (r < count ? r : count - 1);
        pack<ROW_VECTORS>(rows, row, out);
    }
    void pack_vector(const Rows& rows, const int64_t (&row)[LD], double* out) const {
        pack<1>(rows, row, out);
    }

    const SubspacePrior& prior;

  private:
    template <int RV> void pack(const Rows& rows, const int64_t* row, double* out) const {
        constexpr int N = RV * LD;
        const int64_t d = prior.d;
        transpose(N, d, N, out, [&](int64_t r, int64_t j) {
            return (rows.x[row[r] * d + j] - prior.origin[j]) * prior.inverse_scale[j];
        });
        vd rest[RV] = {};
        for (int64_t j = 0; j < d; ++j)
            for (int v = 0; v < RV; ++v) {
                const vd value = load(out + j * N + v * LD);
                rest[v] += value * value;
            }
        double* y = out + d * N;
        all_products<RV>(
            prior.q, [this](int64_t i) { return prior.basis + i * prior.d; }, d, out, N,
            [&](int64_t i, const vd(&s)[RV]) {
                for (int v = 0; v < RV; ++v) {
                    store(y + i * N + v * LD, s[v]);
                    rest[v] -= s[v] * s[v];
                }
            });
        for (int v = 0; v < RV; ++v) store(y + prior.q * N + v * LD, rest[v]);
    }
};

static scstream::Pass* subspace_pass(const SubspacePrior& prior, const AssignmentParams& plan) {
    return new RowPass<SubspaceFamily>(SubspaceFamily{prior}, plan);
}

static void subspace_scores(const SubspacePrior& prior, const double* table, int64_t groups,
                            bool predictive, const Rows& rows, int64_t begin, int64_t end,
                            double* out) {
    row_scores(SubspaceFamily{prior}, table, groups, predictive, rows, begin, end, out);
}

}  // namespace SCSTREAM_ISA
