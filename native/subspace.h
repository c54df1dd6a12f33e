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
    // best. With a finite slack, a score that is certainly so far below the best that came before
    // it, in all rows of a vector, is left at minus infinity.
    void scores(const double* x, int64_t tiles, double* out, int64_t stride, double* top,
                double slack) const {
        constexpr int T = TILE<double>;
        for (int64_t t = 0; t < tiles; ++t, x += prior_.packed() * T, out += T, top += T)
            all_products<ROW_VECTORS>(
                groups, [this](int64_t g) { return mean(g); }, prior_.d, x, T,
                [&](int64_t g, const vd(&s)[ROW_VECTORS]) {
                    const double *y = x + prior_.d * T, *rest = y + prior_.q * T;
                    vd least[ROW_VECTORS], value[ROW_VECTORS];
                    for (int v = 0; v < ROW_VECTORS; ++v) {
                        least[v] = load(top + v * LD) - slack;
                        value[v] = outside(g, s[v], load(rest + v * LD));
                    }
                    add_inside<ROW_VECTORS>(g, y, least, value);
                    for (int v = 0; v < ROW_VECTORS; ++v) {
                        store(out + g * stride + v * LD, value[v]);
                        store(top + v * LD, larger<double>(value[v], load(top + v * LD)));
                    }
                });
    }

    // Scores of a few rows under one group.
    vd score(int64_t g, const double* x) const {
        const double *y = x + prior_.d * LD;
        vd value[1] = {outside(g, row_products(mean(g), prior_.d, x), load(y + prior_.q * LD))};
        const vd least[1] = {all(-double(INFINITY))};
        add_inside<1>(g, y, least, value);
        return value[0];
    }

    bool in_cache() const { return true; }  // a tile is large: only one is held at a time

    const int64_t groups;

  private:
    const double* mean(int64_t g) const { return table_ + g * width_ + inside_; }

    // All of the score but what depends on the coordinates inside, by the product of the rows with
    // the mean outside, and their square lengths there. It is an upper bound of the score.
    INLINE_MEMBER vd outside(int64_t g, vd with_mean, vd rest) const {
        const vd far = larger<double>(rest + (square_[g] - 2.0 * with_mean), vd{});
        return constant_[g] - 0.5 * mean(g)[prior_.d] * far;
    }

    // Add what depends on the coordinates inside; minus infinity where that is below `least` anyway.
    template <int RV>
    INLINE_MEMBER void add_inside(int64_t g, const double* y, const vd (&least)[RV],
                                  vd (&score)[RV]) const {
        const double *inside = table_ + g * width_, power = inside[inside_ - 1];
        bool matter[RV], any_matters = false;
        for (int v = 0; v < RV; ++v) {
            matter[v] = any<double>(score[v] > least[v]);
            any_matters |= matter[v];
        }
        vd apart[RV] = {};
        if (any_matters) squares_in_strips<double, RV>(inside, prior_.q, y, RV * LD, apart);
        for (int v = 0; v < RV; ++v) {
            if (!predictive_)
                score[v] -= 0.5 * apart[v];
            else if (any<double>(score[v] - power * at_most_log1p<double>(apart[v]) > least[v]))
                score[v] -= power * log1p_of<double>(apart[v]);
            else
                matter[v] = false;
            if (!matter[v]) score[v] = all(-double(INFINITY));
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
            if (!any<double>((Int<double>)(weight != 0.0))) continue;
            stats[0] += sum<double>(weight);
            add_rows(weight, x, prior.d, stats + 1);
            for (int l = 0; l < LD; ++l)
                if (weight[l] != 0.0) add_squares(x, l, weight[l], stats + 1 + prior.d);
        }
    }
    void flush(double*) {}

    // Add the square length of a row, and the upper triangle of its second moments inside.
    void add_squares(const double* x, int l, double weight, double* squares) const {
        const double *rest = x + (prior.d + prior.q) * LD, *y = rest + LD + l * prior.q;
        squares[0] += weight * (rest[l] + dot(y, y, prior.q));
        double* second = squares + 1;
        for (int64_t i = 0; i < prior.q; second += prior.q - i, ++i) {
            const double factor = weight * y[i];
            for (int64_t j = i; j < prior.q; ++j) second[j - i] += factor * y[j];
        }
    }

    const SubspacePrior& prior;
};

