// The Gaussian family with its prior, as Python holds it.
#pragma once

#include <cmath>

#include "family.h"

namespace scstream {

class Gaussian final : public Family {
  public:
    Gaussian(Vector mean, double kappa, double nu, Matrix psi, Vector origin)
        : mean_(mean.data(), mean.data() + mean.size()),
          origin_(origin.data(), origin.data() + origin.size()) {
        const int64_t d = int64_t(mean.size());
        require(int64_t(origin.size()) == d && int64_t(psi.size()) == d * d,
                "mean, psi and origin do not fit together");
        for (int64_t i = 0; i < d; ++i) mean_[i] -= origin_[i];
        for (int64_t i = 0; i < d; ++i)
            for (int64_t j = 0; j <= i; ++j)
                scale_.push_back(nu * psi.data()[i * d + j] + kappa * mean_[i] * mean_[j]);
        prior_.d = d;
        prior_.kappa = kappa;
        prior_.nu = nu;
        prior_.log_det = log_det(psi.data(), d, nu);
        prior_.mean = mean_.data();
        prior_.scale = scale_.data();
        prior_.origin = origin_.data();
    }

    Output log_marginal(Numbers stats) const {
        const int64_t groups = groups_of(stats, prior_.n_stats());
        Fresh<double> out(groups);
        on_groups(groups, 1.0 / 6.0, [&](int64_t begin, int64_t end) {
            return kernels()->gaussian_log_marginal(prior_, stats.data(), nullptr, nullptr, begin,
                                                    end, out.data());
        });
        return out.array_like(stats, stats.ndim() - 1);
    }

    Output log_marginal_of_unions(Matrix stats, Ids first, Ids second) const {
        const int64_t groups = groups_of(stats, prior_.n_stats()), pairs = int64_t(first.size());
        require(second.size() == first.size(), "pairs do not fit together");
        for (int64_t m = 0; m < pairs; ++m)
            require(first.data()[m] >= 0 && first.data()[m] < groups && second.data()[m] >= 0 &&
                        second.data()[m] < groups, "a pair names no group");
        Fresh<double> out(pairs);
        on_groups(pairs, 1.0 / 6.0, [&](int64_t begin, int64_t end) {
            return kernels()->gaussian_log_marginal(prior_, stats.data(), first.data(),
                                                    second.data(), begin, end, out.data());
        });
        return out.array({size_t(pairs)});
    }

    Output location(Matrix stats) const { return by_feature(stats, kernels()->gaussian_location); }
    Output spread(Matrix stats) const { return by_feature(stats, kernels()->gaussian_spread); }

    Output translate(Matrix stats, Matrix shift) const {
        const int64_t groups = groups_of(stats, prior_.n_stats()), width = prior_.n_stats();
        require(int64_t(shift.size()) == groups * prior_.d, "one shift per group is needed");
        Fresh<double> out(groups * width);
        {
            nb::gil_scoped_release free;
            run_ranges(groups, 1, threads_for(double(groups * width), groups),
                       [&](int64_t begin, int64_t end) {
                           for (int64_t g = begin; g < end; ++g)
                               kernels()->gaussian_translate(prior_, stats.data() + g * width,
                                                             shift.data() + g * prior_.d,
                                                             out.data() + g * width);
                       });
        }
        return out.array({size_t(groups), size_t(width)});
    }

    Output predictive(Matrix stats) const {
        const int64_t groups = groups_of(stats, prior_.n_stats());
        const int64_t width = gaussian_params(prior_.d) + 1;
        Fresh<double> out(groups * width);
        on_groups(groups, 1.0 / 3.0, [&](int64_t begin, int64_t end) {
            return kernels()->gaussian_predictive(prior_, stats.data(), begin, end, out.data());
        });
        return out.array({size_t(groups), size_t(width)});
    }

    Output parameters(Matrix stats, Matrix normals, Matrix log_gammas) const {
        const int64_t groups = groups_of(stats, prior_.n_stats()), d = prior_.d;
        require(int64_t(normals.size()) == groups * (d * (d - 1) / 2 + d) &&
                    int64_t(log_gammas.size()) == groups * d,
                "draws do not fit the statistics");
        const int64_t width = gaussian_params(d);
        Fresh<double> out(groups * width);
        on_groups(groups, 0.5, [&](int64_t begin, int64_t end) {
            return kernels()->gaussian_draw(prior_, stats.data(), normals.data(), log_gammas.data(),
                                            begin, end, out.data());
        });
        return out.array({size_t(groups), size_t(width)});
    }

