// One pass over rows of counts, as pass.h does it for rows of numbers: the same choices, with the
// clusters along the lanes where all are compared and the entries of a row where few are.
#pragma once

#include "counts_choice.h"
#include "counts_scores.h"

namespace SCSTREAM_ISA {

// One group, with its table as the family makes it.
struct CountGroup {
    CountGroup(const double* table, int64_t d, bool predictive, double add = 0.0)
        : table(table), add(add), predictive(predictive) {
        if (predictive) total = total_of({table, nullptr, d});
    }

    const double* table;
    double add, total = 0.0;
    bool predictive;
};

// Sums over the entries of a row, under N groups of the same kind.
template <int N>
INLINE void add_entries(const CountGroup (&group)[N], const Entries& entries, double (&out)[N]) {
    const int64_t size = entries.size;
    if (!group[0].predictive && entries.feature) {
        double total[N] = {};
        for (int64_t i = 0; i < size; ++i)
            for (int g = 0; g < N; ++g)
                total[g] += entries.count[i] * group[g].table[entries.feature[i]];
        for (int g = 0; g < N; ++g) out[g] = total[g];
        return;
    }
    vd total[N] = {};
    for (int64_t i = 0; i < size; i += LD) {
        const vd count = load_some(entries.count + i, size - i, 0.0);
        for (int g = 0; g < N; ++g) {
            const double* table = group[g].table;
            const vd entry = entries.feature
                                 ? gather_some(table, entries.feature + i, size - i, 1.0)
                                 : load_some(table + i, size - i, 1.0);
            total[g] += group[g].predictive ? log_rising(entry, count) : count * entry;
        }
    }
    for (int g = 0; g < N; ++g) out[g] = sum<double>(total[g]);
}

// Rows that chose the same cluster; lanes beyond the last repeat it and weigh nothing.
struct CountBlock {
    CountBlock(const RowReader& reader, int64_t begin, const int32_t* from, int64_t left)
        : reader(reader), count(int(left < LD ? left : LD)) {
        for (int l = 0; l < LD; ++l) {
            row[l] = begin + from[l < count ? l : count - 1];
            weight[l] = l >= count ? 0.0 : reader.rows.weight ? reader.rows.weight[row[l]] : 1.0;
        }
    }

    // Scores of the rows under some groups of the same kind.
    template <int N> void scores(const CountGroup (&group)[N], vd (&out)[N]) const {
        double sums[N][LD] = {}, number[LD] = {};
        for (int l = 0; l < count; ++l) {
            const Entries entries =
                group[0].predictive ? reader.read_sparse(row[l]) : reader.read(row[l]);
            double total[N];
            add_entries(group, entries, total);
            for (int i = 0; i < N; ++i) sums[i][l] = total[i];
            if (group[0].predictive) number[l] = total_of(entries);
        }
        for (int i = 0; i < N; ++i) out[i] = load(sums[i]) + group[i].add;
        for (int i = 0; group[0].predictive && i < N; ++i)
            out[i] -= log_rising(all(group[i].total), load(number));
    }

    const RowReader& reader;
    const int count;
    int64_t row[LD];  // in the batch
    vd weight;
};

INLINE void add_row(const Entries& entries, double weight, double* stats) {
    stats[0] += weight;
    int64_t i = 0;
    if (entries.feature)
        for (; i < entries.size; ++i) stats[1 + entries.feature[i]] += weight * entries.count[i];
    for (; i + LD <= entries.size; i += LD)
        store(stats + 1 + i, load(stats + 1 + i) + weight * load(entries.count + i));
    for (; i < entries.size; ++i) stats[1 + i] += weight * entries.count[i];
}

class CountsPass final : public scstream::Pass {
  public:
    CountsPass(int64_t d, const AssignmentParams& plan)
        : d_(d),
          plan_(plan),
          // Last stands what may be new. Beside drawn parameters it has no line of its own: its
          // predictive score is added row by row.
          lines_(plan.n_clusters + (plan.may_be_new ? 1 : 0), d, plan.predictive ? 1.0 : 0.0,
                 [&](int64_t g) {
                     if (g < plan.n_clusters) return plan.clusters + g * d;
                     return plan.predictive ? plan.prior : nullptr;
                 },
                 [&](int64_t g) {
                     return g < plan.n_clusters ? plan.log_weight[g] : plan.log_new;
                 }) {}

