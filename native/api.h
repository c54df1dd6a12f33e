// What the module asks of the kernels, the same for every instruction set. Plain memory only.
#pragma once

#include <cstdint>

namespace scstream {

// Rows of a batch: dense (n, d), or CSR where `indptr` is given.
struct Rows {
    const double* x = nullptr;
    const int64_t* indptr = nullptr;
    const int32_t* indices = nullptr;
    const double* weight = nullptr;  // may be null: every row weighs one
    int64_t n = 0;
    int64_t d = 0;
};

// What rows are compared with and how they choose; the fields of `scstream.core.assign.AssignmentParams`.
struct AssignmentParams {
    int64_t n_clusters = 0;
    int64_t n_pairs = 0;
    const double* clusters = nullptr;
    const double* subclusters = nullptr;
    const double* log_weight = nullptr;
    const double* log_subweight = nullptr;
    const double* prior = nullptr;
    const int64_t* pairs = nullptr;
    const double* unions = nullptr;
    const double* typical = nullptr;  // may be null: no row is taken from its cluster
    const double* screen = nullptr;  // cheap tables, where there are candidates
    int64_t n_candidates = 0;        // groups whose exact scores are computed; 0: all
    double log_new = 0.0;
    uint64_t key = 0;
    int64_t first_row = 0;  // of the rows that are passed, in the batch
    bool predictive = false;
    bool may_be_new = false;
    bool draw_labels = false;
    bool draw_sides = false;
    bool report_map = false;
    bool collect_evidence = false;
    bool single = false;  // compare in float32
};

// Sums over rows, in one block of memory so that adding two totals is adding two arrays.
struct AssignmentStats {
    double* stats;
    double* split;
    double* merge;
    double* novel;
    double* density;

    static int64_t size(const AssignmentParams& plan, int64_t n_stats) {
        return plan.n_clusters * (2 * n_stats + 1) + plan.n_pairs + 2;
    }
    AssignmentStats(double* block, const AssignmentParams& plan, int64_t n_stats)
        : stats(block),
          split(stats + 2 * plan.n_clusters * n_stats),
          merge(split + plan.n_clusters),
          novel(merge + plan.n_pairs),
          density(novel + 1) {}
};

// Choices of rows, by their place in the batch.
struct Choices {
    int64_t* label;
    int8_t* side;
};

// Tables made ready for one pass; slices of rows may be passed in any order, on any thread.
class Pass {
  public:
    virtual ~Pass();
    virtual void slice(const Rows& rows, int64_t begin, int64_t end, Choices choices,
                       double* totals) const = 0;
    // Only let rows choose.
    virtual void labels(const Rows& rows, int64_t begin, int64_t end, int64_t* label) const = 0;
};

struct GaussianPrior {
    int64_t d = 0;
    double kappa = 0.0;
    double nu = 0.0;
    double log_det = 0.0;            // of nu Psi
    const double* mean = nullptr;    // (d,) about the origin
    const double* scale = nullptr;   // packed lower nu Psi + kappa m m^T
    const double* origin = nullptr;  // (d,)
    int64_t n_stats() const { return 1 + d + d * (d + 1) / 2; }
};

// Row widths of parameters and of predictive tables of the Gaussian family.
inline int64_t gaussian_params(int64_t d) { return d * (d + 1) / 2 + d + 1; }

// Row width of the cheap tables of `screen.h`.
inline int64_t screen_width(int64_t d) { return 2 * d + 3; }

struct DirichletPrior {
    int64_t d = 0;
    const double* concentration = nullptr;  // (d,)
    const double* log_gamma = nullptr;      // (d,) log Gamma of the concentrations
    int64_t n_stats() const { return 1 + d; }
};

// Tables of groups are rows of d numbers.
struct MultinomialKernels {
    Pass* (*pass)(int64_t d, const AssignmentParams&);
    // Of groups, or of the unions of groups `one` and `two`.
    void (*log_marginal)(const DirichletPrior&, const double* const* one, const double* const* two,
                         int64_t groups, double* out);
    // log f(one) + log f(two) - log f(one + two)
    void (*log_apart)(const DirichletPrior&, const double* const* one, const double* const* two,
                      int64_t groups, double* out);
    void (*coordinates)(const DirichletPrior&, const double* stats, double* out);
    void (*leave_one_out)(const DirichletPrior&, const Rows&, const int64_t* group,
                          const double* stats, int64_t groups, double* out);
    void (*draw)(const double* log_gammas, int64_t d, int64_t begin, int64_t end, double* out);
    void (*scores)(const double* table, int64_t groups, bool predictive, const Rows&, int64_t begin,
                   int64_t end, double* out);
    void (*stats)(const Rows&, const int64_t* group, double* out);
    bool (*in_range)(const Rows&);  // whether all features of CSR rows are there
};

struct DiagonalPrior {
    int64_t d = 0;
    double nu = 0.0;
    const double* mean = nullptr;    // (d,) about the origin
    const double* kappa = nullptr;   // (d,)
    const double* scale = nullptr;   // (d,) nu psi
    const double* origin = nullptr;  // (d,)
    int64_t n_stats() const { return 1 + 3 * d; }
};

struct DiagonalKernels {
    Pass* (*pass)(const DiagonalPrior&, const AssignmentParams&);
    void (*log_marginal)(const DiagonalPrior&, const double* stats, int64_t begin, int64_t end,
                         double* out);
    void (*predictive)(const DiagonalPrior&, const double* stats, int64_t begin, int64_t end,
                       double* out);
    void (*draw)(const DiagonalPrior&, const double* stats, const double* normals,
                 const double* log_gammas, int64_t begin, int64_t end, double* out);
    void (*scores)(const DiagonalPrior&, const double* table, int64_t groups, bool predictive,
                   const Rows&, int64_t begin, int64_t end, double* out);
    void (*stats)(const DiagonalPrior&, const Rows&, const int64_t* group, double* out);
};

constexpr int64_t MOST_CONCENTRATIONS = 16;

struct DirectionPrior {
    int64_t d = 0;
    int64_t c = 0;                   // number of concentrations
    double order = 0.0;              // of the Bessel function: D / 2 - 1
    double strength = 0.0;
    const double* centre = nullptr;  // (d,)
    const double* scales = nullptr;  // (c,) power times concentration
    int64_t table_width(bool predictive) const { return predictive ? d + 2 * c : 1 + d; }
};

struct DirectionKernels {
    Pass* (*pass)(const DirectionPrior&, const AssignmentParams&);
    void (*scores)(const DirectionPrior&, const double* table, int64_t groups, bool predictive,
                   const Rows&, int64_t begin, int64_t end, double* out);
    void (*stats)(const DirectionPrior&, const Rows&, const int64_t* group, double* out);
};

struct SubspacePrior {
    int64_t d = 0;
    int64_t q = 0;                          // dimensions inside
    double log_scale = 0.0;                 // sum of the logarithms of the scales
    const double* origin = nullptr;         // (d,)
    const double* inverse_scale = nullptr;  // (d,)
    const double* basis = nullptr;          // (q, d)
    int64_t n_stats() const { return 2 + d + q * (q + 1) / 2; }
    int64_t packed() const { return d + q + 1; }  // numbers of a packed row
    int64_t table_width(bool predictive) const {
        return gaussian_params(q) + (predictive ? 1 : 0) + d + 2;
    }
};

struct SubspaceKernels {
    Pass* (*pass)(const SubspacePrior&, const AssignmentParams&);
    void (*scores)(const SubspacePrior&, const double* table, int64_t groups, bool predictive,
                   const Rows&, int64_t begin, int64_t end, double* out);
    void (*stats)(const SubspacePrior&, const Rows&, const int64_t* group, int64_t groups,
                  double* out);
};

// Functions on groups return whether all went well; some work on a range [begin, end) of them.
struct Kernels {
    const char* name;
    int lanes;  // groups that share a vector; ranges of groups should begin at multiples

