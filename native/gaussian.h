// The Gaussian family on groups: posterior, marginal likelihood, predictive tables, draws.
// Formulas: src/scstream/families/gaussian.py, which is the specification.
#pragma once

#include "api.h"
#include "lanes.h"
#include "special.h"

namespace SCSTREAM_ISA {

using scstream::GaussianPrior;

constexpr double LOG_2 = 0.693147180559945309417;
constexpr double LOG_PI = 1.14472988584940017414;

// Posterior of as many groups as a vector has lanes.
class Posterior {
  public:
    explicit Posterior(const GaussianPrior& prior)
        : prior_(prior),
          d_(prior.d),
          mean(prior.d),
          factor(prior.d * (prior.d + 1) / 2),
          inverse(prior.d) {}

    // Read groups [begin, begin + count); lanes without a group repeat the last one.
    bool read(const double* stats, int64_t begin, int64_t count) {
        const double* row[LD];
        for (int l = 0; l < LD; ++l)
            row[l] = stats + (begin + (l < count ? l : count - 1)) * prior_.n_stats();
        return read_rows([&](int64_t entry) { return gather(row, entry); });
    }

    // Read `count` groups, each the sum of one or, where `two` is given, two rows of statistics.
    bool read_sums(const double* const* one, const double* const* two, int64_t count) {
        const double *first[LD], *second[LD];
        for (int l = 0; l < LD; ++l) {
            first[l] = one[l < count ? l : count - 1];
            second[l] = two ? two[l < count ? l : count - 1] : nullptr;
        }
        if (!two) return read_rows([&](int64_t entry) { return gather(first, entry); });
        return read_rows([&](int64_t e) { return gather(first, e) + gather(second, e); });
    }

    template <class Entry> bool read_rows(Entry entry_of) {
        n = entry_of(0);
        kappa = n + prior_.kappa;
        nu = n + prior_.nu;
        for (int64_t i = 0; i < d_; ++i)
            mean[i] = (entry_of(1 + i) + prior_.kappa * prior_.mean[i]) / kappa;
        const double* second_of_prior = prior_.scale;
        int64_t upper = 1 + d_;
        for (int64_t j = 0; j < d_; ++j) {
            vd scaled = kappa * mean[j];
            for (int64_t i = j; i < d_; ++i, ++upper)
                factor[at(i, j)] =
                    (entry_of(upper) + second_of_prior[at(i, j)]) - scaled * mean[i];
        }
        cholesky(factor.get(), d_, inverse.get());
        // What is not a number after a bad pivot stays so down to the last one.
        return !any<double>((Int<double>)(factor[at(d_ - 1, d_ - 1)] > 0.0) == 0);
    }

    // log |nu* Psi*| / 2
    vd log_det() const {
        vd out = {};
        for (int64_t i = 0; i < d_; ++i) out += log_of(factor[at(i, i)]);
        return out;
    }

    static vd gather(const double* const (&row)[LD], int64_t entry) {
        vd out;
        for (int l = 0; l < LD; ++l) out[l] = row[l][entry];
        return out;
    }

  private:
    const GaussianPrior& prior_;
    const int64_t d_;

