// Logarithms of mixture weights, at their means or drawn: core/weights.py is the specification.
#pragma once

#include <algorithm>
#include <cmath>

#include "arrays.h"

namespace scstream {

constexpr double EMPTY = 1e-100;  // weight of an empty cluster

inline nb::tuple log_mean_weights(Counts subclusters, double alpha) {
    const size_t k = subclusters.shape(0);
    Fresh<double> clusters{int64_t(k)}, half{2 * int64_t(k)};
    for (size_t i = 0; i < k; ++i) {
        const double left = subclusters(i, 0), right = subclusters(i, 1), weight = left + right;
        clusters.data()[i] = std::log(std::max(weight, EMPTY));
        half.data()[2 * i] = std::log(left + alpha / 2.0) - std::log(weight + alpha);
        half.data()[2 * i + 1] = std::log(right + alpha / 2.0) - std::log(weight + alpha);
    }
    return nb::make_tuple(clusters.array({k}), half.array({k, 2}));
}

inline nb::tuple sample_log_weights(Counts subclusters, double alpha, uint64_t key, Ids ids) {
    const size_t k = subclusters.shape(0);
    require(ids.size() == k, "one id per cluster is needed");
    Fresh<double> clusters{int64_t(k)}, half{2 * int64_t(k)};
    double drawn[3], shape[3] = {alpha, 1.0, 1.0};
    for (size_t i = 0; i < k; ++i) {
        const double left = subclusters(i, 0), right = subclusters(i, 1);
        const double shapes[3] = {std::max(left + right, EMPTY), left + alpha / 2.0,
                                  right + alpha / 2.0};
        kernels()->log_gammas(key, ids.data() + i, 1, 0, shapes, 3, drawn);
        const double top = std::max(drawn[1], drawn[2]);
        const double total = top + std::log1p(std::exp(std::min(drawn[1], drawn[2]) - top));
        clusters.data()[i] = drawn[0];
        half.data()[2 * i] = drawn[1] - total;
        half.data()[2 * i + 1] = drawn[2] - total;
    }
    const int64_t never_given = -1;
    kernels()->log_gammas(key, &never_given, 1, 0, shape, 1, drawn);
    return nb::make_tuple(clusters.array({k}), drawn[0], half.array({k, 2}));
}

}  // namespace scstream
