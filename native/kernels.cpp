// The kernels of one instruction set: compiled once for each, with SCSTREAM_ISA as its name.
#include "diagonal_rows.h"
#include "gaussian_rows.h"
#include "multinomial.h"
#include "near.h"
#include "pass.h"
#include "special.h"

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

static void gaussian_stats(const GaussianPrior& prior, const Rows& rows, const int64_t* group,
                           int64_t groups, double* out) {
    const GaussianFamily<double> family(prior);
    const int64_t n_stats = prior.n_stats();
    Buffer<int32_t> label(rows.n);
    for (int64_t r = 0; r < rows.n; ++r) label[r] = int32_t(group[r]);
    Sorted sorted(label.get(), rows.n, groups);
    Buffer<double> x(family.vector_size()), subclusters(2 * n_stats);
    GaussianSums sums(prior.d);
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

// Square distances of a few points to a vector of others at a time.
static void distances_to_all(const double* const (&point)[4], const double* by_feature,
                             int64_t padded, int64_t d, double* out) {
    for (int64_t q = 0; q < padded; q += LD) {
        vd total[4] = {};
        for (int64_t i = 0; i < d; ++i) {
            const vd other = load(by_feature + i * padded + q);
            for (int p = 0; p < 4; ++p) {
                const vd apart = other - point[p][i];
                total[p] += apart * apart;
            }
        }
        for (int p = 0; p < 4; ++p) store(out + p * padded + q, total[p]);
    }
}

// The nearest few, in order.
static void nearest(const double* points, int64_t n, int64_t d, int64_t most, int64_t begin,
                    int64_t end, int64_t* out) {
    const int64_t padded = (n + LD - 1) / LD * LD;
    Buffer<double> by_feature(padded * d), distances(4 * padded, RAW), best(most, RAW);
    for (int64_t p = 0; p < n; ++p)
        for (int64_t i = 0; i < d; ++i) by_feature[i * padded + p] = points[p * d + i];
    for (int64_t p = begin; p < end; ++p) {
        double* distance = distances.get() + (p - begin) % 4 * padded;
        if (distance == distances.get()) {
            const double* point[4];
            for (int64_t b = 0; b < 4; ++b) point[b] = points + (p + b < end ? p + b : p) * d;
            distances_to_all(point, by_feature.get(), padded, d, distance);
        }
        distance[p] = INFINITY;
        int64_t* kept = out + (p - begin) * most;
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
    };
    return &kernels;
}
