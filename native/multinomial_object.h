// The multinomial family with its prior, as Python holds it.
#pragma once

#include "family.h"

namespace scstream {

class Multinomial final : public Family {
  public:
    explicit Multinomial(Vector concentration)
        : concentration_(concentration.data(), concentration.data() + concentration.size()) {}

    Output log_marginal(Numbers stats) const {
        const int64_t groups = groups_of(stats);
        Fresh<double> out(groups);
        on_groups(groups, 10.0, [&](int64_t begin, int64_t end) {
            kernels()->multinomial.log_marginal(concentration_.data(), n_features(), stats.data(),
                                                begin, end, out.data());
        });
        return out.array_like(stats, stats.ndim() - 1);
    }

    Output parameters(Matrix log_gammas) const {
        const int64_t groups = int64_t(log_gammas.shape(0)), d = n_features();
        require(int64_t(log_gammas.shape(1)) == d, "draws do not fit the prior");
        Fresh<double> out(groups * d);
        on_groups(groups, 5.0, [&](int64_t begin, int64_t end) {
            kernels()->multinomial.draw(log_gammas.data(), d, begin, end, out.data());
        });
        return out.array({size_t(groups), size_t(d)});
    }

    int64_t n_features() const override { return int64_t(concentration_.size()); }
    int64_t n_stats() const override { return 1 + n_features(); }
    int64_t table_width(bool) const override { return n_features(); }
    std::unique_ptr<Pass> pass(const AssignmentParams& plan) const override {
        return std::unique_ptr<Pass>(kernels()->multinomial.pass(n_features(), plan));
    }

  protected:
    void add_stats(const Rows& rows, const int64_t* group, int64_t,
                   double* out) const override {
        kernels()->multinomial.stats(rows, group, out);
    }
    void score_rows(const double* table, int64_t groups, bool predictive, const Rows& rows,
                    int64_t begin, int64_t end, double* out) const override {
        kernels()->multinomial.scores(table, groups, predictive, rows, begin, end, out);
    }
    bool sparse() const override { return true; }

  private:
    template <class Function>
    void on_groups(int64_t groups, double each, Function function) const {
        nb::gil_scoped_release free;
        run_ranges(groups, 1, threads_for(each * double(groups * n_features()), groups), function);
    }

    std::vector<double> concentration_;
};

}  // namespace scstream
