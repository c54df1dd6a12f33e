// The direction family on rows: products with sums of unit rows, and the integral over kappa.
// Formulas: src/scstream/families/direction.py and sphere.py, which are the specification.
#pragma once

#include "dots.h"
#include "pass.h"

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

// Bounds of the log moment generating function by the square t^2 of its argument, in which it is
// concave: the tangent near the rows of other groups, and the chord over all unit rows.
struct Bounds {
    Bounds(double natural, double scale, double factor, const DirectionPrior& prior, double zero) {
        const double length = std::sqrt(natural), far = natural + scale * scale, step = 1e-3 * far;
        const double low = (length - scale) * (length - scale);
        const double high = (length + scale) * (length + scale);
        vd squares = all(low);
        squares[0] = far + step;
        squares[1] = far - step;
        vd values = expansion(squares, prior.order) + (factor - zero);
        tangent = (values[0] - values[1]) / (2.0 * step);
        most = 0.5 * (values[0] + values[1]) - tangent * far;
        squares[0] = low;
        squares[1] = high;
        values = expansion(squares, prior.order) + (factor - zero);
        chord = high > low ? (values[1] - values[0]) / (high - low) : 0.0;
        least = values[0] - chord * low;
    }
    double most, tangent, least, chord;
};

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
          bounds_(predictive ? groups * prior.c : 0, RAW),
          zero_(expansion(vd{}, prior.order)) {
        for (int64_t g = 0; g < groups; ++g) {
            add_[g] = add ? add[g] : 0.0;
            const double *square = vector(g) + prior.d, *factor = square + prior.c;
            for (int64_t i = 0; predictive && i < prior.c; ++i)
                bounds_[g * prior.c + i] = Bounds(square[i], prior.scales[i], factor[i], prior, zero_[0]);
        }
    }

    // Scores of tiles of rows under every group: out[g * stride + row]; `top` is raised to the
    // best. With a finite slack, a score that is certainly so far below the best is left at minus
    // infinity.
    void scores(const double* x, int64_t tiles, double* out, int64_t stride, double* top,
                double slack) const {
        constexpr int T = TILE<double>;
        for (int64_t t = 0; t < tiles; ++t, x += (prior_.d + 1) * T, out += T, top += T) {
            all_products<ROW_VECTORS>(
                groups, [this](int64_t g) { return vector(g); }, prior_.d, x, T,
                [&](int64_t g, const vd(&s)[ROW_VECTORS]) {
                    for (int v = 0; v < ROW_VECTORS; ++v) store(out + g * stride + v * LD, s[v]);
                });
            for (int v = 0; v < ROW_VECTORS; ++v)
                finish(load(x + prior_.d * T + v * LD), out + v * LD, stride, top + v * LD, slack);
        }
    }

    // Scores of a few rows under one group.
    vd score(int64_t g, const double* x) const {
        return score_of(g, row_products(vector(g), prior_.d, x), load(x + prior_.d * LD));
    }

    bool in_cache() const { return true; }  // a tile is large: only one is held at a time

    const int64_t groups;

  private:
    const double* vector(int64_t g) const { return table_ + g * width_ + (predictive_ ? 0 : 1); }

    // Turn the products of a vector of rows into scores, in place.
    void finish(vd along, double* out, int64_t stride, double* top, double slack) const {
        const bool bounded = predictive_ && slack != double(INFINITY);
        vd best = load(top);
        Buffer<vd> most(bounded ? groups : 0, RAW);
        for (int64_t g = 0; bounded && g < groups; ++g)
            best = larger<double>(best, bound(g, load(out + g * stride), along, most[g]));
        vd found = load(top);
        for (int64_t g = 0; g < groups; ++g) {
            double* place = out + g * stride;
            vd value = all(-double(INFINITY));
            if (!bounded || any<double>(most[g] > best - slack))
                value = score_of(g, load(place), along);
            store(place, value);
            found = larger<double>(found, value);
        }
        store(top, found);
    }

    // The least score of rows under a group; `most` is set to the largest one.
    INLINE_MEMBER vd bound(int64_t g, vd with_sum, vd along, vd& most) const {
        const double* square = vector(g) + prior_.d;
        vd least = all(-double(INFINITY));
        most = least;
        for (int64_t i = 0; i < prior_.c; ++i) {
            const Bounds& line = bounds_[g * prior_.c + i];
            const vd natural = natural_square(i, square[i], with_sum, along);
            most = larger<double>(most, line.most + line.tangent * natural);
            least = larger<double>(least, line.least + line.chord * natural);
        }
        most += log_c_ + add_[g];
        return least + add_[g];
    }

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

    INLINE_MEMBER vd natural_square(int64_t i, double square, vd with_sum, vd along) const {
        const double scale = prior_.scales[i];
        const vd natural = with_sum * (2.0 * scale * scale) + (2.0 * scale * along + scale * scale);
        return larger<double>(natural + square, vd{});
    }

    INLINE_MEMBER vd term(int64_t i, double square, vd with_sum, vd along) const {
        return expansion(natural_square(i, square, with_sum, along), prior_.order) - zero_;
    }

    const DirectionPrior& prior_;
    const bool predictive_;
    const int64_t width_;
    const double* table_;
    Buffer<double> add_;
    Buffer<Bounds> bounds_;
    const vd zero_;
    const double log_c_ = std::log(double(prior_.c));
};

// Counts and sums of unit rows of the two sub-clusters of one cluster.
struct DirectionSums {
    void add(const double* x, vd left, vd right, double* stats) {
        stats[0] += sum<double>(left);
        add_rows(left, x, d, stats + 1);
        stats[1 + d] += sum<double>(right);
        add_rows(right, x, d, stats + 2 + d);
    }
    void flush(double*) {}

    const int64_t d;
};

INLINE double inverse_length(const double* row, int64_t d) {
    const double square = dot(row, row, d);
    return square > 0.0 ? 1.0 / std::sqrt(square) : 1.0;
}

// The family as the pass sees it. Behind the unit rows of a tile stands the product of each row with
// the centre, times the strength.
struct DirectionFamily {
    using T = double;
    static constexpr bool CAN_SCREEN = false;
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
        const double* row[TILE<T>];
        double inverse[TILE<T>];
        for (int64_t r = 0; r < TILE<T>; ++r) {
            row[r] = rows.x + (first + (r < count ? r : count - 1)) * prior.d;
            inverse[r] = r < count ? inverse_length(row[r], prior.d) : inverse[r - 1];
        }
        transpose(TILE<T>, prior.d, TILE<T>, out,
                  [&](int64_t r, int64_t j) { return row[r][j] * inverse[r]; });
        for (int64_t r = 0; r < TILE<T>; ++r)
            out[prior.d * TILE<T> + r] = prior.strength * dot(prior.centre, row[r], prior.d) * inverse[r];
    }

    // A few rows, one behind the other.
    void pack_vector(const Rows& rows, const int64_t (&row)[LD], double* out) const {
        for (int l = 0; l < LD; ++l) {
            const double *x = rows.x + row[l] * prior.d, inverse = inverse_length(x, prior.d);
            for (int64_t j = 0; j < prior.d; ++j) out[l * prior.d + j] = x[j] * inverse;
            out[prior.d * LD + l] = prior.strength * dot(prior.centre, x, prior.d) * inverse;
        }
    }

    const DirectionPrior& prior;
};
template <> constexpr bool MOSTLY_FAR<DirectionFamily> = true;

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
