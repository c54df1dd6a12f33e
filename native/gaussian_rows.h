// The Gaussian family on rows: square distances |W x - b|^2, scores, and sums of moments.
//
// Rows stand in tiles, feature by feature, so that a vector holds one feature of several rows.
// Up to SMALL features the triangle is unrolled; above, it is cut into strips of STRIP rows.
#pragma once

#include "gaussian.h"
#include "tables.h"

namespace SCSTREAM_ISA {

using scstream::AssignmentParams;
using scstream::Rows;

constexpr int SMALL = 16;
constexpr int STRIP = 6;

// |W x - b|^2 of RV vectors of rows, for a W of D features with all loops unrolled.
template <class T, int D, int RV>
INLINE void squares_unrolled(const T* table, const T* x, int64_t stride, Vec<T> (&s)[RV]) {
    const T* w = table;
    const T* b = table + D * (D + 1) / 2;
    for (int v = 0; v < RV; ++v) s[v] = Vec<T>{};
#pragma GCC unroll 16
    for (int i = 0; i < D; ++i) {
        Vec<T> y[RV];
        for (int v = 0; v < RV; ++v) y[v] = all(-b[i]);
#pragma GCC unroll 16
        for (int j = 0; j <= i; ++j) {
            const T entry = *w++;
            for (int v = 0; v < RV; ++v) y[v] += entry * load(x + j * stride + v * LANES<T>);
        }
        for (int v = 0; v < RV; ++v) s[v] += y[v] * y[v];
    }
}

// Rows [i, i + N) of W: their sums stay in registers while the features of the tile go by.
template <class T, int N, int RV>
INLINE void add_strip(const T* table, const T* b, int64_t i, const T* x, int64_t stride,
                      Vec<T> (&s)[RV]) {
    const T* w[N];
    Vec<T> y[N][RV];
#pragma GCC unroll 8
    for (int a = 0; a < N; ++a) {
        w[a] = table + at(i + a, 0);
        for (int v = 0; v < RV; ++v) y[a][v] = all(-b[i + a]);
    }
    for (int64_t j = 0; j < i; ++j) {
        Vec<T> xs[RV];
#pragma GCC unroll 8
        for (int v = 0; v < RV; ++v) xs[v] = load(x + j * stride + v * LANES<T>);
#pragma GCC unroll 8
        for (int a = 0; a < N; ++a)
            for (int v = 0; v < RV; ++v) y[a][v] += w[a][j] * xs[v];
    }
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c)
#pragma GCC unroll 8
        for (int v = 0; v < RV; ++v) {
            const Vec<T> xs = load(x + (i + c) * stride + v * LANES<T>);
#pragma GCC unroll 8
            for (int a = c; a < N; ++a) y[a][v] += w[a][i + c] * xs;
            s[v] += y[c][v] * y[c][v];
        }
}

template <class T, int RV>
INLINE void squares_in_strips(const T* table, int64_t d, const T* x, int64_t stride,
                              Vec<T> (&s)[RV]) {
    const T* b = table + at(d, 0);
    for (int v = 0; v < RV; ++v) s[v] = Vec<T>{};
    int64_t i = 0;
    for (; i + STRIP <= d; i += STRIP) add_strip<T, STRIP, RV>(table, b, i, x, stride, s);
    if (i + 3 <= d) add_strip<T, 3, RV>(table, b, i, x, stride, s), i += 3;
    for (; i < d; ++i) add_strip<T, 1, RV>(table, b, i, x, stride, s);
}

template <class T, int D, int RV>
INLINE void squares(const T* table, int64_t d, const T* x, int64_t stride, Vec<T> (&s)[RV]) {
    if constexpr (D > 0)
        squares_unrolled<T, D, RV>(table, x, stride, s);
    else
        squares_in_strips<T, RV>(table, d, x, stride, s);
}

// How a square distance s becomes a score: -s/2, or -power log(1 + s), the latter only where an
// upper bound says that it matters.
enum Form { EXPONENT, STUDENT, BOUNDED_STUDENT };

