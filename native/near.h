// The groups that rows may belong to, and an audit of the screen that found them.
#pragma once

#include "pass.h"

namespace SCSTREAM_ISA {

constexpr double PLAUSIBLE = 6.907755278982137;  // log 1000: nats below the best
constexpr int64_t STEP = 4096;                   // rows at a time

// Share of the mixture at one row that its candidates do not have.
INLINE double missed_share(const int32_t* candidate, int64_t most, const double* score,
                           const double* log_weight, int64_t groups) {
    double highest = -INFINITY, found = 0.0, total = 0.0;
    for (int64_t g = 0; g < groups; ++g)
        highest = score[g] + log_weight[g] > highest ? score[g] + log_weight[g] : highest;
    for (int64_t g = 0; g < groups; ++g) total += std::exp(score[g] + log_weight[g] - highest);
    for (int64_t c = 0; c < most; ++c)
        found += std::exp(score[candidate[c]] + log_weight[candidate[c]] - highest);
    // Multiples of 2^-20, which add up to the same sum in any order.
    return std::floor((1.0 - found / total) * 0x1p20) * 0x1p-20;
}

// Candidates of every row and their scores.
template <class Family>
static void shortlist(const Family& family, const AssignmentParams& plan, const Rows& rows,
                      int64_t begin, int64_t end, int64_t* group, double* score) {
    const Screen screen(plan.screen, plan.n_clusters, rows.d, plan.log_weight);
    const auto exact = family.template tables<double>(plan.clusters, plan.n_clusters, true);
    const Shortlist<Family> list(family, plan, screen, exact, rows, begin, end - begin);
    for (int64_t p = 0; p < (end - begin) * list.most; ++p) {
        group[begin * list.most + p] = list.group[p];
        score[begin * list.most + p] = list.score[p];
    }
}

// Count, for every group, the rows that may belong to it. Every `every`-th row is compared with all
// groups: `audit` gets the sum of the shares that the screen missed, and the number of these rows.
template <class Family>
static void near_groups(const Family& family, const AssignmentParams& plan, const Rows& rows,
                        int64_t every, int64_t phase, double* near, double* audit) {
    const int64_t groups = plan.n_clusters;
    const Screen screen(plan.screen, groups, rows.d, plan.log_weight);
    const auto exact = family.template tables<double>(plan.clusters, groups, true);
    for (int64_t begin = 0; begin < rows.n; begin += STEP) {
        const int64_t n = rows.n - begin < STEP ? rows.n - begin : STEP;
        const Shortlist<Family> list(family, plan, screen, exact, rows, begin, n);
        for (int64_t r = 0; r < n; ++r) {
            const double* score = list.score.get() + r * list.most;
            double top = -INFINITY;
            for (int64_t c = 0; c < list.most; ++c) top = score[c] > top ? score[c] : top;
            for (int64_t c = 0; c < list.most; ++c)
                if (score[c] >= top - PLAUSIBLE) near[list.group[r * list.most + c]] += 1.0;
        }
        const int64_t from = (phase - (plan.first_row + begin) % every + every) % every;
        const int64_t checked = from < n ? (n - from + every - 1) / every : 0;
        Buffer<double> x(checked * rows.d, RAW), scores(checked * groups, RAW);
        for (int64_t i = 0; i < checked; ++i)
            memcpy(x.get() + i * rows.d, rows.x + (begin + from + i * every) * rows.d,
                   size_t(rows.d) * sizeof(double));
        Rows picked = rows;
        picked.x = x.get();
        picked.n = checked;
        row_scores(family, plan.clusters, groups, true, picked, 0, checked, scores.get());
        for (int64_t i = 0; i < checked; ++i)
            audit[0] += missed_share(list.group.get() + (from + i * every) * list.most, list.most,
                                     scores.get() + i * groups, plan.log_weight, groups);
        audit[1] += double(checked);
    }
}

}  // namespace SCSTREAM_ISA
