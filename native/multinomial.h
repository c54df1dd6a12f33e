// The multinomial family: marginal likelihood, draws, scores and statistics.
// Formulas: src/scstream/families/multinomial.py, which is the specification.
#pragma once

#include "counts_pass.h"

namespace SCSTREAM_ISA {

using scstream::DirichletPrior;

static scstream::Pass* multinomial_pass(int64_t d, const AssignmentParams& plan) {
    return new CountsPass(d, plan);
}

// What a group, or a pair of groups, has beyond the prior: features without counts say nothing.
class Beyond {
  public:
    explicit Beyond(const DirichletPrior& prior)
        : prior_(prior),
          total_(total_of({prior.concentration, nullptr, prior.d})),
          one_(prior.d + LD, RAW),
          two_(prior.d + LD, RAW),
          base_(prior.d + LD, RAW),
          log_gamma_(prior.d + LD, RAW) {}

    // sum_j log Gamma(a_j + n_j) / Gamma(a_j) - log Gamma(A + n) / Gamma(A), of one or of both
    double log_marginal(const double* one, const double* two) {
        vd n = {}, value = {};
        const int64_t size = read([&](int64_t j, vd& x, vd&) {
            x = load_some(one + 1 + j, prior_.d - j, 0.0);
            if (two) x += load_some(two + 1 + j, prior_.d - j, 0.0);
            n += x;
            return (Int<double>)(x != 0.0);
        });
        for (int64_t i = 0; i < size; i += LD)
            value += log_gamma_of(base(i) + load(one_.get() + i)) - at(i);
        return sum<double>(value) - log_rising(all(total_), all(sum<double>(n)))[0];
    }

    // log f(one) + log f(two) - log f(one + two): features that only one has cancel out.
    double log_apart(const double* one, const double* two) {
        vd n_one = {}, n_two = {}, value = {};
        const int64_t size = read([&](int64_t j, vd& x, vd& y) {
            n_one += x = load_some(one + 1 + j, prior_.d - j, 0.0);
            n_two += y = load_some(two + 1 + j, prior_.d - j, 0.0);
            return (Int<double>)(x != 0.0) & (Int<double>)(y != 0.0);
        });
        for (int64_t i = 0; i < size; i += LD) {
            const vd x = load(one_.get() + i), y = load(two_.get() + i), b = base(i);
            value += log_gamma_of(b + x) + log_gamma_of(b + y) - log_gamma_of(b + (x + y)) - at(i);
        }
        const double left = sum<double>(n_one), right = sum<double>(n_two);
        vd n = {};
        n[0] = left;
        n[1] = right;
        const vd rise = log_rising(all(total_), n);
        return sum<double>(value) - (rise[0] + rise[1]) +
               log_rising(all(total_), all(left + right))[0];
    }

  private:
    // Keep the features that `counts_of` returns, and their numbers.
    template <class CountsOf> int64_t read(CountsOf counts_of) {
        int64_t size = 0;
        for (int64_t j = 0; j < prior_.d; j += LD) {
            const int64_t left = prior_.d - j;
            vd x = {}, y = {};
            const Int<double> kept = counts_of(j, x, y);
            store_where(kept, x, one_.get() + size);
            store_where(kept, y, two_.get() + size);
            store_where(kept, load_some(prior_.log_gamma + j, left, 0.0), log_gamma_.get() + size);
            size += store_where(kept, load_some(prior_.concentration + j, left, 1.0),
                                base_.get() + size);
        }
        // The last vector is filled up with features whose log Gamma is that of one: zero.
        store(one_.get() + size, vd{});
        store(two_.get() + size, vd{});
        store(base_.get() + size, all(1.0));
        store(log_gamma_.get() + size, vd{});
        return size;
    }
    vd base(int64_t i) const { return load(base_.get() + i); }
    vd at(int64_t i) const { return load(log_gamma_.get() + i); }

    const DirichletPrior& prior_;
    const double total_;
    Buffer<double> one_, two_, base_, log_gamma_;
};

static void multinomial_log_marginal(const DirichletPrior& prior, const double* const* one,
                                     const double* const* two, int64_t groups, double* out) {
    Beyond beyond(prior);
    for (int64_t g = 0; g < groups; ++g)
        out[g] = beyond.log_marginal(one[g], two ? two[g] : nullptr);
}

static void multinomial_log_apart(const DirichletPrior& prior, const double* const* one,
                                  const double* const* two, int64_t groups, double* out) {
    Beyond beyond(prior);
    for (int64_t g = 0; g < groups; ++g) out[g] = beyond.log_apart(one[g], two[g]);
}

// Square roots of the mean frequencies of a group.
static void multinomial_coordinates(const DirichletPrior& prior, const double* stats, double* out) {
    const int64_t d = prior.d;
    const double total = total_of({prior.concentration, nullptr, d}) +
                         total_of({stats + 1, nullptr, d});
    for (int64_t j = 0; j < d; j += LD)
        store_some(out + j, d - j,
                   root((load_some(prior.concentration + j, d - j, 1.0) +
                         load_some(stats + 1 + j, d - j, 0.0)) / total));
}

// What each row adds to the log marginal of its group; only features that the row has change.
static void multinomial_leave_one_out(const DirichletPrior& prior, const Rows& rows,
                                      const int64_t* group, const double* stats, int64_t groups,
                                      double* out) {
    const double least = 2.2250738585072014e-308;
    const double in_prior = total_of({prior.concentration, nullptr, prior.d});
    Buffer<double> total(groups, RAW);
    for (int64_t g = 0; g < groups; ++g)
        total[g] = in_prior + total_of({stats + g * prior.n_stats() + 1, nullptr, prior.d});
    const RowReader reader(rows);
    for (int64_t r = 0; r < rows.n; ++r) {
        const Entries entries = reader.read_sparse(r);
        const double weight = rows.weight ? rows.weight[r] : 1.0;
        const double* counts = stats + group[r] * prior.n_stats() + 1;
        vd gain = {};
        for (int64_t i = 0; i < entries.size; i += LD) {
            const int64_t left = entries.size - i;
            const vd all_of_it = gather_some(prior.concentration, entries.feature + i, left, 1.0) +
                                 gather_some(counts, entries.feature + i, left, 0.0);
            const vd own = weight * load_some(entries.count + i, left, 0.0);
            gain += log_gamma_of(all_of_it) -
                    log_gamma_of(larger<double>(all_of_it - own, all(least)));
        }
        const double n = total[group[r]], without = n - weight * total_of(entries);
        vd ends = all(n);
        ends[1] = without > least ? without : least;
        ends = log_gamma_of(ends);
        out[r] = sum<double>(gain) + (ends[1] - ends[0]);
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
