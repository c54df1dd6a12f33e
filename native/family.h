// What the compiled kernels of all families share: the pass over the rows of a batch.
#pragma once

#include <deque>
#include <utility>

#include "rows_held.h"

namespace scstream {

// Which rows of a batch are passed, as `scstream.core.assign.Stretch`: where they begin, how they are
// cut into slices, and how many slices each of the subtrees has whose sums are wanted.
struct Cut {
    int64_t first_row, slice_length;
    Ids subtrees;
};

// The arrays of a plan, as the fields of `scstream.core.assign.AssignmentParams`.
struct AssignmentArrays {
    Matrix clusters, subclusters;
    Vector log_weight;
    Matrix log_subweight, prior;
    Ids pairs;
    Matrix unions;
    Matrix screen;
    int64_t n_candidates;
    std::optional<Matrix> typical;
};

class Family {
  public:
    virtual ~Family() = default;
    virtual int64_t n_features() const = 0;
    virtual int64_t n_stats() const = 0;
    virtual int64_t table_width(bool predictive) const = 0;
    virtual std::unique_ptr<Pass> pass(const AssignmentParams& plan) const = 0;

    // Let every row choose: labels, sides, and the sums of the totals, one row per subtree.
    nb::tuple assign(const nb::object& X, std::optional<Vector> weight, const AssignmentArrays& arrays,
                     std::optional<double> log_new, std::optional<uint64_t> key, bool predictive,
                     bool map_labels, bool report_map, bool collect_evidence, bool single,
                     const Cut& cut) const {
        return assign_rows(
            rows_of(X, weight).rows,
            read(arrays, log_new, key, predictive, map_labels, report_map, collect_evidence, single,
                 cut.first_row),
            cut);
    }

    Output log_likelihood(const Matrix& params, const nb::object& X) const {
        return scores(params, X, false);
    }
    Output log_predictive(const Matrix& table, const nb::object& X) const {
        return scores(table, X, true);
    }

    Output stats(const nb::object& X, const Ids& group, int64_t n_groups,
                 std::optional<Vector> weight) const {
        const RowsHeld held = rows_of(X, weight);
        require(int64_t(group.size()) == held.rows.n, "one group per row is needed");
        for (size_t r = 0; r < group.size(); ++r)
            require(group.data()[r] < n_groups, "a group is out of range");
        Fresh<double> out(n_groups * n_stats());
        {
            nb::gil_scoped_release free;
            add_stats(held.rows, group.data(), n_groups, out.data());
        }
        return out.array({size_t(n_groups), size_t(n_stats())});
    }

    RowsHeld rows_of(const nb::object& X, const std::optional<Vector>& weight) const {
        return RowsHeld(X, weight, n_features(), sparse());
    }

  protected:
    virtual bool sparse() const { return false; }  // whether CSR rows are read

    // Sum the statistics of rows by group, and compare rows [begin, end) with groups.
    virtual void add_stats(const Rows& rows, const int64_t* group, int64_t n_groups,
                           double* out) const = 0;
    virtual void score_rows(const double* table, int64_t groups, bool predictive, const Rows& rows,
                            int64_t begin, int64_t end, double* out) const = 0;

    template <class A> int64_t groups_of(const A& stats) const {
        require(stats.ndim() > 0 && int64_t(stats.shape(stats.ndim() - 1)) == n_stats(),
                "statistics have the wrong width");
        return int64_t(stats.size()) / n_stats();
    }

    using Pointers = std::vector<const double*>;  // to the statistics of groups

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

    AssignmentParams read(const AssignmentArrays& a, std::optional<double> log_new, std::optional<uint64_t> key,
              bool predictive, bool map_labels, bool report_map, bool collect_evidence, bool single,
              int64_t first_row) const {
        const size_t k = a.clusters.shape(0), m = a.unions.shape(0);
        const size_t width = size_t(table_width(predictive)), full = size_t(table_width(true));
        require(a.clusters.shape(1) == width && a.subclusters.shape(0) == 2 * k &&
                    a.subclusters.shape(1) == width && a.log_weight.size() == k &&
                    a.log_subweight.size() == 2 * k && a.prior.size() == full &&
                    a.pairs.size() == 2 * m && (m == 0 || a.unions.shape(1) == full) &&
                    (!a.typical || a.typical->size() == full),
                "the arrays of the plan do not fit together");
        for (size_t i = 0; i < 2 * m; ++i)
            require(a.pairs.data()[i] >= 0 && a.pairs.data()[i] < int64_t(k),
                    "a pair names no cluster");
        require(k > 0 || log_new.has_value(), "a plan needs something to choose");
        AssignmentParams plan;
        plan.n_clusters = int64_t(k);
        plan.n_pairs = int64_t(m);
        plan.clusters = a.clusters.data();
        plan.subclusters = a.subclusters.data();
        plan.log_weight = a.log_weight.data();
        plan.log_subweight = a.log_subweight.data();
        plan.prior = a.prior.data();
        plan.pairs = a.pairs.data();
        plan.unions = a.unions.data();
        if (a.n_candidates > 0) {
            require(a.screen.shape(0) == k && predictive && k > 0 &&
                        a.screen.shape(1) == size_t(screen_width(n_features())),
                    "the screen does not fit the clusters");
            plan.screen = a.screen.data();
            plan.n_candidates = a.n_candidates;
        }
        plan.typical = a.typical ? a.typical->data() : nullptr;
        plan.log_new = log_new.value_or(0.0);
        plan.key = key.value_or(0);
        plan.first_row = first_row;
        plan.predictive = predictive;
        plan.may_be_new = log_new.has_value();
        plan.draw_labels = key.has_value() && !map_labels;
        plan.draw_sides = key.has_value();
        plan.report_map = report_map;
        plan.collect_evidence = collect_evidence;
        plan.single = single;
        return plan;
    }