// Tables of groups as the family makes them: packed lower W, b = W m, constant and, of a predictive,
// power. In float32 they are rounded copies.
template <class T> class GaussianTables {
  public:
    GaussianTables(int64_t d, const double* table, int64_t groups, bool predictive,
                   const double* add)
        : groups(groups),
          d_(d),
          width_(at(d, 0) + d + (predictive ? 2 : 1)),
          predictive_(predictive),
          table_(table, groups * width_),
          constant_(groups, RAW),
          power_(groups, RAW) {
        for (int64_t g = 0; g < groups; ++g) {
            const double* last = table + g * width_ + at(d, 0) + d;
            constant_[g] = T(last[0] + (add ? add[g] : 0.0));
            power_[g] = T(predictive ? last[1] : 0.5);
        }
    }

    // Scores of tiles of rows under every group: out[g * stride + row]; `top` is raised to the best.
    // With a finite slack, a score that is certainly so far below the best that came before it, in
    // all rows of a vector, is left at minus infinity.
    void scores(const T* x, int64_t tiles, T* out, int64_t stride, T* top, T slack) const {
        switch (d_) {
#define CASE(D) \
    case D:     \
        return scores_at<D>(x, tiles, out, stride, top, slack);
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
            CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
            default: return scores_at<0>(x, tiles, out, stride, top, slack);
        }
    }

    // Scores of one vector of rows under one group.
    Vec<T> score(int64_t g, const T* x) const {
        switch (d_) {
#define CASE(D) \
    case D:     \
        return score_at<D>(g, x);
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
            CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
            default: return score_at<0>(g, x);
        }
    }

    // Scores of two vectors of rows, which stand feature by feature side by side.
    void score_two(int64_t g, const T* x, Vec<T> (&out)[2]) const {
        Vec<T> s[2];
        squares<T, 0, 2>(table_.get() + g * width_, d_, x, 2 * LANES<T>, s);
        for (int v = 0; v < 2; ++v)
            out[v] = predictive_ ? constant_[g] - power_[g] * log1p_of<T>(s[v])
                                 : constant_[g] - T(0.5) * s[v];
    }

    // Whether all tables fit where every tile of rows may come back to them.
    bool in_cache() const { return groups * width_ <= IN_CACHE; }

    const int64_t groups;

  private:
    template <int D>
    void scores_at(const T* x, int64_t tiles, T* out, int64_t stride, T* top, T slack) const {
        if (!predictive_)
            scores_by<D, EXPONENT>(x, tiles, out, stride, top, slack);
        else if (slack == T(INFINITY))
            scores_by<D, STUDENT>(x, tiles, out, stride, top, slack);
        else
            scores_by<D, BOUNDED_STUDENT>(x, tiles, out, stride, top, slack);
    }

    template <int D, Form FORM>
    void scores_by(const T* x, int64_t tiles, T* out, int64_t stride, T* top, T slack) const {
        const int64_t tile_size = d_ * TILE<T>;
        if (in_cache()) {
            for (int64_t t = 0; t < tiles; ++t)
                for (int64_t g = 0; g < groups; ++g)
                    scores_of<D, FORM>(g, x + t * tile_size, out + g * stride + t * TILE<T>,
                                       top + t * TILE<T>, slack);
        } else {
            for (int64_t g = 0; g < groups; ++g)
                for (int64_t t = 0; t < tiles; ++t)
                    scores_of<D, FORM>(g, x + t * tile_size, out + g * stride + t * TILE<T>,
                                       top + t * TILE<T>, slack);
        }
    }

    template <int D, Form FORM>
    INLINE_MEMBER void scores_of(int64_t g, const T* x, T* out, T* top, T slack) const {
        const T constant = constant_[g], power = power_[g];
        Vec<T> s[ROW_VECTORS];
        squares<T, D, ROW_VECTORS>(table_.get() + g * width_, d_, x, TILE<T>, s);
#pragma GCC unroll 4
        for (int v = 0; v < ROW_VECTORS; ++v) {
            const Vec<T> best = load(top + v * LANES<T>);
            Vec<T> value = all(T(-INFINITY));
            if (FORM == EXPONENT)
                value = constant - T(0.5) * s[v];
            else if (FORM == STUDENT ||
                     any<T>(constant - power * at_most_log1p<T>(s[v]) > best - slack))
                value = constant - power * log1p_of<T>(s[v]);
            store(out + v * LANES<T>, value);
            store(top + v * LANES<T>, larger<T>(value, best));
        }
    }

    template <int D> INLINE_MEMBER Vec<T> score_at(int64_t g, const T* x) const {
        Vec<T> s[1];
        squares<T, D, 1>(table_.get() + g * width_, d_, x, LANES<T>, s);
        if (!predictive_) return constant_[g] - T(0.5) * s[0];
        return constant_[g] - power_[g] * log1p_of<T>(s[0]);
    }

    const int64_t d_, width_;
    const bool predictive_;
    const Rounded<T> table_;
    Buffer<T> constant_, power_;
};

// Sums of moments of the two subclusters of one cluster. With few features every lane sums for itself;
// with many, rows are collected and added four at a time, which keeps the sums' memory traffic low.
class GaussianSums {
  public:
    explicit GaussianSums(int64_t d)
        : d_(d),
          n_stats_(1 + d + d * (d + 1) / 2),
          lanes_(d <= SMALL ? 2 * n_stats_ : 0),
          rows_(d <= SMALL ? 0 : 2 * ROWS * d) {}

    // Add one vector of rows, x by features, with their weights in either half.
    void add(const double* x, vd left, vd right, double* stats) {
        if (d_ <= SMALL) return add_lanes(x, left, right);
        for (int side = 0; side < 2; ++side) {
            const vd weight = side ? right : left;
            for (int lane = 0; lane < LD; ++lane)
                if (weight[lane] != 0.0) collect(x + lane, weight[lane], side, stats);
        }
    }