    Pass* (*gaussian_pass)(const GaussianPrior&, const AssignmentParams&);
    bool (*gaussian_log_marginal)(const GaussianPrior&, const double* const* one,
                                  const double* const* two, int64_t groups, double* out);
    void (*gaussian_means)(const GaussianPrior&, const double* stats, double* out);
    void (*gaussian_stds)(const GaussianPrior&, const double* stats, double* out);
    void (*gaussian_translate)(const GaussianPrior&, const double* stats, const double* shift,
                               double* out);
    bool (*gaussian_predictive)(const GaussianPrior&, const double* stats, int64_t begin,
                                int64_t end, double* out);
    bool (*gaussian_draw)(const GaussianPrior&, const double* stats, uint64_t key,
                          const int64_t* ids, int64_t begin, int64_t end, double* out);
    void (*gaussian_scores)(const GaussianPrior&, const double* table, int64_t groups,
                            bool predictive, const Rows&, int64_t begin, int64_t end, double* out);
    void (*gaussian_stats)(const GaussianPrior&, const Rows&, const int64_t* group, int64_t groups,
                           double* out);
    // Groups that rows may belong to; see `near_groups`.
    void (*gaussian_near)(const GaussianPrior&, const AssignmentParams&, const Rows&, int64_t every,
                          int64_t phase, double* near, double* audit);
    // Candidates of rows [begin, end) and their scores.
    void (*gaussian_shortlist)(const GaussianPrior&, const AssignmentParams&, const Rows&,
                               int64_t begin, int64_t end, int64_t* group, double* score);
    // The `most` nearest of points [begin, end), nearest first: out[(i - begin) * most + rank].
    void (*nearest)(const double* points, int64_t n, int64_t d, int64_t most, int64_t begin,
                    int64_t end, int64_t* out);
    // `lanes` may be null: then all take `lane`.
    void (*uniforms)(uint64_t key, const int64_t* index, const int64_t* lanes, int64_t lane,
                     int64_t n, double* out);
    void (*normals)(uint64_t key, const int64_t* ids, int64_t groups, int64_t first_lane, int64_t n,
                    double* out);
    void (*log_gammas)(uint64_t key, const int64_t* ids, int64_t groups, int64_t first_lane,
                       const double* shape, int64_t n, double* out);
    MultinomialKernels multinomial;
    DiagonalKernels diagonal;
    DirectionKernels direction;
    SubspaceKernels subspace;
};

const Kernels* kernels_portable();
const Kernels* kernels_avx2();
const Kernels* kernels_avx512();

}  // namespace scstream