    nb::tuple assign_rows(const Rows& rows, const AssignmentParams& plan, const Cut& cut) const {
        const int64_t size = AssignmentStats::size(plan, n_stats()), trees = int64_t(cut.subtrees.size());
        require_all_slices(rows, cut);
        Fresh<int64_t> label(rows.n);
        Fresh<int8_t> side(rows.n);
        Fresh<double> sums(trees * size);
        {
            nb::gil_scoped_release free;
            sum_slices(rows, plan, cut, {label.data(), side.data()}, size, sums.data());
        }
        return nb::make_tuple(label.array({size_t(rows.n)}), side.array({size_t(rows.n)}),
                              sums.array({size_t(trees), size_t(size)}));
    }

  private:
    Output scores(const Matrix& table, const nb::object& X, bool predictive) const {
        const int64_t groups = int64_t(table.shape(0));
        require(int64_t(table.shape(1)) == table_width(predictive), "tables have the wrong width");
        const RowsHeld held = rows_of(X, std::nullopt);
        const Rows& rows = held.rows;
        Fresh<double> out(rows.n * groups);
        {
            nb::gil_scoped_release free;
            const double work = double(rows.n) * double(table.size());
            run_ranges(rows.n, 256, threads_for(work, (rows.n + 255) / 256),
                       [&](int64_t begin, int64_t end) {
                           score_rows(table.data(), groups, predictive, rows, begin, end,
                                      out.data());
                       });
        }
        return out.array({size_t(rows.n), size_t(groups)});
    }

    static void require_all_slices(const Rows& rows, const Cut& cut) {
        require(cut.slice_length > 0, "a slice needs rows");
        int64_t slices = 0;
        for (size_t i = 0; i < cut.subtrees.size(); ++i) {
            require(cut.subtrees.data()[i] > 0, "a subtree needs slices");
            slices += cut.subtrees.data()[i];
        }
        const int64_t needed = (rows.n + cut.slice_length - 1) / cut.slice_length;
        require(slices == (needed > 0 ? needed : 1), "the subtrees do not have all slices");
    }

    void sum_slices(const Rows& rows, const AssignmentParams& plan, const Cut& cut, Choices choices,
                    int64_t size, double* sums) const {
        if (rows.n == 0) return;
        const std::unique_ptr<Pass> ready = pass(plan);
        const int64_t length = cut.slice_length, slices = (rows.n + length - 1) / length;
        if (slices == 1) return ready->slice(rows, 0, rows.n, choices, sums);
        Blocks blocks(size);
        std::deque<TreeSum> trees;
        std::vector<std::pair<int64_t, int64_t>> place;  // of a slice: its subtree, where in it
        for (size_t t = 0; t < cut.subtrees.size(); ++t) {
            trees.emplace_back(cut.subtrees.data()[t], blocks);
            for (int64_t i = 0; i < cut.subtrees.data()[t]; ++i) place.emplace_back(t, i);
        }
        const double work = double(rows.n) * double(plan.n_clusters * table_width(plan.predictive));
        run_tasks(slices, threads_for(work, slices), [&](int64_t i) {
            std::vector<double> block = blocks.get();
            const int64_t end = (i + 1) * length;
            ready->slice(rows, i * length, end < rows.n ? end : rows.n, choices, block.data());
            trees[place[i].first].add(place[i].second, std::move(block));
        });
        for (size_t t = 0; t < trees.size(); ++t) {
            const std::vector<double> total = trees[t].take();
            std::memcpy(sums + t * size, total.data(), size_t(size) * sizeof(double));
        }
    }
};

}  // namespace scstream
