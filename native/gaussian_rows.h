// The Gaussian family on rows: square distances |W x - b|^2, scores, and sums of moments.
//
// Rows stand in tiles, feature by feature, so that a vector holds one feature of several rows.
// Up to SMALL features the triangle is unrolled; above, it is cut into strips of STRIP rows of W,
// whose sums stay in registers while the features of a tile go by.
#pragma once

#include "gaussian.h"

namespace SCSTREAM_ISA {

using scstream::Plan;
using scstream::Rows;

constexpr int SMALL = 16;
constexpr int STRIP = 6;
constexpr int64_t IN_CACHE = 1 << 15;  // numbers of tables that stay in the first caches

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

// One strip of N rows of W, stored column by column, that ends at the diagonal.
template <class T, int N, int RV>
INLINE const T* add_strip(const T* w, const T* b, const T* x, int64_t stride, int64_t columns,
                          Vec<T> (&s)[RV]) {
    Vec<T> y[N][RV];
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i)
        for (int v = 0; v < RV; ++v) y[i][v] = all(-b[i]);
    for (int64_t j = 0; j < columns; ++j, w += N) {
        Vec<T> xs[RV];
#pragma GCC unroll 8
        for (int v = 0; v < RV; ++v) xs[v] = load(x + j * stride + v * LANES<T>);
#pragma GCC unroll 8
        for (int i = 0; i < N; ++i)
            for (int v = 0; v < RV; ++v) y[i][v] += w[i] * xs[v];
    }
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i)
        for (int v = 0; v < RV; ++v) s[v] += y[i][v] * y[i][v];
    return w;
}

template <class T, int RV>
INLINE void squares_in_strips(const T* table, int64_t d, const T* x, int64_t stride,
                              Vec<T> (&s)[RV]) {
    const T* b = table;
    const T* w = table + d;
    for (int v = 0; v < RV; ++v) s[v] = Vec<T>{};
    int64_t i = 0;
    for (; i + STRIP <= d; i += STRIP)
        w = add_strip<T, STRIP, RV>(w, b + i, x, stride, i + STRIP, s);
    for (; i < d; ++i) w = add_strip<T, 1, RV>(w, b + i, x, stride, i + 1, s);
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
#ifndef LOOKK
#define LOOKK 24
#endif
constexpr int64_t WORTH_A_BOUND = LOOKK;  // groups

// Tables of groups, rounded to T and laid out for the kernels above.
template <class T> class GaussianTables {
  public:
    GaussianTables(int64_t d, const double* table, int64_t groups, bool predictive,
                   const double* add)
        : groups(groups),
          d_(d),
          predictive_(predictive),
          size_(d <= SMALL ? d * (d + 1) / 2 + d : strips_size(d)),
          packed_(groups * size_, RAW),
          constant_(groups, RAW),
          power_(groups, RAW) {
        const int64_t lower = d * (d + 1) / 2, width = lower + d + 1 + (predictive ? 1 : 0);
        for (int64_t g = 0; g < groups; ++g) {
            const double* row = table + g * width;
            pack(row, packed_.get() + g * size_);
            constant_[g] = T(row[lower + d] + (add ? add[g] : 0.0));
            power_[g] = T(predictive ? row[lower + d + 1] : 0.5);
        }
    }

    // Scores of tiles of rows under every group: out[g * stride + row]. A score that is certainly
    // more than `slack` below the best so far, in all rows of a vector, is left at minus infinity.
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

    // Whether all tables fit where every tile of rows may come back to them.
    bool in_cache() const { return groups * size_ <= IN_CACHE; }

    const int64_t groups;

  private:
    static int64_t strips_size(int64_t d) {
        int64_t size = d, i = 0;
        for (; i + STRIP <= d; i += STRIP) size += STRIP * (i + STRIP);
        for (; i < d; ++i) size += i + 1;
        return size;
    }

    void pack(const double* row, T* out) const {
        const double* b = row + d_ * (d_ + 1) / 2;
        if (d_ <= SMALL) {
            for (int64_t p = 0; p < size_; ++p) out[p] = T(row[p]);
            return;
        }
        for (int64_t i = 0; i < d_; ++i) *out++ = T(b[i]);
        int64_t i = 0;
        for (; i + STRIP <= d_; i += STRIP)
            for (int64_t j = 0; j < i + STRIP; ++j)
                for (int a = 0; a < STRIP; ++a) *out++ = j <= i + a ? T(row[at(i + a, j)]) : T(0);
        for (; i < d_; ++i)
            for (int64_t j = 0; j <= i; ++j) *out++ = T(row[at(i, j)]);
    }

    template <int D>
    void scores_at(const T* x, int64_t tiles, T* out, int64_t stride, T* top, T slack) const {
        if (!predictive_)
            scores_by<D, EXPONENT>(x, tiles, out, stride, top, slack);
        else if (groups < WORTH_A_BOUND)
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
        squares<T, D, ROW_VECTORS>(packed_.get() + g * size_, d_, x, TILE<T>, s);
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
        squares<T, D, 1>(packed_.get() + g * size_, d_, x, LANES<T>, s);
        if (!predictive_) return constant_[g] - T(0.5) * s[0];
        return constant_[g] - power_[g] * log1p_of<T>(s[0]);
    }

    const int64_t d_;
    const bool predictive_;
    const int64_t size_;
    Buffer<T> packed_, constant_, power_;
};

// Sums of moments of the two halves of one cluster. With few features every lane sums for itself;
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
        for (int side = 0; d_ > SMALL && side < 2; ++side) add_collected(side, stats);
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
