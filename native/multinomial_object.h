// The multinomial family with its prior, as Python holds it.
#pragma once

#include "family.h"

namespace scstream {

class Multinomial final : public Family {
  public:
    explicit Multinomial(Vector concentration)
        : concentration_(concentration.data(), concentration.data() + concentration.size()) {}

    Output log_marginal(Numbers stats) const {
        const int64_t width = n_stats();
        require(stats.ndim() > 0 && int64_t(stats.shape(stats.ndim() - 1)) == width,
                "statistics have the wrong width");
        const int64_t groups = int64_t(stats.size()) / width;
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

    Output log_likelihood(Matrix params, nb::object X) const { return scores(params, X, false); }
    Output log_predictive(Matrix table, nb::object X) const { return scores(table, X, true); }

    Output stats(nb::object X, Ids group, int64_t n_groups, std::optional<Vector> weight) const {
        const RowsHeld held = rows_of(X, weight);
        require(int64_t(group.size()) == held.rows.n, "one group per row is needed");
        for (size_t r = 0; r < group.size(); ++r)
            require(group.data()[r] < n_groups, "a group is out of range");
        Fresh<double> out(n_groups * n_stats());
        {
            nb::gil_scoped_release free;
            kernels()->multinomial.stats(held.rows, group.data(), out.data());
        }
        return out.array({size_t(n_groups), size_t(n_stats())});
    }

    int64_t n_features() const override { return int64_t(concentration_.size()); }
    int64_t n_stats() const override { return 1 + n_features(); }
    int64_t table_width(bool) const override { return n_features(); }
    std::unique_ptr<Pass> pass(const Plan& plan) const override {
        return std::unique_ptr<Pass>(kernels()->multinomial.pass(n_features(), plan));
    }

  protected:
    bool sparse() const override { return true; }

  private:
    template <class Function>
    void on_groups(int64_t groups, double each, Function function) const {
        nb::gil_scoped_release free;
        run_ranges(groups, 1, threads_for(each * double(groups * n_features()), groups), function);
    }

    Output scores(const Matrix& table, const nb::object& X, bool predictive) const {
        const int64_t groups = int64_t(table.shape(0));
        require(int64_t(table.shape(1)) == n_features(), "tables have the wrong width");
        const RowsHeld held = rows_of(X, std::nullopt);
        const Rows& rows = held.rows;
        Fresh<double> out(rows.n * groups);
        {
            nb::gil_scoped_release free;
            const double work = double(rows.n) * double(table.size());
            run_ranges(rows.n, 1024, threads_for(work, (rows.n + 1023) / 1024),
                       [&](int64_t begin, int64_t end) {
                           kernels()->multinomial.scores(table.data(), groups, predictive, rows,
                                                         begin, end, out.data());
                       });
        }
        return out.array({size_t(rows.n), size_t(groups)});
    }

    std::vector<double> concentration_;
};

}  // namespace scstream
