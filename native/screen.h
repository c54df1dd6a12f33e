// Screening: a cheap score of every row under every group picks the few groups of which the exact
// scores are computed. Specification: `screened` in core/assign.py, Family.log_screen.
#pragma once

#include "api.h"
#include "simd.h"

namespace SCSTREAM_ISA {

using scstream::AssignmentParams;
using scstream::Rows;

// Cheap tables of groups, in float32: w, w m, sum of w m^2, constant, power; the cheap square
// distance is the sum of w (x - m)^2 over the features.
class Screen {
  public:
    Screen(const double* table, int64_t groups, int64_t d, const double* log_weight)
        : groups_(groups),
          d_(d),
          packed_((groups + GROUPS - 1) / GROUPS * d * 2 * GROUPS),
          offset_(groups, RAW),
          constant_(groups, RAW),
          power_(groups, RAW) {
        const int64_t width = scstream::screen_width(d);
        for (int64_t g = 0; g < groups; ++g) {
            const double* row = table + g * width;
            float* to = packed_.get() + g / GROUPS * d * 2 * GROUPS + g % GROUPS;
            for (int64_t i = 0; i < d; ++i) {
                to[i * 2 * GROUPS] = float(row[i]);
                to[i * 2 * GROUPS + GROUPS] = float(-2.0 * row[d + i]);
            }
            offset_[g] = float(row[2 * d]);
            constant_[g] = float(row[2 * d + 1] + log_weight[g]);
            power_[g] = float(row[2 * d + 2]);
        }
    }

    // The `most` best groups of rows [first, first + count), in increasing order of their index.
    void pick(const Rows& rows, const double* origin, int64_t first, int64_t count, int64_t most,
              int32_t* out) const {
        Buffer<float> x(2 * d_ * TILE<float>, RAW), best(TILE<float> * most, RAW);
        for (int64_t r = 0; r < count; r += TILE<float>) {
            const int64_t n = count - r < TILE<float> ? count - r : TILE<float>;
            pack(rows, origin, first + r, n, x.get());
            pick_tile(x.get(), n, most, best.get(), out + r * most);
        }
    }

  private:
    static constexpr int GROUPS = 4, RV = ROW_VECTORS, L = LANES<float>;

    // Features of a tile of rows and their squares; beyond `count` the last row is repeated.
    void pack(const Rows& rows, const double* origin, int64_t first, int64_t count,
              float* x) const {
        for (int64_t r = 0; r < TILE<float>; ++r) {
            const double* row = rows.x + (first + (r < count ? r : count - 1)) * d_;
            for (int64_t i = 0; i < d_; ++i) {
                const float value = float(row[i] - origin[i]);
                x[2 * i * TILE<float> + r] = value;
                x[(2 * i + 1) * TILE<float> + r] = value * value;
            }
        }
    }

    void pick_tile(const float* x, int64_t count, int64_t most, float* best, int32_t* out) const {
        float least[TILE<float>];
        int32_t held[TILE<float>] = {};
        for (int64_t r = 0; r < TILE<float>; ++r) least[r] = -INFINITY;
        for (int64_t g = 0; g < groups_; g += GROUPS) {
            Vec<float> s[GROUPS][RV];
            squares(x, g, s);
            for (int a = 0; a < GROUPS && g + a < groups_; ++a)
                for (int v = 0; v < RV; ++v) {
                    const Vec<float> bar = load(least + v * L);
                    const Vec<float> near = larger<float>(s[a][v], Vec<float>{});
                    if (!any<float>(constant_[g + a] - power_[g + a] * at_most_log1p<float>(near) >
                                    bar))
                        continue;
                    float score[L];
                    store(score, constant_[g + a] - power_[g + a] * log1p_of<float>(near));
                    for (int l = 0; l < L; ++l) {
                        const int64_t r = v * L + l;
                        if (r < count && score[l] > least[r])
                            insert(score[l], int32_t(g + a), most, best + r * most,
                                   out + r * most, held[r], least[r]);
                    }
                }
        }
        for (int64_t r = 0; r < count; ++r) sort(out + r * most, most);
    }