// The family as the pass sees it. A tile has the scaled rows, their coordinates inside, and their
// square lengths outside.
struct SubspaceFamily {
    using T = double;
    static constexpr bool CAN_SCREEN = false;
    template <class R> using Tables = SubspaceTables;

    int64_t n_stats() const { return prior.n_stats(); }
    SubspaceSums sums() const { return {prior}; }

    template <class R>
    SubspaceTables tables(const double* table, int64_t groups, bool predictive,
                          const double* add = nullptr) const {
        return SubspaceTables(prior, table, groups, predictive, add);
    }

    int64_t tile_size() const { return prior.packed() * TILE<T>; }
    int64_t vector_size() const { return (prior.packed() + prior.q) * LD; }

    // A tile of rows; beyond `count` the last is repeated.
    void pack_tile(const Rows& rows, int64_t first, int64_t count, double* out) const {
        constexpr int N = TILE<T>;
        const int64_t d = prior.d;
        transpose(N, d, N, out, [&](int64_t r, int64_t j) {
            return scaled(rows.x + (first + (r < count ? r : count - 1)) * d, j);
        });
        vd rest[ROW_VECTORS] = {};
        for (int64_t j = 0; j < d; ++j)
            for (int v = 0; v < ROW_VECTORS; ++v) {
                const vd value = load(out + j * N + v * LD);
                rest[v] += value * value;
            }
        double* y = out + d * N;
        all_products<ROW_VECTORS>(
            prior.q, [this](int64_t i) { return prior.basis + i * prior.d; }, d, out, N,
            [&](int64_t i, const vd(&s)[ROW_VECTORS]) {
                for (int v = 0; v < ROW_VECTORS; ++v) {
                    store(y + i * N + v * LD, s[v]);
                    rest[v] -= s[v] * s[v];
                }
            });
        for (int v = 0; v < ROW_VECTORS; ++v) store(y + prior.q * N + v * LD, rest[v]);
    }

    // A few rows, one behind the other; then their coordinates, feature by feature; their square
    // lengths outside; and their coordinates again, row by row.
    void pack_vector(const Rows& rows, const int64_t (&row)[LD], double* out) const {
        double* y = out + prior.d * LD;
        vd rest;
        for (int l = 0; l < LD; ++l) {
            double* z = out + l * prior.d;
            for (int64_t j = 0; j < prior.d; ++j) z[j] = scaled(rows.x + row[l] * prior.d, j);
            rest[l] = dot(z, z, prior.d);
        }
        for (int64_t i = 0; i < prior.q; ++i) {
            const vd s = row_products(prior.basis + i * prior.d, prior.d, out);
            store(y + i * LD, s);
            rest -= s * s;
            for (int l = 0; l < LD; ++l) y[(prior.q + 1) * LD + l * prior.q + i] = s[l];
        }
        store(y + prior.q * LD, rest);
    }

    const SubspacePrior& prior;

  private:
    INLINE_MEMBER double scaled(const double* x, int64_t j) const {
        return (x[j] - prior.origin[j]) * prior.inverse_scale[j];
    }
};
template <> constexpr bool MOSTLY_FAR<SubspaceFamily> = true;

static scstream::Pass* subspace_pass(const SubspacePrior& prior, const AssignmentParams& plan) {
    return new RowPass<SubspaceFamily>(SubspaceFamily{prior}, plan);
}

static void subspace_scores(const SubspacePrior& prior, const double* table, int64_t groups,
                            bool predictive, const Rows& rows, int64_t begin, int64_t end,
                            double* out) {
    row_scores(SubspaceFamily{prior}, table, groups, predictive, rows, begin, end, out);
}

}  // namespace SCSTREAM_ISA
