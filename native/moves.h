// Ratios of moves, neighbours and shrinkage: core/moves.py and core/fading.py are the specification.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "arrays.h"

namespace scstream {

// Log odds of two clusters against one, by the Dirichlet process and their log marginals.
inline double log_odds(double alpha, double n_left, double n_right, double log_left,
                       double log_right, double log_union) {
    const double left = std::max(n_left, std::numeric_limits<double>::min());
    const double right = std::max(n_right, std::numeric_limits<double>::min());
    return std::log(alpha) + std::lgamma(left) + std::lgamma(right) - std::lgamma(left + right) +
           log_left + log_right - log_union;
}

inline Output log_odds_of_two(double alpha, Strided n_left, Strided n_right, Strided log_left,
                              Strided log_right, Strided log_union) {
    const size_t n = n_left.size();
    require(n_right.size() == n && log_left.size() == n && log_right.size() == n &&
                log_union.size() == n,
            "the groups do not fit together");
    std::vector<double> out(n);
    for (size_t i = 0; i < n; ++i)
        out[i] = log_odds(alpha, n_left(i), n_right(i), log_left(i), log_right(i), log_union(i));
    return fresh(out).array({n});
}

// Shrink a vector towards zero by what chance would explain.
inline void shrink(const double* vector, const double* stds, double chance, int64_t d,
                   double* out) {
    double size = 0.0;
    for (int64_t j = 0; j < d; ++j) size += vector[j] / stds[j] * (vector[j] / stds[j]);
    const double share = std::max(0.0, 1.0 - chance / std::max(size, 1e-100));
    for (int64_t j = 0; j < d; ++j) out[j] = vector[j] * share;
}

inline Output shrink_vectors(Matrix vectors, Matrix stds, Vector chance) {
    const size_t k = vectors.shape(0), d = vectors.shape(1);
    require(stds.size() == k * d && chance.size() == k, "the vectors do not fit together");
    std::vector<double> out(k * d);
    for (size_t i = 0; i < k; ++i)
        shrink(vectors.data() + i * d, stds.data() + i * d, chance.data()[i], int64_t(d),
               out.data() + i * d);
    return fresh(out).array({k, d});
}

using PairList = std::vector<std::pair<int64_t, int64_t>>;

// Pairs (i < j) of points of which one is among the other's nearest, in order.
inline PairList nearest_pairs(const double* points, int64_t n, int64_t d, int64_t n_neighbours) {
    const int64_t most = n_neighbours < n - 1 ? n_neighbours : n - 1;
    PairList pairs;
    if (most <= 0) return pairs;
    nb::gil_scoped_release free;
    std::vector<int64_t> near(size_t(n * most));
    const double work = double(n) * double(n) * double(d);
    run_ranges(n, 64, threads_for(work, (n + 63) / 64), [&](int64_t begin, int64_t end) {
        kernels()->nearest(points, n, d, most, begin, end, near.data() + begin * most);
    });
    for (int64_t i = 0; i < n * most; ++i) {
        const int64_t a = i / most, b = near[size_t(i)];
        pairs.emplace_back(a < b ? a : b, a < b ? b : a);
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs;
}

inline nb::tuple pair_arrays(const PairList& pairs) {
    Fresh<int64_t> first{int64_t(pairs.size())}, second{int64_t(pairs.size())};
    for (size_t m = 0; m < pairs.size(); ++m) {
        first.data()[m] = pairs[m].first;
        second.data()[m] = pairs[m].second;
    }
    return nb::make_tuple(first.array({pairs.size()}), second.array({pairs.size()}));
}

inline nb::tuple neighbour_pairs(Matrix points, int64_t n_neighbours) {
    return pair_arrays(nearest_pairs(points.data(), int64_t(points.shape(0)),
                                     int64_t(points.shape(1)), n_neighbours));
}

}  // namespace scstream
