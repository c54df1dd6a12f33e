// The Gaussian family with its prior, as Python holds it.
#pragma once

#include <cmath>

#include "family.h"
#include "moves.h"

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
        factor_ = cholesky(psi.data(), d);
        prior_.log_det = double(d) * std::log(nu);
        for (int64_t i = 0; i < d; ++i) prior_.log_det += 2.0 * std::log(factor_[i * d + i]);
        prior_.mean = mean_.data();
        prior_.scale = scale_.data();
        prior_.origin = origin_.data();
    }

    Output log_marginal(Numbers stats) const {
        const Pointers one = rows_in(stats.data(), groups_of(stats), n_stats());
        return fresh(log_marginals(one, {})).array_like(stats, stats.ndim() - 1);
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

    // How many rows may belong to each group, and what the screen missed of how many rows.
    Output near(const nb::object& X, Matrix clusters, Vector log_weight, Matrix screen,
                int64_t n_candidates, int64_t first_row, int64_t every, int64_t phase) const {
        require(every > 0, "an audit needs rows");
        const RowsHeld held = rows_of(X, std::nullopt);
        AssignmentParams plan = screened(clusters, log_weight, screen, n_candidates);
        plan.first_row = first_row;
        Fresh<double> out(plan.n_clusters + 2);
        {
            nb::gil_scoped_release free;
            kernels()->gaussian_near(prior_, plan, held.rows, every, phase, out.data(),
                                     out.data() + plan.n_clusters);
        }
        return out.array({size_t(plan.n_clusters) + 2});
    }

    // The groups that a cheap score finds for every row, and their scores.
    nb::tuple shortlist(const nb::object& X, Matrix clusters, Vector log_weight, Matrix screen,
                        int64_t n_candidates) const {
        const RowsHeld held = rows_of(X, std::nullopt);
        const AssignmentParams plan = screened(clusters, log_weight, screen, n_candidates);
        const int64_t most = n_candidates < plan.n_clusters ? n_candidates : plan.n_clusters;
        Fresh<int64_t> group(held.rows.n * most);
        Fresh<double> score(held.rows.n * most);
        {
            nb::gil_scoped_release free;
            if (held.rows.n)
                kernels()->gaussian_shortlist(prior_, plan, held.rows, 0, held.rows.n,
                                              group.data(), score.data());
        }
        const std::vector<size_t> shape = {size_t(held.rows.n), size_t(most)};
        return nb::make_tuple(group.array(shape), score.array(shape));
    }

    // Pairs of neighbouring groups whose union is more probable than the two.
    nb::tuple likely_unions(double alpha, Matrix stats, int64_t n_neighbours) const {
        const int64_t groups = groups_of(stats);
        std::vector<double> points(size_t(groups * prior_.d));
        for (int64_t g = 0; g < groups; ++g)
            coordinates(stats.data() + g * n_stats(), &points[g * prior_.d]);
        const PairList near = nearest_pairs(points.data(), groups, prior_.d, n_neighbours);
        const Pointers each = rows_in(stats.data(), groups, n_stats());
        const std::vector<double> own = log_marginals(each, {});
        Pointers one, two;
        for (auto [i, j] : near) {
            one.push_back(each[size_t(i)]);
            two.push_back(each[size_t(j)]);
        }
        const std::vector<double> together = log_marginals(one, two);
        PairList likely;
        for (size_t m = 0; m < near.size(); ++m) {
            const auto [i, j] = near[m];
            if (log_odds(alpha, one[m][0], two[m][0], own[size_t(i)], own[size_t(j)],
                         together[m]) < 0.0)
                likely.push_back(near[m]);
        }
        return pair_arrays(likely);
    }

    // Halves (K, 2, P) of clusters moved along their velocities; those not active of stay.
    Output move_clusters(Numbers subclusters, Matrix velocity, Vector velocity_noise, Mask active, double elapsed) const {
        const int64_t k = groups_of(subclusters) / 2, d = prior_.d, width = n_stats();
        require(int64_t(velocity.size()) == k * d && int64_t(velocity_noise.size()) == k &&
                    int64_t(active.size()) == k, "the clusters do not fit together");
        Fresh<double> out(2 * k * width);
        std::vector<double> clusters(width, 0.0), stds(d, 0.0), shift(d, 0.0);
        for (int64_t i = 0; i < k; ++i) {
            const double* pair = subclusters.data() + 2 * i * width;
            for (int64_t p = 0; p < width; ++p) clusters[p] = pair[p] + pair[width + p];
            kernels()->gaussian_stds(prior_, clusters.data(), stds.data());
            shrink(velocity.data() + i * d, stds.data(), velocity_noise.data()[i], d, shift.data());
            for (double& s : shift) s *= active.data()[i] ? elapsed : 0.0;
            for (int64_t side = 0; side < 2; ++side)
                kernels()->gaussian_translate(prior_, pair + side * width, shift.data(),
                                              out.data() + (2 * i + side) * width);
        }
        return out.array_like(subclusters, 3);
    }

    // Shift of the past, velocity and velocity_noise after a batch: see `core.fading.estimate_motion`.
    nb::tuple estimate_motion(Numbers past, Numbers current, Matrix velocity, Vector velocity_noise, Vector age,
                          double elapsed) const {
        const int64_t k = groups_of(past) / 2, d = prior_.d, width = n_stats();
        require(past.size() == current.size() && int64_t(velocity.size()) == k * d &&
                    int64_t(velocity_noise.size()) == k && int64_t(age.size()) == k,
                "the clusters do not fit together");
        Fresh<double> shifts(k * d), velocities(k * d), jitters(k);
        std::vector<double> old(width, 0.0), now(width, 0.0), both(width, 0.0);
        std::vector<double> stds(d, 0.0), from(d, 0.0), to(d, 0.0);
        for (int64_t i = 0; i < k; ++i) {
            const double *a = past.data() + 2 * i * width, *b = current.data() + 2 * i * width;
            for (int64_t p = 0; p < width; ++p) {
                old[p] = a[p] + a[width + p];
                now[p] = b[p] + b[width + p];
                both[p] = old[p] + now[p];
            }
            const double n_new = now[0], n_old = old[0];
            const double trust = n_new / (n_new + STEADY) * n_old / (n_old + STEADY);
            const double n_before = std::max(age.data()[i] / elapsed, 1.0);
            const double gain = std::max(GAIN, FIRST_GAIN / n_before) * trust / elapsed;
            const double chance =
                double(d) * (1.0 / std::max(n_new, 1.0) + 1.0 / std::max(n_old, 1.0));
            kernels()->gaussian_means(prior_, old.data(), from.data());
            kernels()->gaussian_means(prior_, now.data(), to.data());
            kernels()->gaussian_stds(prior_, both.data(), stds.data());
            for (int64_t j = 0; j < d; ++j) {
                to[j] -= from[j];
                velocities.data()[i * d + j] = velocity.data()[i * d + j] + gain * to[j];
            }
            double* shift = shifts.data() + i * d;
            shrink(to.data(), stds.data(), chance, d, shift);
            for (int64_t j = 0; j < d; ++j) shift[j] *= PLACE_GAIN * trust;
            jitters.data()[i] = n_new > 0 ? chance * gain / elapsed : velocity_noise.data()[i];
        }
        return nb::make_tuple(shifts.array({size_t(k), size_t(d)}),
                              velocities.array({size_t(k), size_t(d)}), jitters.array({size_t(k)}));
    }

    Output means(Matrix stats) const { return by_feature(stats, kernels()->gaussian_means); }
    Output stds(Matrix stats) const { return by_feature(stats, kernels()->gaussian_stds); }

    Output translate(Matrix stats, Matrix shift) const {
        const int64_t groups = groups_of(stats), width = prior_.n_stats();
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
        const int64_t groups = groups_of(stats);
        const int64_t width = gaussian_params(prior_.d) + 1;
        Fresh<double> out(groups * width);
        on_groups(groups, 1.0 / 3.0, [&](int64_t begin, int64_t end) {
            return kernels()->gaussian_predictive(prior_, stats.data(), begin, end, out.data());
        });
        return out.array({size_t(groups), size_t(width)});
    }

    // Parameters of clusters and of their subclusters (K, 2, P), drawn under two keys.
    nb::tuple sample_cluster_params(Numbers subclusters, Ids ids, uint64_t cluster_key, uint64_t subcluster_key) const {
        const int64_t k = groups_of(subclusters) / 2, width = n_stats();
        require(int64_t(ids.size()) == k, "one id per cluster is needed");
        std::vector<double> clusters(size_t(k * width));
        std::vector<int64_t> half_ids;
        for (int64_t i = 0; i < k; ++i) {
            const double* pair = subclusters.data() + 2 * i * width;
            for (int64_t p = 0; p < width; ++p) clusters[i * width + p] = pair[p] + pair[width + p];
            half_ids.insert(half_ids.end(), {2 * ids.data()[i], 2 * ids.data()[i] + 1});
        }
        return nb::make_tuple(drawn(clusters.data(), ids.data(), k, cluster_key),
                              drawn(subclusters.data(), half_ids.data(), 2 * k, subcluster_key));
    }

    // `draws` has a key and ids, or else is left to the specification.
    Output draw(Matrix stats, nb::handle draws) const {
        if (!nb::hasattr(draws, "key") || !nb::hasattr(draws, "ids"))
            throw Refused("draws without an address");
        const uint64_t key = nb::cast<uint64_t>(draws.attr("key"));
        const Ids ids = nb::cast<Ids>(draws.attr("ids"));
        const int64_t groups = groups_of(stats);
        require(int64_t(ids.size()) == groups, "one id per group is needed");
        return drawn(stats.data(), ids.data(), groups, key);
    }

    int64_t n_features() const override { return prior_.d; }
    int64_t n_stats() const override { return prior_.n_stats(); }
    int64_t table_width(bool predictive) const override {
        return gaussian_params(prior_.d) + (predictive ? 1 : 0);
    }
    std::unique_ptr<Pass> pass(const AssignmentParams& plan) const override {
        return std::unique_ptr<Pass>(kernels()->gaussian_pass(prior_, plan));
    }

  protected:
    void add_stats(const Rows& rows, const int64_t* group, int64_t n_groups,
                   double* out) const override {
        kernels()->gaussian_stats(prior_, rows, group, n_groups, out);
    }
    void score_rows(const double* table, int64_t groups, bool predictive, const Rows& rows,
                    int64_t begin, int64_t end, double* out) const override {
        kernels()->gaussian_scores(prior_, table, groups, predictive, rows, begin, end, out);
    }

  private:
    using Pointers = std::vector<const double*>;

    AssignmentParams screened(const Matrix& clusters, const Vector& log_weight,
                              const Matrix& screen, int64_t n_candidates) const {
        const size_t k = clusters.shape(0);
        require(k > 0 && n_candidates > 0 && log_weight.size() == k && screen.shape(0) == k &&
                    clusters.shape(1) == size_t(table_width(true)) &&
                    screen.shape(1) == size_t(screen_width(prior_.d)),
                "the screen does not fit the clusters");
        AssignmentParams plan;
        plan.n_clusters = int64_t(k);
        plan.n_candidates = n_candidates;
        plan.clusters = clusters.data();
        plan.log_weight = log_weight.data();
        plan.screen = screen.data();
        return plan;
    }

    // Constants of `core.fading`.
    static constexpr double GAIN = 0.3, FIRST_GAIN = 0.7, STEADY = 20.0, PLACE_GAIN = 0.3;

    static Pointers rows_in(const double* stats, int64_t groups, int64_t width) {
        Pointers out;
        for (int64_t g = 0; g < groups; ++g) out.push_back(stats + g * width);
        return out;
    }

    Pointers rows_of_view(const Counts& stats) const {
        require(int64_t(stats.shape(1)) == n_stats() && stats.stride(1) == 1,
                "statistics have the wrong width");
        return rows_in(stats.data(), int64_t(stats.shape(0)), stats.stride(0));
    }

    std::pair<Pointers, Pointers> pairs_of(const Matrix& stats, const Ids& first,
                                           const Ids& second) const {
        const int64_t groups = groups_of(stats);
        require(second.size() == first.size(), "pairs do not fit together");
        Pointers one, two;
        for (size_t m = 0; m < first.size(); ++m) {
            const int64_t i = first.data()[m], j = second.data()[m];
            require(i >= 0 && i < groups && j >= 0 && j < groups, "a pair names no group");
            one.push_back(stats.data() + i * n_stats());
            two.push_back(stats.data() + j * n_stats());
        }
        return {one, two};
    }

    std::vector<double> log_marginals(const Pointers& one, const Pointers& two) const {
        std::vector<double> out(one.size());
        on_groups(int64_t(one.size()), 1.0 / 6.0, [&](int64_t begin, int64_t end) {
            return kernels()->gaussian_log_marginal(prior_, one.data() + begin,
                                                    two.empty() ? nullptr : two.data() + begin,
                                                    end - begin, out.data() + begin);
        });
        return out;
    }

    // Log odds of pairs of groups against their unions.
    std::vector<double> log_split_ratios(double alpha, const Pointers& one,
                                         const Pointers& two) const {
        const std::vector<double> left = log_marginals(one, {}), right = log_marginals(two, {});
        std::vector<double> out = log_marginals(one, two);
        for (size_t i = 0; i < out.size(); ++i)
            out[i] = log_odds(alpha, one[i][0], two[i][0], left[i], right[i], out[i]);
        return out;
    }

    // Where the prior's covariance is the identity.
    void coordinates(const double* stats, double* out) const {
        const int64_t d = prior_.d;
        std::vector<double> place(d, 0.0);
        kernels()->gaussian_means(prior_, stats, place.data());
        for (int64_t i = 0; i < d; ++i) {
            double value = place[i] - origin_[i];
            for (int64_t j = 0; j < i; ++j) value -= factor_[i * d + j] * out[j];
            out[i] = value / factor_[i * d + i];
        }
    }

    Output drawn(const double* stats, const int64_t* ids, int64_t groups, uint64_t key) const {
        const int64_t width = gaussian_params(prior_.d);
        Fresh<double> out(groups * width);
        on_groups(groups, 0.5, [&](int64_t begin, int64_t end) {
            return kernels()->gaussian_draw(prior_, stats, key, ids, begin, end, out.data());
        });
        return out.array({size_t(groups), size_t(width)});
    }

    static std::vector<double> cholesky(const double* psi, int64_t d) {
        std::vector<double> a(size_t(d * d));
        for (int64_t j = 0; j < d; ++j)
            for (int64_t i = j; i < d; ++i) {
                double value = psi[i * d + j];
                for (int64_t k = 0; k < j; ++k) value -= a[i * d + k] * a[j * d + k];
                a[i * d + j] = i == j ? std::sqrt(value) : value / a[j * d + j];
            }
        return a;
    }

    Output by_feature(const Matrix& stats,
                      void (*function)(const GaussianPrior&, const double*, double*)) const {
        const int64_t groups = groups_of(stats);
        Fresh<double> out(groups * prior_.d);
        for (int64_t g = 0; g < groups; ++g)
            function(prior_, stats.data() + g * prior_.n_stats(), out.data() + g * prior_.d);
        return out.array({size_t(groups), size_t(prior_.d)});
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

    std::vector<double> mean_, origin_, scale_;
    std::vector<double> factor_;  // of Psi
    GaussianPrior prior_;
};

}  // namespace scstream