    Output log_likelihood(Matrix params, Matrix X) const { return scores(params, X, false); }
    Output log_predictive(Matrix table, Matrix X) const { return scores(table, X, true); }

    Output stats(Matrix X, Ids group, int64_t n_groups, std::optional<Vector> weight) const {
        const Rows rows = dense(X, weight);
        require(int64_t(group.size()) == rows.n, "one group per row is needed");
        for (size_t r = 0; r < group.size(); ++r)
            require(group.data()[r] < n_groups, "a group is out of range");
        Fresh<double> out(n_groups * prior_.n_stats());
        {
            nb::gil_scoped_release free;
            kernels()->gaussian_stats(prior_, rows, group.data(), n_groups, out.data());
        }
        return out.array({size_t(n_groups), size_t(prior_.n_stats())});
    }

    int64_t n_features() const override { return prior_.d; }
    int64_t n_stats() const override { return prior_.n_stats(); }
    int64_t table_width(bool predictive) const override {
        return gaussian_params(prior_.d) + (predictive ? 1 : 0);
    }
    std::unique_ptr<Pass> pass(const Plan& plan) const override {
        return std::unique_ptr<Pass>(kernels()->gaussian_pass(prior_, plan));
    }

  private:
    static double log_det(const double* psi, int64_t d, double nu) {
        std::vector<double> a(psi, psi + d * d);
        double out = 0.0;
        for (int64_t j = 0; j < d; ++j) {
            for (int64_t i = j; i < d; ++i) {
                double value = nu * psi[i * d + j];
                for (int64_t k = 0; k < j; ++k) value -= a[i * d + k] * a[j * d + k];
                a[i * d + j] = i == j ? std::sqrt(value) : value / a[j * d + j];
            }
            out += 2.0 * std::log(a[j * d + j]);
        }
        return out;
    }

    Output by_feature(const Matrix& stats,
                      void (*function)(const GaussianPrior&, const double*, double*)) const {
        const int64_t groups = groups_of(stats, prior_.n_stats());
        Fresh<double> out(groups * prior_.d);
        for (int64_t g = 0; g < groups; ++g)
            function(prior_, stats.data() + g * prior_.n_stats(), out.data() + g * prior_.d);
        return out.array({size_t(groups), size_t(prior_.d)});
    }

    template <class A> static int64_t groups_of(const A& stats, int64_t n_stats) {
        require(stats.ndim() > 0 && int64_t(stats.shape(stats.ndim() - 1)) == n_stats,
                "statistics have the wrong width");
        return int64_t(stats.size()) / n_stats;
    }

    template <class Function>
    void on_groups(int64_t groups, double share, Function function) const {
        const double d = double(prior_.d), work = share * double(groups) * d * d * d;
        std::atomic<bool> well{true};
        {
            nb::gil_scoped_release free;
            const int lanes = kernels()->lanes;
            run_ranges(groups, lanes, threads_for(work, (groups + lanes - 1) / lanes),
                       [&](int64_t begin, int64_t end) {
                           if (!function(begin, end)) well = false;
                       });
        }
        if (!well) throw Refused("a matrix is not positive definite");
    }

    Output scores(const Matrix& table, const Matrix& X, bool predictive) const {
        const int64_t groups = int64_t(table.shape(0));
        require(int64_t(table.shape(1)) == gaussian_params(prior_.d) + (predictive ? 1 : 0),
                "tables have the wrong width");
        const Rows rows = dense(X, std::nullopt);
        Fresh<double> out(rows.n * groups);
        {
            nb::gil_scoped_release free;
            const double work = double(rows.n) * double(table.size());
            run_ranges(rows.n, 256, threads_for(work, (rows.n + 255) / 256),
                       [&](int64_t begin, int64_t end) {
                           kernels()->gaussian_scores(prior_, table.data(), groups, predictive,
                                                      rows, begin, end, out.data());
                       });
        }
        return out.array({size_t(rows.n), size_t(groups)});
    }

    std::vector<double> mean_, origin_, scale_;
    GaussianPrior prior_;
};

}  // namespace scstream