    // Write what was collected to the statistics (2, P) of the cluster, and begin again.
    void flush(double* stats) {
        for (int64_t p = 0; d_ <= SMALL && p < 2 * n_stats_; ++p) {
            stats[p] += sum<double>(lanes_[p]);
            lanes_[p] = vd{};
        }
        for (int side = 0; d_ > SMALL && side < 2; ++side)
            if (held_[side]) add_collected(side, stats);
    }

  private:
    static constexpr int ROWS = 4;

    void add_lanes(const double* x, vd left, vd right) {
        vd *l = lanes_.get(), *r = l + n_stats_;
        *l++ += left;
        *r++ += right;
        for (int64_t i = 0; i < d_; ++i) {
            const vd xi = load(x + i * LD);
            *l++ += left * xi;
            *r++ += right * xi;
        }
        for (int64_t i = 0; i < d_; ++i) {
            const vd xi = load(x + i * LD), li = left * xi, ri = right * xi;
            for (int64_t j = i; j < d_; ++j) {
                const vd xj = load(x + j * LD);
                *l++ += li * xj;
                *r++ += ri * xj;
            }
        }
    }

    void collect(const double* x, double weight, int side, double* stats) {
        double* row = rows_.get() + (side * ROWS + held_[side]) * d_;
        for (int64_t i = 0; i < d_; ++i) row[i] = x[i * LD];
        weight_[side][held_[side]] = weight;
        if (++held_[side] == ROWS) add_collected(side, stats);
    }

    void add_collected(int side, double* stats) {
        const double* x[ROWS];
        double weight[ROWS];
        for (int r = 0; r < ROWS; ++r) {
            x[r] = rows_.get() + (side * ROWS + (r < held_[side] ? r : 0)) * d_;
            weight[r] = r < held_[side] ? weight_[side][r] : 0.0;
        }
        held_[side] = 0;
        stats += side * n_stats_;
        for (int r = 0; r < ROWS; ++r) stats[0] += weight[r];
        add_outer(weight, x, 0, stats + 1);
        double* second = stats + 1 + d_;
        for (int64_t i = 0; i < d_; second += d_ - i, ++i) {
            double scaled[ROWS];
            for (int r = 0; r < ROWS; ++r) scaled[r] = weight[r] * x[r][i];
            add_outer(scaled, x, i, second);
        }
    }

    // out[j - begin] += sum over rows of factor * x[j], for j from `begin`
    void add_outer(const double (&factor)[ROWS], const double* const (&x)[ROWS], int64_t begin,
                   double* out) const {
        int64_t j = begin;
        for (; j + LD <= d_; j += LD) {
            vd value = load(out + j - begin);
            for (int r = 0; r < ROWS; ++r) value += factor[r] * load(x[r] + j);
            store(out + j - begin, value);
        }
        for (; j < d_; ++j)
            for (int r = 0; r < ROWS; ++r) out[j - begin] += factor[r] * x[r][j];
    }

    const int64_t d_, n_stats_;
    Buffer<vd> lanes_;
    Buffer<double> rows_;
    double weight_[2][ROWS] = {};
    int held_[2] = {0, 0};
};

// The family as the pass sees it.
template <class Real> struct GaussianFamily {
    using T = Real;
    using Sums = GaussianSums;
    static constexpr bool CAN_SCREEN = true;
    template <class R> using Tables = GaussianTables<R>;

    explicit GaussianFamily(const GaussianPrior& prior) : prior(prior) {}

    int64_t n_stats() const { return prior.n_stats(); }
    Sums sums() const { return Sums(prior.d); }

    template <class R>
    Tables<R> tables(const double* table, int64_t groups, bool predictive,
                     const double* add = nullptr) const {
        return Tables<R>(prior.d, table, groups, predictive, add);
    }

    // Numbers of one tile, and of one vector of rows.
    int64_t tile_size() const { return prior.d * TILE<T>; }
    int64_t vector_size() const { return prior.d * LD; }

    // A tile of rows; beyond `count` the last is repeated.
    void pack_tile(const Rows& rows, int64_t first, int64_t count, T* out) const {
        for (int64_t r = 0; r < TILE<T>; ++r) {
            const double* row = rows.x + (first + (r < count ? r : count - 1)) * prior.d;
            for (int64_t i = 0; i < prior.d; ++i)
                out[i * TILE<T> + r] = T(row[i] - prior.origin[i]);
        }
    }

    void pack_vector(const Rows& rows, const int64_t (&row)[LD], double* out) const {
        for (int l = 0; l < LD; ++l) {
            const double* x = rows.x + row[l] * prior.d;
            for (int64_t i = 0; i < prior.d; ++i) out[i * LD + l] = x[i] - prior.origin[i];
        }
    }

    const GaussianPrior& prior;
};

}  // namespace SCSTREAM_ISA