    void slice(const Rows& rows, int64_t begin, int64_t end, Choices choices,
               double* block) const override {
        const int64_t n = end - begin, k = plan_.n_clusters;
        AssignmentStats totals(block, plan_, 1 + d_);
        Drawn drawn(n, plan_);
        choose(rows, begin, n, drawn);
        add_density(rows, begin, n, drawn, totals.density);
        Sorted sorted(drawn.label.get(), n, k + 1);
        int8_t* side = choices.side + begin;
        const RowReader reader(rows);
        learn(reader, begin, sorted, drawn.half.get(), side, totals);
        if (plan_.collect_evidence) weigh_unions(reader, begin, sorted, totals);
        *totals.novel += novel_weight(rows, begin, sorted, k);
        if (plan_.report_map) report_map(reader, begin, n, drawn, side);
        const int32_t* chosen = (plan_.report_map ? drawn.best : drawn.label).get();
        write_choices(chosen, n, k, choices.label + begin);
    }

    void labels(const Rows& rows, int64_t begin, int64_t end, int64_t* label) const override {
        Drawn drawn(end - begin, plan_);
        choose(rows, begin, end - begin, drawn);
        write_choices(drawn.label.get(), end - begin, plan_.n_clusters, label + begin);
    }

  private:
    // What the rows of a slice drew.
    struct Drawn {
        Drawn(int64_t n, const AssignmentParams& plan)
            : label(n, RAW),
              best(plan.report_map ? n : 0, RAW),
              cluster(plan.draw_sides ? n + LD : 0, RAW),
              half(plan.draw_sides ? n + LD : 0, RAW),
              top(n + LD),
              total(n + LD) {}
        Buffer<int32_t> label;          // to learn from
        Buffer<int32_t> best;           // most probable, to report
        Buffer<double> cluster, half;   // uniform chances
        Buffer<double> top, total;      // best score, and the sum of all relative to it
    };

    void choose(const Rows& rows, int64_t begin, int64_t n, Drawn& drawn) const {
        const int64_t width = lines_.places.width;
        const bool report_map = !plan_.draw_labels || plan_.report_map;
        CountScores compare(lines_, plan_.predictive, rows);
        OneGroup prior(plan_.prior, plan_.may_be_new && !plan_.predictive ? d_ : 0);
        Chooser chooser(lines_.places, PANEL);
        Buffer<double> scores(PANEL * width, RAW);
        int32_t* best = (plan_.draw_labels ? drawn.best : drawn.label).get();
        if (plan_.draw_sides) draw_chances(begin, n, drawn);
        for (int64_t first = 0; first < n; first += PANEL) {
            const int64_t count = n - first < PANEL ? n - first : PANEL;
            compare.panel(begin + first, count, scores.get());
            if (plan_.may_be_new && !plan_.predictive)
                add_new(prior, compare.reader, begin + first, count, scores.get());
            double* top = drawn.top.get() + first;
            const auto line = [&](int64_t r) { return scores.get() + r * width; };
            for (int64_t r = 0; r < count; ++r) top[r] = chooser.best_score(line(r));
            for (int64_t r = 0; report_map && r < count; ++r)
                best[first + r] = chooser.most_probable(line(r), top[r]);
            for (int64_t r = 0; r < count; ++r) chooser.look(r, line(r), top[r]);
            for (int64_t r = 0; r < count; ++r) chooser.add_masses(r, line(r), top[r]);
            for (int64_t r = 0; r < count; ++r) drawn.total[first + r] = chooser.add_lanes(r);
            for (int64_t r = 0; plan_.draw_labels && r < count; ++r)
                drawn.label[first + r] = chooser.draw(r, line(r), drawn.cluster[first + r]);
        }
    }

    // Rows that may be new are compared with the prior's predictive distribution.
    void add_new(OneGroup& prior, const RowReader& reader, int64_t begin, int64_t count,
                 double* scores) const {
        double* place = scores + lines_.places.of(plan_.n_clusters);
        for (int64_t r = 0; r < count; ++r)
            place[r * lines_.places.width] += prior.of(reader.read_sparse(begin + r));
    }

    // Two uniforms per row: one for the cluster, one for the half.
    void draw_chances(int64_t begin, int64_t n, Drawn& drawn) const {
        for (int64_t r = 0; r < n; r += LD) {
            vd cluster, half;
            chances_from(plan_, begin + r, cluster, half);
            store(drawn.cluster.get() + r, cluster);
            store(drawn.half.get() + r, half);
        }
    }

