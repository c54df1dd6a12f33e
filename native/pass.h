// One pass over rows: every row chooses a cluster, then a half of it; the statistics of the subclusters,
// or the evidence for splits and merges, are summed. The specification is core/assign.py.
//
// First, tile by tile, all rows choose their clusters. Then rows are sorted by cluster, and cluster
// by cluster, a vector of rows at a time, they choose a half and are summed.
#pragma once

#include "api.h"
#include "screen.h"
#include "simd.h"

namespace SCSTREAM_ISA {

using scstream::Choices;
using scstream::AssignmentParams;
using scstream::Rows;
using scstream::AssignmentStats;

constexpr double NEGLIGIBLE = 34.0;        // nats below the best: a share of 1e-15
constexpr double LOUDEST = 1.0;            // nats that one row may say for or against a move
constexpr int64_t MOST_SCORES = 1 << 20;   // scores held at a time
constexpr int64_t MANY = 512;              // groups, of which most rows have a share in few

// Whether most groups are far from a row, however few there are: so it is with many features.
template <class Family> constexpr bool MOSTLY_FAR = false;

// Rows in the order of their labels; those of label k stand in [start[k], start[k + 1]).
class Sorted {
  public:
    Sorted(const int32_t* label, int64_t n, int64_t n_labels)
        : start(n_labels + 2), row(n, RAW) {
        for (int64_t r = 0; r < n; ++r)
            if (label[r] >= 0) ++start[label[r] + 2];
        for (int64_t k = 2; k < n_labels + 2; ++k) start[k] += start[k - 1];
        for (int64_t r = 0; r < n; ++r)
            if (label[r] >= 0) row[start[label[r] + 1]++] = int32_t(r);
    }
    Buffer<int64_t> start;
    Buffer<int32_t> row;
};

INLINE vd clipped(vd gain) {
    gain = gain > LOUDEST ? all(LOUDEST) : gain;
    return gain < -LOUDEST ? all(-LOUDEST) : gain;
}

// Two uniforms for each of a vector of rows from `row` on: for the cluster, and for the half.
INLINE void chances_from(const AssignmentParams& plan, int64_t row, vd& cluster, vd& half) {
    uint64_t index[LD];
    for (int l = 0; l < LD; ++l) index[l] = uint64_t(plan.first_row + row + l);
    vu at, one, two;
    memcpy(&at, index, sizeof(at));
    philox(plan.key, at, vu{}, one, two);
    cluster = unit(one);
    half = unit(two);
}

// Which rows take the right half, by how much better it is: with probability 1 / (1 + exp(-gain)),
// `chance` being that of row `begin` and those behind it, or where it is better.
INLINE Int<double> right_half(const AssignmentParams& plan, vd gain, const double* chance,
                              const int64_t (&row)[LD], int64_t begin) {
    if (!plan.draw_sides) return (Int<double>)(gain > 0.0);
    vd u;
    for (int l = 0; l < LD; ++l) u[l] = chance[row[l] - begin];
    const vd odds = exp_of(gain > 700.0 ? all(700.0) : gain);
    return (Int<double>)((1.0 - u) * odds > u);
}

// Keep the labels of the rows whose most probable cluster is not the one they drew.
INLINE void keep_unsettled(int32_t* label, const int32_t* best, int64_t n, int64_t n_clusters) {
    for (int64_t r = 0; r < n; ++r)
        label[r] = best[r] == label[r] || best[r] == n_clusters ? -1 : best[r];
}

// Weight of the rows from `begin` on that chose no cluster.
INLINE double novel_weight(const Rows& rows, int64_t begin, const Sorted& sorted,
                           int64_t n_clusters) {
    double total = 0.0;
    for (int64_t i = sorted.start[n_clusters]; i < sorted.start[n_clusters + 1]; ++i)
        total += rows.weight ? rows.weight[begin + sorted.row[i]] : 1.0;
    return total;
}

INLINE void write_choices(const int32_t* chosen, int64_t n, int64_t n_clusters, int64_t* label) {
    for (int64_t r = 0; r < n; ++r) label[r] = chosen[r] == n_clusters ? -1 : chosen[r];
}

// Scores of one row under all groups, with their weights.
template <class Family>
static void score_all(const Family& family, const AssignmentParams& plan, const Rows& rows,
                      int64_t row, double* out) {
    const auto exact = family.template tables<double>(plan.clusters, plan.n_clusters, true);
    Buffer<double> x(family.vector_size(), RAW);
    int64_t same[LD];
    for (int l = 0; l < LD; ++l) same[l] = row;
    family.pack_vector(rows, same, x.get());
    for (int64_t g = 0; g < plan.n_clusters; ++g)
        out[g] = exact.score(g, x.get())[0] + plan.log_weight[g];
}

template <class Family> class RowPass final : public scstream::Pass {
    using T = typename Family::T;
    template <class R> using Tables = typename Family::template Tables<R>;

  public:
    RowPass(const Family& family, const AssignmentParams& plan)
        : family_(family),
          plan_(plan),
          whole_(family.template tables<T>(plan.clusters, plan.n_clusters, plan.predictive,
                                           plan.log_weight)),
          prior_(family.template tables<T>(plan.prior, plan.may_be_new ? 1 : 0, true,
                                           &plan_.log_new)),
          halves_(family.template tables<double>(plan.subclusters,
                                                 plan.subclusters ? 2 * plan.n_clusters : 0,
                                                 plan.predictive, plan.log_subweight)),
          exact_(family.template tables<double>(
              plan.clusters,
              plan.collect_evidence || plan.n_candidates || plan.typical ? plan.n_clusters : 0,
              plan.predictive)),
          new_(family.template tables<double>(
              plan.prior, plan.n_candidates && plan.may_be_new ? 1 : 0, true, &plan_.log_new)),
          unions_(family.template tables<double>(plan.unions, plan.n_pairs, true)),
          typical_(family.template tables<double>(plan.typical, plan.typical ? 1 : 0, true)),
          screen_(plan.screen, plan.n_candidates ? plan.n_clusters : 0, family.prior.d,
                  plan.log_weight) {}

    void slice(const Rows& rows, int64_t begin, int64_t end, Choices choices,
               double* block) const override {
        const int64_t n = end - begin, k = plan_.n_clusters;
        AssignmentStats totals(block, plan_, family_.n_stats());
        Drawn drawn(n, plan_);
        if (plan_.n_candidates)
            choose_candidates(rows, begin, n, drawn, totals);
        else
            choose(rows, begin, n, drawn, totals.density);
        if (plan_.typical) leave_bad_fits(rows, begin, n, drawn);
        Sorted sorted(drawn.label.get(), n, k + 1);
        int8_t* side = choices.side + begin;
        learn(rows, begin, sorted, drawn.chance.get(), side, totals);
        if (plan_.collect_evidence) weigh_unions(rows, begin, sorted, totals);
        *totals.novel += novel_weight(rows, begin, sorted, k);
        if (plan_.report_map) report_map(rows, begin, n, drawn, side);
        const int32_t* chosen = (plan_.report_map ? drawn.best : drawn.label).get();
        write_choices(chosen, n, k, choices.label + begin);
    }

    void labels(const Rows& rows, int64_t begin, int64_t end, int64_t* label) const override {
        Drawn drawn(end - begin, plan_);
        choose(rows, begin, end - begin, drawn, nullptr);
        write_choices(drawn.label.get(), end - begin, plan_.n_clusters, label + begin);
    }

  private:
    // What the rows of a slice drew.
    struct Drawn {
        Drawn(int64_t n, const AssignmentParams& plan)
            : label(n, RAW), best(plan.report_map ? n : 0, RAW), chance(plan.draw_sides ? n : 0, RAW) {}
        Buffer<int32_t> label;  // to learn from
        Buffer<int32_t> best;   // most probable, to report
        Buffer<double> chance;  // uniform, for the half
    };

    void choose(const Rows& rows, int64_t begin, int64_t n, Drawn& drawn, double* density) const {
        const int64_t k = plan_.n_clusters, groups = k + prior_.groups;
        int64_t most = whole_.in_cache() ? 1 : MOST_SCORES / (groups * TILE<T>);
        const int64_t needed = (n + TILE<T> - 1) / TILE<T>;
        most = most < 1 ? 1 : most < needed ? most : needed;
        const int64_t stride = most * TILE<T>;
        const bool look = groups >= MANY || MOSTLY_FAR<Family>;
        const T slack = T(look ? NEGLIGIBLE : INFINITY);
        Buffer<T> x(most * family_.tile_size(), RAW), scores(groups * stride, RAW);
        Buffer<T> top(stride, RAW);
        for (int64_t first = 0; first < n; first += stride) {
            const int64_t count = n - first < stride ? n - first : stride;
            const int64_t tiles = (count + TILE<T> - 1) / TILE<T>;
            for (int64_t t = 0; t < tiles; ++t)
                family_.pack_tile(rows, begin + first + t * TILE<T>, in_tile(count, t),
                                  x.get() + t * family_.tile_size());
            for (int64_t r = 0; r < stride; ++r) top[r] = T(-INFINITY);
            whole_.scores(x.get(), tiles, scores.get(), stride, top.get(), slack);
            if (prior_.groups)
                prior_.scores(x.get(), tiles, scores.get() + k * stride, stride, top.get(), slack);
            for (int64_t t = 0; t < tiles; ++t)
                choose_tile(scores.get() + t * TILE<T>, stride, groups, top.get() + t * TILE<T>,
                            look, rows, begin, first + t * TILE<T>, in_tile(count, t), drawn, density);
        }
    }

    // The same among few candidates, and among a new cluster where rows may be in one.
    void choose_candidates(const Rows& rows, int64_t begin, int64_t n, Drawn& drawn,
                           AssignmentStats& totals) const {
        if constexpr (Family::CAN_SCREEN) {
            const Shortlist<Family> list(family_, plan_, screen_, exact_, rows, begin, n);
            const int64_t k = plan_.n_clusters;
            Buffer<double> x(family_.vector_size(), RAW), mass(k, RAW), complete(k, RAW);
            for (int64_t first = 0; first < n; first += LD) {
                const int64_t count = n - first < LD ? n - first : LD;
                vd chance, half, fresh = all(-double(INFINITY));
                chances_from(plan_, begin + first, chance, half);
                if (plan_.may_be_new) {
                    int64_t row[LD];
                    for (int l = 0; l < LD; ++l) row[l] = begin + first + (l < count ? l : 0);
                    family_.pack_vector(rows, row, x.get());
                    fresh = new_.score(0, x.get());
                }
                for (int64_t r = first; r < first + count; ++r) {
                    const int32_t* group = list.group.get() + r * list.most;
                    const double* score = list.score.get() + r * list.most;
                    int64_t most = list.most;
                    if (list.seems_new(r, fresh[r - first])) {
                        score_all(family_, plan_, rows, begin + r, complete.get());
                        group = nullptr, score = complete.get(), most = k;
                    }
                    choose_one(group, score, most, r, fresh[r - first], chance[r - first],
                               mass.get(), drawn, rows.weight ? rows.weight[begin + r] : 1.0,
                               totals);
                    if (plan_.draw_sides) drawn.chance[r] = half[r - first];
                }
            }
        }
    }

    // Row r chooses among `most` groups, or among all where `group` is null.
    void choose_one(const int32_t* group, const double* score, int64_t most, int64_t r,
                    double fresh, double chance, double* mass, Drawn& drawn, double weight,
                    AssignmentStats& totals) const {
        int64_t best = 0;
        for (int64_t c = 1; c < most; ++c) best = score[c] > score[best] ? c : best;
        const bool is_new = fresh > score[best];
        const double top = is_new ? fresh : score[best];
        double total = 0.0;
        for (int64_t c = 0; c < most; ++c) mass[c] = total += std::exp(score[c] - top);
        total += std::exp(fresh - top);
        *totals.density += weight * (top + std::log(total));
        const auto place = [&](int64_t c) { return group ? group[c] : int32_t(c); };
        const int32_t probable = is_new ? int32_t(plan_.n_clusters) : place(best);
        if (plan_.report_map) drawn.best[r] = probable;
        drawn.label[r] = probable;
        if (!plan_.draw_labels) return;
        int64_t c = 0;
        while (c < most && mass[c] < chance * total) ++c;
        if (c == most && !plan_.may_be_new) --c;
        drawn.label[r] = c < most ? place(c) : int32_t(plan_.n_clusters);
    }

    static int64_t in_tile(int64_t count, int64_t t) {
        const int64_t left = count - t * TILE<T>;
        return left < TILE<T> ? left : TILE<T>;
    }

    // Scores of a tile become cumulative masses in place; labels are drawn from them.
    void choose_tile(T* scores, int64_t stride, int64_t groups, const T* best_score, bool look,
                     const Rows& rows, int64_t begin, int64_t first, int64_t count, Drawn& drawn,
                     double* density) const {
        constexpr int RV = ROW_VECTORS, L = LANES<T>;
        Vec<T> top[RV], total[RV] = {};
        for (int v = 0; v < RV; ++v) top[v] = load(best_score + v * L);
        if (!plan_.draw_labels || plan_.report_map)
            most_probable(scores, stride, groups, top, count,
                          (plan_.draw_labels ? drawn.best : drawn.label).get() + first);
        if (!density) return;
        if (look)
            add_masses<true>(scores, stride, groups, top, total);
        else
            add_masses<false>(scores, stride, groups, top, total);
        T weight[TILE<T>];
        for (int64_t r = 0; r < TILE<T>; ++r)
            weight[r] = r >= count ? T(0) : rows.weight ? T(rows.weight[begin + first + r]) : T(1);
        Vec<T> log_density = {};
        for (int v = 0; v < RV; ++v)
            log_density += load(weight + v * L) * (top[v] + log_of(total[v]));
        *density += double(sum<T>(log_density));
        if (!plan_.draw_sides) return;
        T chance[TILE<T>];
        draw_chances(begin + first, count, chance, drawn.chance.get() + first);
        if (!plan_.draw_labels) return;
        Int<T> label[RV] = {};
        for (int v = 0; v < RV; ++v) total[v] *= load(chance + v * L);
        for (int64_t g = 0; g + 1 < groups; ++g)
            for (int v = 0; v < RV; ++v)
                label[v] -= (Int<T>)(load(scores + g * stride + v * L) < total[v]);
        write_labels(label, count, drawn.label.get() + first);
    }

    static INLINE_MEMBER void write_labels(const Int<T> (&from)[ROW_VECTORS], int64_t count,
                                           int32_t* label) {
        typename Types<T>::Scalar each[TILE<T>];
        memcpy(each, from, sizeof(each));
        for (int64_t r = 0; r < count; ++r) label[r] = int32_t(each[r]);
    }

    template <bool LOOK>
    static INLINE_MEMBER void add_masses(T* scores, int64_t stride, int64_t groups,
                                         const Vec<T> (&top)[ROW_VECTORS],
                                         Vec<T> (&total)[ROW_VECTORS]) {
        for (int64_t g = 0; g < groups; ++g)
#pragma GCC unroll 4
            for (int v = 0; v < ROW_VECTORS; ++v) {
                T* place = scores + g * stride + v * LANES<T>;
                const Vec<T> below = load(place) - top[v];
                if (!LOOK || any<T>(below > T(-NEGLIGIBLE))) total[v] += exp_of(below);
                store(place, total[v]);
            }
    }

    static void most_probable(const T* scores, int64_t stride, int64_t groups,
                              const Vec<T> (&top)[ROW_VECTORS], int64_t count, int32_t* out) {
        constexpr int L = LANES<T>;
        Int<T> which[ROW_VECTORS] = {};
        for (int64_t g = groups - 1; g >= 0; --g)
            for (int v = 0; v < ROW_VECTORS; ++v) {
                const Int<T> here = (Int<T>)(load(scores + g * stride + v * L) == top[v]);
                which[v] = here ? Int<T>{} + typename Types<T>::Scalar(g) : which[v];
            }
        write_labels(which, count, out);
    }

    // Two uniforms per row: one for the cluster, one for the half.
    void draw_chances(int64_t row, int64_t count, T* first, double* second) const {
        for (int64_t r = 0; r < TILE<T>; r += LD) {
            vd u, w;
            chances_from(plan_, row + r, u, w);
            for (int l = 0; l < LD; ++l) first[r + l] = T(u[l]);
            if (r + LD <= count)
                store(second + r, w);
            else
                for (int l = 0; r + l < count; ++l) second[r + l] = w[l];
        }
    }

    // A vector of rows of one cluster; lanes beyond the last row repeat it and weigh nothing.
    struct Block {
        int64_t row[LD];  // in the batch
        int count;
        vd weight;
    };
    Block block(const Rows& rows, int64_t begin, const Sorted& sorted, int64_t from,
                int64_t end) const {
        Block out;
        out.count = int(end - from < LD ? end - from : LD);
        for (int l = 0; l < LD; ++l) {
            out.row[l] = begin + sorted.row[from + (l < out.count ? l : out.count - 1)];
            out.weight[l] = l >= out.count ? 0.0 : rows.weight ? rows.weight[out.row[l]] : 1.0;
        }
        return out;
    }

    void learn(const Rows& rows, int64_t begin, const Sorted& sorted, const double* chance,
               int8_t* side, AssignmentStats& totals) const {
        Buffer<double> x(family_.vector_size(), RAW);
        auto sums = family_.sums();
        for (int64_t k = 0; k < plan_.n_clusters; ++k) {
            double* stats = totals.stats + 2 * k * family_.n_stats();
            const int64_t end = sorted.start[k + 1];
            if (sorted.start[k] == end) continue;
            vd evidence = {};
            for (int64_t i = sorted.start[k]; i < end; i += LD) {
                const Block b = block(rows, begin, sorted, i, end);
                family_.pack_vector(rows, b.row, x.get());
                const vd one = halves_.score(2 * k, x.get()), two = halves_.score(2 * k + 1, x.get());
                const vd gain = two - one;
                const Int<double> right = right_half(plan_, gain, chance, b.row, begin);
                sums.add(x.get(), right ? vd{} : b.weight, right ? b.weight : vd{}, stats);
                if (plan_.collect_evidence)
                    evidence += clipped(log_add(one, two) - exact_.score(k, x.get())) * b.weight;
                const Int<double> told = plan_.report_map ? (Int<double>)(gain > 0.0) : right;
                for (int l = 0; l < b.count; ++l) side[b.row[l] - begin] = told[l] ? 1 : 0;
            }
            sums.flush(stats);
            totals.split[k] += sum<double>(evidence);
        }
    }

    // Take the labels from rows that are less dense in their cluster than rows typically are.
    void leave_bad_fits(const Rows& rows, int64_t begin, int64_t n, Drawn& drawn) const {
        Buffer<int32_t> other(plan_.report_map ? n : 0, RAW);  // most probable, if not the drawn one
        for (int64_t r = 0; plan_.report_map && r < n; ++r)
            other[r] = drawn.best[r] == drawn.label[r] ? -1 : drawn.best[r];
        each_bad_fit(rows, begin, n, drawn.label.get(), [&](int64_t r) {
            if (plan_.report_map && drawn.best[r] == drawn.label[r]) drawn.best[r] = -1;
            drawn.label[r] = -1;
        });
        if (plan_.report_map)
            each_bad_fit(rows, begin, n, other.get(), [&](int64_t r) { drawn.best[r] = -1; });
    }

    template <class Function>
    void each_bad_fit(const Rows& rows, int64_t begin, int64_t n, const int32_t* label,
                      Function function) const {
        const Sorted sorted(label, n, plan_.n_clusters + 1);
        Buffer<double> x(family_.vector_size(), RAW);
        for (int64_t k = 0; k < plan_.n_clusters; ++k)
            for (int64_t i = sorted.start[k]; i < sorted.start[k + 1]; i += LD) {
                const Block b = block(rows, begin, sorted, i, sorted.start[k + 1]);
                family_.pack_vector(rows, b.row, x.get());
                const vd gain = exact_.score(k, x.get()) - typical_.score(0, x.get());
                for (int l = 0; l < b.count; ++l)
                    if (gain[l] < 0.0) function(b.row[l] - begin);
            }
    }

    // Evidence of the rows of each pair for its union.
    void weigh_unions(const Rows& rows, int64_t begin, const Sorted& sorted, AssignmentStats& totals) const {
        Buffer<double> x(family_.vector_size(), RAW);
        for (int64_t m = 0; m < plan_.n_pairs; ++m) {
            const int64_t pair[2] = {plan_.pairs[2 * m], plan_.pairs[2 * m + 1]};
            const vd one = all(plan_.log_weight[pair[0]]), two = all(plan_.log_weight[pair[1]]);
            const vd both = log_add(one, two);
            vd total = {};
            for (int64_t k : pair)
                for (int64_t i = sorted.start[k]; i < sorted.start[k + 1]; i += LD) {
                    const Block b = block(rows, begin, sorted, i, sorted.start[k + 1]);
                    family_.pack_vector(rows, b.row, x.get());
                    const vd apart = log_add(exact_.score(pair[0], x.get()) + one,
                                             exact_.score(pair[1], x.get()) + two);
                    const vd gain = unions_.score(m, x.get()) - (apart - both);
                    total += clipped(gain) * b.weight;
                }
            totals.merge[m] += sum<double>(total);
        }
    }

    // Sides of the rows whose most probable cluster is not the one they drew.
    void report_map(const Rows& rows, int64_t begin, int64_t n, Drawn& drawn, int8_t* side) const {
        keep_unsettled(drawn.label.get(), drawn.best.get(), n, plan_.n_clusters);
        Sorted sorted(drawn.label.get(), n, plan_.n_clusters);
        Buffer<double> x(family_.vector_size(), RAW);
        for (int64_t k = 0; k < plan_.n_clusters; ++k)
            for (int64_t i = sorted.start[k]; i < sorted.start[k + 1]; i += LD) {
                const Block b = block(rows, begin, sorted, i, sorted.start[k + 1]);
                family_.pack_vector(rows, b.row, x.get());
                const vd gain = halves_.score(2 * k + 1, x.get()) - halves_.score(2 * k, x.get());
                for (int l = 0; l < b.count; ++l) side[b.row[l] - begin] = gain[l] > 0.0;
            }
    }

    const Family family_;
    const AssignmentParams plan_;
    const Tables<T> whole_, prior_;
    const Tables<double> halves_, exact_, new_, unions_, typical_;
    const Screen screen_;
};

// A pass of a family, in the precision of the plan.
template <template <class> class Family, class Prior>
static scstream::Pass* row_pass(const Prior& prior, const AssignmentParams& plan) {
    if (plan.single) return new RowPass<Family<float>>(Family<float>(prior), plan);
    return new RowPass<Family<double>>(Family<double>(prior), plan);
}

// Log densities of rows [begin, end) under groups, one line per row.
template <class Family>
static void row_scores(const Family& family, const double* table, int64_t groups, bool predictive,
                       const Rows& rows, int64_t begin, int64_t end, double* out) {
    const auto tables = family.template tables<double>(table, groups, predictive);
    constexpr int R = TILE<double>;
    Buffer<double> x(family.tile_size(), RAW), scores(groups * R, RAW), top(R);
    for (int64_t first = begin; first < end; first += R) {
        const int64_t count = end - first < R ? end - first : R;
        family.pack_tile(rows, first, count, x.get());
        tables.scores(x.get(), 1, scores.get(), R, top.get(), INFINITY);
        for (int64_t r = 0; r < count; ++r)
            for (int64_t g = 0; g < groups; ++g) out[(first + r) * groups + g] = scores[g * R + r];
    }
}

}  // namespace SCSTREAM_ISA
