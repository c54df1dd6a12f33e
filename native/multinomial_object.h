// The multinomial family with its prior, as Python holds it.
#pragma once

#include <cmath>

#include "family.h"
#include "moves.h"

namespace scstream {

class Multinomial final : public Family {
  public:
    explicit Multinomial(Vector concentration)
        : concentration_(concentration.data(), concentration.data() + concentration.size()) {
        for (double each : concentration_) log_gamma_.push_back(std::lgamma(each));
        prior_ = {int64_t(concentration_.size()), concentration_.data(), log_gamma_.data()};
    }

    Output log_marginal(Numbers stats) const {
        const Pointers each = rows_in(stats.data(), groups_of(stats), n_stats());
        return fresh(log_marginals(each, {})).array_like(stats, stats.ndim() - 1);
    }

    Output log_marginal_of_unions(Matrix stats, Ids first, Ids second) const {
        const auto [one, two] = pairs_of(stats, first, second);
        return fresh(log_marginals(one, two)).array({one.size()});
    }

    Output log_split_ratio(double alpha, Counts left, Counts right) const {
        const Pointers one = rows_of_view(left), two = rows_of_view(right);
        require(one.size() == two.size(), "subclusters do not fit together");
        return fresh(log_split_ratios(alpha, one, two)).array({one.size()});
    }

    // Pairs of neighbouring groups whose union is more probable than the two.
    nb::tuple likely_unions(double alpha, Matrix stats, int64_t n_neighbours) const {
        const int64_t groups = groups_of(stats);
        const std::vector<double> points = places(stats);
        const PairList near = nearest_pairs(points.data(), groups, prior_.d, n_neighbours);
        Pointers one, two;
        for (auto [i, j] : near) {
            one.push_back(stats.data() + i * n_stats());
            two.push_back(stats.data() + j * n_stats());
        }
        const std::vector<double> odds = log_split_ratios(alpha, one, two);
        PairList likely;
        for (size_t m = 0; m < near.size(); ++m)
            if (odds[m] < 0.0) likely.push_back(near[m]);
        return pair_arrays(likely);
    }

    Output coordinates_of(Matrix stats) const {
        return fresh(places(stats)).array({stats.shape(0), size_t(prior_.d)});
    }

    // What each row adds to the log marginal of its group.
    Output log_leave_one_out(const nb::object& X, Vector weight, Ids group, Matrix stats) const {
        const RowsHeld held = rows_of(X, weight);
        const int64_t groups = groups_of(stats);
        require(int64_t(group.size()) == held.rows.n, "one group per row is needed");
        for (size_t r = 0; r < group.size(); ++r)
            require(group.data()[r] >= 0 && group.data()[r] < groups, "a group is out of range");
        Fresh<double> out(held.rows.n);
        {
            nb::gil_scoped_release free;
            kernels()->multinomial.leave_one_out(prior_, held.rows, group.data(), stats.data(),
                                                 groups, out.data());
        }
        return out.array({group.size()});
    }

    // Parameters of clusters and of their subclusters (K, 2, P), drawn under two keys.
    nb::tuple sample_cluster_params(Numbers subclusters, Ids ids, uint64_t cluster_key,
                                    uint64_t subcluster_key) const {
        const int64_t k = groups_of(subclusters) / 2, d = prior_.d, width = n_stats();
        require(int64_t(ids.size()) == k, "one id per cluster is needed");
        Fresh<double> clusters(k * d), halves(2 * k * d);
        on_groups(3 * k, 100.0, [&](int64_t begin, int64_t end) {
            for (int64_t g = begin; g < end; ++g) {
                const int64_t i = g / 3, side = g % 3 - 1;
                const double* pair = subclusters.data() + 2 * i * width;
                if (side < 0)
                    draw(pair, pair + width, cluster_key, ids.data()[i], clusters.data() + i * d);
                else
                    draw(pair + side * width, nullptr, subcluster_key, 2 * ids.data()[i] + side,
                         halves.data() + (2 * i + side) * d);
            }
        });
        return nb::make_tuple(clusters.array({size_t(k), size_t(d)}),
                              halves.array({size_t(2 * k), size_t(d)}));
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

    int64_t n_features() const override { return prior_.d; }
    int64_t n_stats() const override { return prior_.n_stats(); }
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
    // Of groups, or of the unions of groups `one` and `two`.
    std::vector<double> log_marginals(const Pointers& one, const Pointers& two) const {
        std::vector<double> out(one.size());
        on_groups(int64_t(one.size()), 10.0, [&](int64_t begin, int64_t end) {
            kernels()->multinomial.log_marginal(prior_, one.data() + begin,
                                                two.empty() ? nullptr : two.data() + begin,
                                                end - begin, out.data() + begin);
        });
        return out;
    }

    // Log odds of pairs of groups against their unions.
    std::vector<double> log_split_ratios(double alpha, const Pointers& one,
                                         const Pointers& two) const {
        std::vector<double> out(one.size());
        on_groups(int64_t(one.size()), 30.0, [&](int64_t begin, int64_t end) {
            kernels()->multinomial.log_apart(prior_, one.data() + begin, two.data() + begin,
                                             end - begin, out.data() + begin);
        });
        for (size_t i = 0; i < out.size(); ++i)
            out[i] = log_odds(alpha, one[i][0], two[i][0], out[i], 0.0, 0.0);
        return out;
    }

    std::vector<double> places(const Matrix& stats) const {
        const int64_t groups = groups_of(stats);
        std::vector<double> out(size_t(groups * prior_.d));
        for (int64_t g = 0; g < groups; ++g)
            kernels()->multinomial.coordinates(prior_, stats.data() + g * n_stats(),
                                               &out[size_t(g * prior_.d)]);
        return out;
    }

    // Log probabilities of a group, or of the union of two, from their posterior.
    void draw(const double* one, const double* two, uint64_t key, int64_t id, double* out) const {
        std::vector<double> shape(one + 1, one + n_stats()), log_gamma(shape.size());
        for (size_t j = 0; j < shape.size(); ++j)
            shape[j] = concentration_[j] + (two ? shape[j] + two[1 + j] : shape[j]);
        kernels()->log_gammas(key, &id, 1, 0, shape.data(), prior_.d, log_gamma.data());
        kernels()->multinomial.draw(log_gamma.data(), prior_.d, 0, 1, out);
    }

    template <class Function>
    void on_groups(int64_t groups, double each, Function function) const {
        nb::gil_scoped_release free;
        run_ranges(groups, 1, threads_for(each * double(groups * n_features()), groups), function);
    }

    std::vector<double> concentration_, log_gamma_;
    DirichletPrior prior_;
};

}  // namespace scstream