    void add_density(const Rows& rows, int64_t begin, int64_t n, const Drawn& drawn,
                     double* out) const {
        vd density = {};
        for (int64_t r = 0; r < n; r += LD) {
            // Beyond the last row both are those of a density of one.
            const vd total = load_some(drawn.total.get() + r, n - r, 1.0);
            const vd each = load(drawn.top.get() + r) + log_of(total);
            density += rows.weight ? load_some(rows.weight + begin + r, n - r, 0.0) * each : each;
        }
        *out += sum<double>(density);
    }

    void learn(const RowReader& reader, int64_t begin, const Sorted& sorted, const double* chance,
               int8_t* side, AssignmentStats& totals) const {
        for (int64_t k = 0; k < plan_.n_clusters; ++k) {
            const int64_t end = sorted.start[k + 1];
            if (sorted.start[k] == end) continue;
            const CountGroup subclusters[2] = {half(2 * k), half(2 * k + 1)}, all_of_it[1] = {clusters(k)};
            vd evidence = {};
            for (int64_t i = sorted.start[k]; i < end; i += LD) {
                const CountBlock b(reader, begin, sorted.row.get() + i, end - i);
                vd score[2], of_whole[1];
                b.scores(subclusters, score);
                if (plan_.collect_evidence) {
                    b.scores(all_of_it, of_whole);
                    evidence += clipped(log_add(score[0], score[1]) - of_whole[0]) * b.weight;
                }
                const vd gain = score[1] - score[0];
                const Int<double> right = right_half(plan_, gain, chance, b.row, begin);
                const Int<double> told = plan_.report_map ? (Int<double>)(gain > 0.0) : right;
                for (int l = 0; l < b.count; ++l) {
                    double* stats = totals.stats + (2 * k + (right[l] ? 1 : 0)) * (1 + d_);
                    add_row(reader.read(b.row[l]), b.weight[l], stats);
                    side[b.row[l] - begin] = told[l] ? 1 : 0;
                }
            }
            totals.split[k] += sum<double>(evidence);
        }
    }

    // Evidence of the rows of each pair for its union.
    void weigh_unions(const RowReader& reader, int64_t begin, const Sorted& sorted,
                      AssignmentStats& totals) const {
        for (int64_t m = 0; m < plan_.n_pairs; ++m) {
            const int64_t pair[2] = {plan_.pairs[2 * m], plan_.pairs[2 * m + 1]};
            const vd one = all(plan_.log_weight[pair[0]]), two = all(plan_.log_weight[pair[1]]);
            const vd both = log_add(one, two);
            const CountGroup groups[2] = {clusters(pair[0]), clusters(pair[1])};
            const CountGroup joined[1] = {CountGroup(plan_.unions + m * d_, d_, true)};
            vd total = {}, apart[2], together[1];
            for (int64_t k : pair)
                for (int64_t i = sorted.start[k]; i < sorted.start[k + 1]; i += LD) {
                    const CountBlock b(reader, begin, sorted.row.get() + i,
                                       sorted.start[k + 1] - i);
                    b.scores(groups, apart);
                    b.scores(joined, together);
                    const vd mixed = log_add(apart[0] + one, apart[1] + two) - both;
                    total += clipped(together[0] - mixed) * b.weight;
                }
            totals.merge[m] += sum<double>(total);
        }
    }

    // Sides of the rows whose most probable cluster is not the one they drew.
    void report_map(const RowReader& reader, int64_t begin, int64_t n, Drawn& drawn,
                int8_t* side) const {
        keep_unsettled(drawn.label.get(), drawn.best.get(), n, plan_.n_clusters);
        Sorted sorted(drawn.label.get(), n, plan_.n_clusters);
        for (int64_t k = 0; k < plan_.n_clusters; ++k) {
            const int64_t end = sorted.start[k + 1];
            if (sorted.start[k] == end) continue;
            const CountGroup subclusters[2] = {half(2 * k), half(2 * k + 1)};
            for (int64_t i = sorted.start[k]; i < end; i += LD) {
                const CountBlock b(reader, begin, sorted.row.get() + i, end - i);
                vd score[2];
                b.scores(subclusters, score);
                for (int l = 0; l < b.count; ++l)
                    side[b.row[l] - begin] = score[1][l] - score[0][l] > 0.0;
            }
        }
    }

    CountGroup half(int64_t g) const {
        return CountGroup(plan_.subclusters + g * d_, d_, plan_.predictive, plan_.log_subweight[g]);
    }
    CountGroup clusters(int64_t k) const {
        return CountGroup(plan_.clusters + k * d_, d_, plan_.predictive);
    }

    const int64_t d_;
    const AssignmentParams plan_;
    const Lines lines_;
};

}  // namespace SCSTREAM_ISA
