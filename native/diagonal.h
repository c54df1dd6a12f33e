// The diagonal family on groups: posterior, marginal likelihood, predictive tables, draws.
// Formulas: src/scstream/families/diagonal.py, which is the specification. Features lie along the
// lanes.
#pragma once

#include "pass.h"
#include "rising.h"

namespace SCSTREAM_ISA {

using scstream::DiagonalPrior;

constexpr double LOG_OF_2 = 0.693147180559945309417;
constexpr double LOG_OF_PI = 1.14472988584940017414;

// Posterior of a vector of features of one group; lanes beyond the last are those of an empty one.
struct DiagonalPosterior {
    DiagonalPosterior(const DiagonalPrior& prior, const double* stats, int64_t j)
        : left(prior.d - j), prior_scale(load_some(prior.scale + j, left, 1.0)) {
        const vd m = load_some(prior.mean + j, left, 0.0);
        prior_kappa = load_some(prior.kappa + j, left, 1.0);
        n = load_some(stats + 1 + j, left, 0.0);
        kappa = prior_kappa + n;
        mean = (prior_kappa * m + load_some(stats + 1 + prior.d + j, left, 0.0)) / kappa;
        const vd second = load_some(stats + 1 + 2 * prior.d + j, left, 0.0);
        // Only round-off takes nu* psi* below nu psi.
        scale = larger<double>(prior_scale + second + prior_kappa * m * m - kappa * mean * mean,
                               prior_scale);
        nu = n + prior.nu;
    }
    const int64_t left;
    const vd prior_scale;
    vd prior_kappa, n, kappa, mean, scale, nu;
};

static void diagonal_log_marginal(const DiagonalPrior& prior, const double* stats, int64_t begin,
                                  int64_t end, double* out) {
    for (int64_t g = begin; g < end; ++g) {
        vd total = {};
        for (int64_t j = 0; j < prior.d; j += LD) {
            const DiagonalPosterior p(prior, stats + g * prior.n_stats(), j);
            total += log_rising(all(0.5 * prior.nu), 0.5 * p.n) - 0.5 * LOG_OF_PI * p.n;
            total += 0.5 * (prior.nu * log_of(p.prior_scale) - p.nu * log_of(p.scale));
            total += 0.5 * log_of(p.prior_kappa / p.kappa);
        }
        out[g] = sum<double>(total);
    }
}

static void diagonal_predictive(const DiagonalPrior& prior, const double* stats, int64_t begin,
                                int64_t end, double* out) {
    const int64_t d = prior.d;
    for (int64_t g = begin; g < end; ++g)
        for (int64_t j = 0; j < d; j += LD) {
            const DiagonalPosterior p(prior, stats + g * prior.n_stats(), j);
            const vd square = p.kappa / ((p.kappa + 1.0) * p.scale), whiten = root(square);
            const vd constant =
                log_rising(0.5 * p.nu, all(0.5)) + 0.5 * (log_of(square) - LOG_OF_PI);
            double* row = out + g * 4 * d + j;
            store_some(row, p.left, whiten);
            store_some(row + d, p.left, whiten * p.mean);
            store_some(row + 2 * d, p.left, constant);
            store_some(row + 3 * d, p.left, 0.5 * (p.nu + 1.0));
        }
}

static void diagonal_draw(const DiagonalPrior& prior, const double* stats, const double* normals,
                          const double* log_gammas, int64_t begin, int64_t end, double* out) {
    const int64_t d = prior.d;
    for (int64_t g = begin; g < end; ++g)
        for (int64_t j = 0; j < d; j += LD) {
            const DiagonalPosterior p(prior, stats + g * prior.n_stats(), j);
            const vd log_gamma = load_some(log_gammas + g * d + j, p.left, 0.0);
            const vd noise = load_some(normals + g * d + j, p.left, 0.0) / root(p.kappa);
            const vd log_whiten = 0.5 * (log_gamma - log_of(0.5 * p.scale));
            const vd whiten = exp_of(log_whiten);
            double* row = out + g * 3 * d + j;
            store_some(row, p.left, whiten);
            store_some(row + d, p.left, whiten * p.mean + noise);
            store_some(row + 2 * d, p.left, log_whiten - 0.5 * (LOG_OF_2 + LOG_OF_PI));
        }
}

// Add a row, about the origin, to the statistics of its group.
INLINE void add_to_moments(const double* x, const double* origin, int64_t d, double weight,
                           double* stats) {
    stats[0] += weight;
    for (int64_t j = 0; j < d; j += LD) {
        const vd read = load_some(x + j, d - j, 0.0) - load_some(origin + j, d - j, 0.0);
        const Int<double> present = (Int<double>)(read == read);
        const vd value = present ? read : vd{}, w = present ? all(weight) : vd{};
        const vd moments[3] = {w, w * value, w * value * value};
        for (int m = 0; m < 3; ++m) {
            double* place = stats + 1 + m * d + j;
            store_some(place, d - j, load_some(place, d - j, 0.0) + moments[m]);
        }
    }
}

static void diagonal_stats(const DiagonalPrior& prior, const Rows& rows, const int64_t* group,
                           double* out) {
    for (int64_t r = 0; r < rows.n; ++r)
        if (group[r] >= 0)
            add_to_moments(rows.x + r * prior.d, prior.origin, prior.d,
                           rows.weight ? rows.weight[r] : 1.0, out + group[r] * prior.n_stats());
}

}  // namespace SCSTREAM_ISA