    INLINE_MEMBER void squares(const float* x, int64_t g, Vec<float> (&s)[GROUPS][RV]) const {
        for (int a = 0; a < GROUPS; ++a)
            for (int v = 0; v < RV; ++v) s[a][v] = all(g + a < groups_ ? offset_[g + a] : 0.0f);
        const float* w = packed_.get() + g / GROUPS * d_ * 2 * GROUPS;
        for (int64_t i = 0; i < d_; ++i, w += 2 * GROUPS) {
            Vec<float> one[RV], two[RV];
#pragma GCC unroll 4
            for (int v = 0; v < RV; ++v) {
                one[v] = load(x + 2 * i * TILE<float> + v * L);
                two[v] = load(x + (2 * i + 1) * TILE<float> + v * L);
            }
#pragma GCC unroll 4
            for (int a = 0; a < GROUPS; ++a)
#pragma GCC unroll 4
                for (int v = 0; v < RV; ++v) {
                    s[a][v] += w[a] * two[v];
                    s[a][v] += w[GROUPS + a] * one[v];
                }
        }
    }

    // Keep the best scores in falling order; of equal ones the first.
    static void insert(float score, int32_t group, int64_t most, float* best, int32_t* out,
                       int32_t& held, float& least) {
        int64_t place = held < most ? held++ : most - 1;
        for (; place > 0 && score > best[place - 1]; --place) {
            best[place] = best[place - 1];
            out[place] = out[place - 1];
        }
        best[place] = score;
        out[place] = group;
        if (held == most) least = best[most - 1];
    }

    static void sort(int32_t* group, int64_t n) {
        for (int64_t i = 1; i < n; ++i) {
            const int32_t value = group[i];
            int64_t j = i;
            for (; j > 0 && group[j - 1] > value; --j) group[j] = group[j - 1];
            group[j] = value;
        }
    }

    const int64_t groups_, d_;
    Buffer<float> packed_, offset_, constant_, power_;
};

// The candidates of some rows, with their exact scores.
template <class Family> class Shortlist {
  public:
    template <class Tables>
    Shortlist(const Family& family, const AssignmentParams& plan, const Screen& screen,
              const Tables& exact, const Rows& rows, int64_t begin, int64_t n)
        : most(plan.n_candidates < plan.n_clusters ? plan.n_candidates : plan.n_clusters),
          group(n * most, RAW),
          score(n * most, RAW) {
        screen.pick(rows, family.prior.origin, begin, n, most, group.get());
        Buffer<int64_t> start(plan.n_clusters + 1);
        for (int64_t p = 0; p < n * most; ++p) ++start[group[p] + 1];
        for (int64_t g = 0; g < plan.n_clusters; ++g) start[g + 1] += start[g];
        Buffer<int64_t> place(n * most, RAW), next(plan.n_clusters, RAW);
        for (int64_t g = 0; g < plan.n_clusters; ++g) next[g] = start[g];
        for (int64_t p = 0; p < n * most; ++p) place[next[group[p]]++] = p;
        Buffer<double> x(2 * LD * rows.d, RAW);
        const double* origin = family.prior.origin;
        for (int64_t g = 0; g < plan.n_clusters; ++g)
            for (int64_t i = start[g]; i < start[g + 1]; i += 2 * LD) {
                const int64_t left = start[g + 1] - i;
                const int width = left > LD ? 2 * LD : LD;
                for (int l = 0; l < width; ++l) {
                    const int64_t row = begin + place[l < left ? i + l : i] / most;
                    const double* from = rows.x + row * rows.d;
                    for (int64_t f = 0; f < rows.d; ++f) x[f * width + l] = from[f] - origin[f];
                }
                vd value[2];
                if (width > LD)
                    exact.score_two(g, x.get(), value);
                else
                    value[0] = exact.score(g, x.get());
                for (int l = 0; l < width && l < left; ++l)
                    score[place[i + l]] = value[l / LD][l % LD] + plan.log_weight[g];
            }
    }

    const int64_t most;
    Buffer<int32_t> group;  // (n, most) increasing in every row
    Buffer<double> score;   // (n, most)
};

}  // namespace SCSTREAM_ISA
