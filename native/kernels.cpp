// The kernels of one instruction set: compiled once for each, with SCSTREAM_ISA as its name.
#include "diagonal_rows.h"
#include "direction.h"
#include "gaussian_rows.h"
#include "multinomial.h"
#include "near.h"
#include "pass.h"
#include "special.h"
#include "subspace.h"

namespace SCSTREAM_ISA {

static scstream::Pass* gaussian_pass(const GaussianPrior& prior, const AssignmentParams& plan) {
    return row_pass<GaussianFamily>(prior, plan);
}

static void gaussian_scores(const GaussianPrior& prior, const double* table, int64_t groups,
                            bool predictive, const Rows& rows, int64_t begin, int64_t end,
                            double* out) {
    row_scores(GaussianFamily<double>(prior), table, groups, predictive, rows, begin, end, out);
}

static void gaussian_near(const GaussianPrior& prior, const AssignmentParams& plan,
                          const Rows& rows, int64_t every, int64_t phase, double* near,
                          double* audit) {
    near_groups(GaussianFamily<double>(prior), plan, rows, every, phase, near, audit);
}

static void gaussian_shortlist(const GaussianPrior& prior, const AssignmentParams& plan,
                               const Rows& rows, int64_t begin, int64_t end, int64_t* group,
                               double* score) {
    shortlist(GaussianFamily<double>(prior), plan, rows, begin, end, group, score);
}

// Sums of the statistics of rows by group, for a family as the pass sees it.
template <class Family>
static void row_stats(const Family& family, const Rows& rows, const int64_t* group, int64_t groups,
                      double* out) {
    const int64_t n_stats = family.n_stats();
    Buffer<int32_t> label(rows.n);
    for (int64_t r = 0; r < rows.n; ++r) label[r] = int32_t(group[r]);
    Sorted sorted(label.get(), rows.n, groups);
    Buffer<double> x(family.vector_size()), subclusters(2 * n_stats);
    auto sums = family.sums();
    for (int64_t g = 0; g < groups; ++g) {
        for (int64_t i = sorted.start[g]; i < sorted.start[g + 1]; i += LD) {
            int64_t row[LD];
            vd weight;
            for (int l = 0; l < LD; ++l) {
                const bool real = i + l < sorted.start[g + 1];
                row[l] = sorted.row[real ? i + l : i];
                weight[l] = !real ? 0.0 : rows.weight ? rows.weight[row[l]] : 1.0;
            }
            family.pack_vector(rows, row, x.get());
            sums.add(x.get(), weight, vd{}, subclusters.get());
        }
        if (sorted.start[g] == sorted.start[g + 1]) continue;
        sums.flush(subclusters.get());
        for (int64_t p = 0; p < n_stats; ++p) {
            out[g * n_stats + p] = subclusters[p];
            subclusters[p] = subclusters[n_stats + p] = 0.0;
        }
    }
}

static void gaussian_stats(const GaussianPrior& prior, const Rows& rows, const int64_t* group,
                           int64_t groups, double* out) {
    row_stats(GaussianFamily<double>(prior), rows, group, groups, out);
}

static void subspace_stats(const SubspacePrior& prior, const Rows& rows, const int64_t* group,
                           int64_t groups, double* out) {
    row_stats(SubspaceFamily{prior}, rows, group, groups, out);
}

// Square distances of N points from `first` on to all others, whose features stand one behind the
// other; a tile of others at a time.
template <int N>
static void distances_to_all(const double* points, int64_t d, int64_t first,
                             const double* by_feature, int64_t padded, double* out) {
    for (int64_t q = 0; q < padded; q += TILE<double>) {
        vd total[N][ROW_VECTORS] = {};
        for (int64_t i = 0; i < d; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < ROW_VECTORS; ++v) {
                const vd other = load(by_feature + i * padded + q + v * LD);
#pragma GCC unroll 4
                for (int a = 0; a < N; ++a) {
                    const vd apart = other - points[(first + a) * d + i];
                    total[a][v] += apart * apart;
                }
            }
        for (int a = 0; a < N; ++a)
            for (int v = 0; v < ROW_VECTORS; ++v)
                store(out + a * padded + q + v * LD, total[a][v]);
    }
}

// Write the nearest `most` of n points to point p, by their distances, the nearest first.
INLINE void keep_nearest(const double* distance, int64_t n, int64_t p, int64_t most, double* best,
                         int64_t* kept) {
    int64_t held = 0;
    for (int64_t q = 0; q < n; ++q) {
        if (held == most && !(distance[q] < best[most - 1])) continue;
        if (q == p) continue;
        int64_t place = held < most ? held++ : most - 1;
        for (; place > 0 && distance[q] < best[place - 1]; --place) {
            best[place] = best[place - 1];
            kept[place] = kept[place - 1];
        }
        best[place] = distance[q];
        kept[place] = q;
    }
}

static void nearest(const double* points, int64_t n, int64_t d, int64_t most, int64_t begin,
                    int64_t end, int64_t* out) {
    constexpr int64_t T = TILE<double>, N = 4;
    const int64_t padded = (n + T - 1) / T * T;
    Buffer<double> by_feature(padded * d), distance(N * padded, RAW), best(most, RAW);
    for (int64_t p = 0; p < n; ++p)
        for (int64_t i = 0; i < d; ++i) by_feature[i * padded + p] = points[p * d + i];
    for (int64_t p = begin; p < end;) {
        const int64_t count = p + N <= end ? N : 1;
        if (count == N)
            distances_to_all<N>(points, d, p, by_feature.get(), padded, distance.get());
        else
            distances_to_all<1>(points, d, p, by_feature.get(), padded, distance.get());
        for (int64_t a = 0; a < count; ++a, ++p)
            keep_nearest(distance.get() + a * padded, n, p, most, best.get(),
                         out + (p - begin) * most);
    }
}

}  // namespace SCSTREAM_ISA

#define JOIN(a, b) a##b
#define NAMED(isa) JOIN(kernels_, isa)
#define TEXT(x) #x
#define NAME(x) TEXT(x)

const scstream::Kernels* scstream::NAMED(SCSTREAM_ISA)() {
    namespace isa = SCSTREAM_ISA;
    static const Kernels kernels = {
        NAME(SCSTREAM_ISA),         isa::LANES<double>,       isa::gaussian_pass,
        isa::gaussian_log_marginal, isa::gaussian_means,   isa::gaussian_stds,
        isa::gaussian_translate,    isa::gaussian_predictive, isa::gaussian_draw,
        isa::gaussian_scores,       isa::gaussian_stats,      isa::gaussian_near,
        isa::gaussian_shortlist,    isa::nearest,
        isa::uniforms,              isa::normals,             isa::log_gammas,
        {isa::multinomial_pass, isa::multinomial_log_marginal, isa::multinomial_log_apart,
         isa::multinomial_coordinates, isa::multinomial_leave_one_out, isa::multinomial_draw,
         isa::multinomial_scores, isa::multinomial_stats, isa::multinomial_in_range},
        {isa::diagonal_pass, isa::diagonal_log_marginal, isa::diagonal_predictive,
         isa::diagonal_draw, isa::diagonal_scores, isa::diagonal_stats},
        {isa::direction_pass, isa::direction_scores, isa::direction_stats},
        {isa::subspace_pass, isa::subspace_scores, isa::subspace_stats},
    };
    return &kernels;
}