  public:
    vd n, kappa, nu;
    Buffer<vd> mean;     // (d,) about the origin
    Buffer<vd> factor;   // Cholesky factor of nu* Psi*
    Buffer<vd> inverse;  // of its diagonal
};

// log of the multivariate gamma function, without its power of pi:
// the sum of lgamma(a - i / 2) over i < d, from two values of lgamma and the recurrence.
INLINE vd log_multigamma(vd a, int64_t d) {
    vd out = {};
    for (int64_t start = 0; start < 2 && start < d; ++start) {
        const int64_t terms = (d - start + 1) / 2;
        vd top = a - 0.5 * double(start);
        for (int l = 0; l < LD; ++l) out[l] += double(terms) * log_gamma_function(top[l]);
        for (int64_t m = 1; m < terms; ++m) out -= double(terms - m) * log_of(top - double(m));
    }
    return out;
}

INLINE vd log_marginal_of(const GaussianPrior& prior, const Posterior& posterior, vd of_prior) {
    const double d = double(prior.d);
    vd value = -0.5 * d * LOG_PI * posterior.n + log_multigamma(posterior.nu * 0.5, prior.d);
    value += 0.5 * (prior.nu * prior.log_det - posterior.nu * (2.0 * posterior.log_det()));
    return value + 0.5 * d * log_of(prior.kappa / posterior.kappa) - of_prior;
}

// Of groups that are sums of one or, where `two` is given, two rows of statistics.
static bool gaussian_log_marginal(const GaussianPrior& prior, const double* const* one,
                                  const double* const* two, int64_t groups, double* out) {
    Posterior posterior(prior);
    const vd of_prior = log_multigamma(all(prior.nu / 2.0), prior.d);
    bool well = true;
    for (int64_t g = 0; g < groups; g += LD) {
        const int64_t count = groups - g < LD ? groups - g : LD;
        well &= posterior.read_sums(one + g, two ? two + g : nullptr, count);
        const vd value = log_marginal_of(prior, posterior, of_prior);
        for (int l = 0; l < count; ++l) out[g + l] = value[l];
    }
    return well;
}

// Posterior mean of a row, and standard deviation of each feature, of one group.
static void gaussian_means(const GaussianPrior& prior, const double* stats, double* out) {
    for (int64_t i = 0; i < prior.d; ++i)
        out[i] = (prior.kappa * prior.mean[i] + stats[1 + i]) / (prior.kappa + stats[0]) +
                 prior.origin[i];
}
static void gaussian_stds(const GaussianPrior& prior, const double* stats, double* out) {
    const double kappa = prior.kappa + stats[0], nu = prior.nu + stats[0];
    const double freedom = nu - double(prior.d) - 1.0;
    const double* second = stats + 1 + prior.d;
    for (int64_t i = 0; i < prior.d; second += prior.d - i, ++i) {
        const double mean = (prior.kappa * prior.mean[i] + stats[1 + i]) / kappa;
        const double scale = (second[0] + prior.scale[at(i, i)]) - kappa * mean * mean;
        out[i] = std::sqrt(scale / (freedom >= 1.0 ? freedom : nu));
    }
}

// Statistics of the same rows moved by `shift`.
static void gaussian_translate(const GaussianPrior& prior, const double* stats, const double* shift,
                               double* out) {
    const int64_t d = prior.d;
    const double n = stats[0], *first = stats + 1;
    out[0] = n;
    for (int64_t i = 0; i < d; ++i) out[1 + i] = first[i] + n * shift[i];
    const double* second = stats + 1 + d;
    double* moved = out + 1 + d;
    for (int64_t i = 0; i < d; second += d - i, moved += d - i, ++i) {
        const double a = first[i] + n * shift[i], b = shift[i];
        for (int64_t j = i; j < d; ++j) moved[j - i] = second[j - i] + (a * shift[j] + b * first[j]);
    }
}

// Write one table per group: packed lower W, W m, constant and, of a predictive, the power.
INLINE void write_tables(const vd* W, const vd* centre, int64_t d, vd constant, vd power,
                         int64_t width, int64_t count, double* out) {
    const int64_t lower = d * (d + 1) / 2;
    for (int l = 0; l < count; ++l) {
        double* table = out + l * width;
        for (int64_t p = 0; p < lower; ++p) table[p] = W[p][l];
        for (int64_t i = 0; i < d; ++i) table[lower + i] = centre[i][l];
        table[lower + d] = constant[l];
        if (width > lower + d + 1) table[lower + d + 1] = power[l];
    }
}

INLINE void whitened_mean(const vd* W, const vd* mean, int64_t d, vd* centre) {
    for (int64_t i = 0; i < d; ++i) {
        vd value = {};
        for (int64_t j = 0; j <= i; ++j) value += W[at(i, j)] * mean[j];
        centre[i] = value;
    }
}

static bool gaussian_predictive(const GaussianPrior& prior, const double* stats, int64_t begin,
                                int64_t end, double* out) {
    const int64_t d = prior.d, lower = d * (d + 1) / 2, width = scstream::gaussian_params(d) + 1;
    Posterior posterior(prior);
    Buffer<vd> W(lower), centre(d);
    bool well = true;
    for (int64_t g = begin; g < end; g += LD) {
        const int64_t count = end - g < LD ? end - g : LD;
        well &= posterior.read(stats, g, count);
        invert(posterior.factor.get(), W.get(), d, posterior.inverse.get());
        vd shrink = posterior.kappa / (posterior.kappa + 1.0);
        vd scale = root(shrink);
        for (int64_t p = 0; p < lower; ++p) W[p] *= scale;
        whitened_mean(W.get(), posterior.mean.get(), d, centre.get());
        vd power = 0.5 * (posterior.nu + 1.0);
        vd constant = 0.5 * double(d) * (log_of(shrink) - LOG_PI) - posterior.log_det();
        for (int l = 0; l < LD; ++l)
            constant[l] += log_gamma_function(power[l]) -
                           log_gamma_function(0.5 * (posterior.nu[l] - double(d) + 1.0));
        write_tables(W.get(), centre.get(), d, constant, power, width, count, out + g * width);
    }
    return well;
}

// A lower triangle A with A^T A ~ Wishart(nu, I), one group per lane, and its log determinant. The
// addresses are those of the specification: normals below the diagonal, normals for the mean, gammas.
INLINE vd draw_bartlett(uint64_t key, const int64_t* ids, int64_t count, vd nu, int64_t d,
                        vd* bartlett, vd* noise) {
    const int64_t below = d * (d - 1) / 2, first_gamma = (below + d + 1) / 2;
    vu id = vu{} + uint64_t(ids[0]);
    for (int l = 1; l < count; ++l) id[l] = uint64_t(ids[l]);
    int64_t i = 1, j = 0;
    for (int64_t p = 0; p < below + d; p += 2) {
        vu word[2];
        philox(key, id, vu{} + uint64_t(p / 2), word[0], word[1]);
        for (int64_t q = p; q < p + 2 && q < below + d; ++q) {
            const vd normal = normal_quantile(unit(word[q - p]));
            if (q >= below) {
                noise[q - below] = normal;
                continue;
            }
            bartlett[at(i, j)] = normal;
            if (++j == i) ++i, j = 0;
        }
    }
    vd log_det = {};
    for (int64_t k = 0; k < d; ++k) {
        const vd shape = (nu - double(d - 1 - k)) / 2.0;
        const vd log_chi =
            0.5 * (LOG_2 + log_gamma_variates(key, id, vu{} + uint64_t(first_gamma + k), shape));
        bartlett[at(k, k)] = exp_of(log_chi);
        log_det += log_chi;
    }
    return log_det;
}

static bool gaussian_draw(const GaussianPrior& prior, const double* stats, uint64_t key,
                          const int64_t* ids, int64_t begin, int64_t end, double* out) {
    const int64_t d = prior.d, lower = d * (d + 1) / 2, width = scstream::gaussian_params(d);
    Posterior posterior(prior);
    Buffer<vd> W(lower), centre(d), bartlett(lower), noise(d);
    bool well = true;
    for (int64_t g = begin; g < end; g += LD) {
        const int64_t count = end - g < LD ? end - g : LD;
        well &= posterior.read(stats, g, count);
        invert(posterior.factor.get(), W.get(), d, posterior.inverse.get());
        const vd log_det = draw_bartlett(key, ids + g, count, posterior.nu, d, bartlett.get(),
                                         noise.get());
        multiply(bartlett.get(), W.get(), d);
        whitened_mean(W.get(), posterior.mean.get(), d, centre.get());
        const vd stds = 1.0 / root(posterior.kappa);
        for (int64_t i = 0; i < d; ++i) centre[i] += noise[i] * stds;
        const vd constant =
            log_det - posterior.log_det() - 0.5 * double(d) * (LOG_2 + LOG_PI);
        write_tables(W.get(), centre.get(), d, constant, vd{}, width, count, out + g * width);
    }
    return well;
}

}  // namespace SCSTREAM_ISA
