// The diagonal family with its prior, as Python holds it.
#pragma once

#include "family.h"

namespace scstream {

class Diagonal final : public Family {
  public:
    Diagonal(Vector mean, Vector kappa, double nu, Vector psi, Vector origin)
        : mean_(mean.data(), mean.data() + mean.size()),
          kappa_(kappa.data(), kappa.data() + kappa.size()),
          scale_(psi.data(), psi.data() + psi.size()),
          origin_(origin.data(), origin.data() + origin.size()) {
        const size_t d = mean.size();
        require(kappa.size() == d && psi.size() == d && origin.size() == d,
                "mean, kappa, psi and origin do not fit together");
        for (size_t j = 0; j < d; ++j) {
            mean_[j] -= origin_[j];
            scale_[j] *= nu;
        }
        prior_.d = int64_t(d);
        prior_.nu = nu;
        prior_.mean = mean_.data();
        prior_.kappa = kappa_.data();
        prior_.scale = scale_.data();
        prior_.origin = origin_.data();
    }

    Output log_marginal(Numbers stats) const {
        const int64_t groups = groups_of(stats);
        Fresh<double> out(groups);
        on_groups(groups, [&](int64_t begin, int64_t end) {
            kernels()->diagonal.log_marginal(prior_, stats.data(), begin, end, out.data());
        });
        return out.array_like(stats, stats.ndim() - 1);
    }

    Output predictive(Matrix stats) const {
        const int64_t groups = groups_of(stats), width = table_width(true);
        Fresh<double> out(groups * width);
        on_groups(groups, [&](int64_t begin, int64_t end) {
            kernels()->diagonal.predictive(prior_, stats.data(), begin, end, out.data());
        });
        return out.array({size_t(groups), size_t(width)});
    }

    Output parameters(Matrix stats, Matrix normals, Matrix log_gammas) const {
        const int64_t groups = groups_of(stats), width = table_width(false);
        require(int64_t(normals.size()) == groups * prior_.d &&
                    int64_t(log_gammas.size()) == groups * prior_.d,
                "draws do not fit the statistics");
        Fresh<double> out(groups * width);
        on_groups(groups, [&](int64_t begin, int64_t end) {
            kernels()->diagonal.draw(prior_, stats.data(), normals.data(), log_gammas.data(), begin,
                                     end, out.data());
        });
        return out.array({size_t(groups), size_t(width)});
    }

    int64_t n_features() const override { return prior_.d; }
    int64_t n_stats() const override { return prior_.n_stats(); }
    int64_t table_width(bool predictive) const override { return (predictive ? 4 : 3) * prior_.d; }
    std::unique_ptr<Pass> pass(const AssignmentParams& plan) const override {
        return std::unique_ptr<Pass>(kernels()->diagonal.pass(prior_, plan));
    }

  protected:
    void add_stats(const Rows& rows, const int64_t* group, int64_t,
                   double* out) const override {
        kernels()->diagonal.stats(prior_, rows, group, out);
    }
    void score_rows(const double* table, int64_t groups, bool predictive, const Rows& rows,
                    int64_t begin, int64_t end, double* out) const override {
        kernels()->diagonal.scores(prior_, table, groups, predictive, rows, begin, end, out);
    }

  private:
    template <class Function> void on_groups(int64_t groups, Function function) const {
        nb::gil_scoped_release free;
        run_ranges(groups, 1, threads_for(20.0 * double(groups * prior_.d), groups), function);
    }

    std::vector<double> mean_, kappa_, scale_, origin_;
    DiagonalPrior prior_;
};

}  // namespace scstream
