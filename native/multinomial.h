// The multinomial family: marginal likelihood, draws, scores and statistics.
// Formulas: src/scstream/families/multinomial.py, which is the specification.
#pragma once

#include "counts_pass.h"

namespace SCSTREAM_ISA {

static scstream::Pass* multinomial_pass(int64_t d, const AssignmentParams& plan) {
    return new CountsPass(d, plan);
}

// sum_j log Gamma(a_j + n_j) / Gamma(a_j) - log Gamma(A + n) / Gamma(A) of groups [begin, end)
static void multinomial_log_marginal(const double* concentration, int64_t d, const double* stats,
                                     int64_t begin, int64_t end, double* out) {
    const double all_of_it = total_of({concentration, nullptr, d});
    for (int64_t g = begin; g < end; ++g) {
        const double* n = stats + g * (1 + d) + 1;
        vd value = {};
        for (int64_t j = 0; j < d; j += LD)
            value += log_rising(load_some(concentration + j, d - j, 1.0),
                                load_some(n + j, d - j, 0.0));
        const vd clusters = log_rising(all(all_of_it), all(total_of({n, nullptr, d})));
        out[g] = sum<double>(value) - clusters[0];
    }
}

// Log probabilities from the logarithms of gamma variates.
static void multinomial_draw(const double* log_gammas, int64_t d, int64_t begin, int64_t end,
                             double* out) {
    for (int64_t g = begin; g < end; ++g) {
        const double* from = log_gammas + g * d;
        vd top = all(-double(INFINITY)), total = {};
        for (int64_t j = 0; j < d; j += LD)
            top = larger<double>(top, load_some(from + j, d - j, -INFINITY));
        const vd best = all(largest(top));
        for (int64_t j = 0; j < d; j += LD)
            total += exp_of(load_some(from + j, d - j, -INFINITY) - best);
        const vd scale = best + log_of(all(sum<double>(total)));
        for (int64_t j = 0; j < d; j += LD)
            store_some(out + g * d + j, d - j, load_some(from + j, d - j, 0.0) - scale);
    }
}

// Log densities of rows [begin, end) under groups, one line per row.
static void multinomial_scores(const double* table, int64_t groups, bool predictive,
                               const Rows& rows, int64_t begin, int64_t end, double* out) {
    if (!groups) return;
    const int64_t d = rows.d;
    const Lines lines(groups, d, predictive ? 1.0 : 0.0, [&](int64_t g) { return table + g * d; },
                      [](int64_t) { return 0.0; });
    CountScores compare(lines, predictive, rows);
    Buffer<double> scores(PANEL * lines.places.width, RAW);
    for (int64_t first = begin; first < end; first += PANEL) {
        const int64_t count = end - first < PANEL ? end - first : PANEL;
        compare.panel(first, count, scores.get());
        for (int64_t r = 0; r < count; ++r)
            for (int64_t g = 0; g < groups; ++g)
                out[(first + r) * groups + g] = scores[r * lines.places.width + lines.places.of(g)];
    }
}

static bool multinomial_in_range(const Rows& rows) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < rows.indptr[rows.n]; ++i) {
        const uint32_t feature = uint32_t(rows.indices[i]);
        largest = feature > largest ? feature : largest;
    }
    return int64_t(largest) < rows.d;
}

static void multinomial_stats(const Rows& rows, const int64_t* group, double* out) {
    const RowReader reader(rows);
    for (int64_t r = 0; r < rows.n; ++r)
        if (group[r] >= 0)
            add_row(reader.read(r), rows.weight ? rows.weight[r] : 1.0,
                    out + group[r] * (1 + rows.d));
}

}  // namespace SCSTREAM_ISA
