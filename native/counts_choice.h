// The choice of a row between groups that stand along the lanes of a line (see `Places`).
#pragma once

#include "counts.h"

namespace SCSTREAM_ISA {

INLINE double largest(vd v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_pd((__m512d)v);
#else
    double out = v[0];
    for (int l = 1; l < LD_; ++l) out = v[l] > out ? v[l] : out;
    return out;
#endif
}

INLINE bool any_above(vd v, vd least) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask((__m512d)v, (__m512d)least, _CMP_GT_OQ) != 0;
#else
    return any<double>(v > least);
#endif
}

// How many of all but the last lane are below a number.
INLINE int n_below(vd v, double number) {
#if defined(__AVX512F__)
    return __builtin_popcount(
        _mm512_cmp_pd_mask((__m512d)v, (__m512d)all(number), _CMP_LT_OQ) & 0x7F);
#else
    int out = 0;
    for (int l = 0; l + 1 < LD_; ++l) out += v[l] < number;
    return out;
#endif
}

class Chooser {
  public:
    explicit Chooser(const Places& places)
        : places_(places), near_(places.vectors + 1, RAW), mass_(places.width, RAW) {}

    double best_score(const double* line) const {
        vd top = load(line);
        for (int64_t p = LD_; p < places_.width; p += LD_) top = larger<double>(top, load(line + p));
        return largest(top);
    }

    // The first of the groups with the best score.
    int32_t most_probable(const double* line, double top) const {
        Int<double> which = Int<double>{} + places_.vectors;
        for (int64_t v = places_.vectors - 1; v >= 0; --v)
            which = load(line + v * LD_) == top ? Int<double>{} + v : which;
        for (int l = 0; l < LD_; ++l)
            if (which[l] < places_.vectors) return int32_t(l * places_.vectors + which[l]);
        return 0;
    }

    // Sum exp(score - top); vectors whose share is negligible are left out.
    double add_masses(const double* line, double top) {
        const vd least = all(top - NEGLIGIBLE);
        n_near_ = 0;
        for (int64_t v = 0; v < places_.vectors; ++v) {
            near_[n_near_] = int32_t(v);
            n_near_ += any_above(load(line + v * LD_), least);
        }
        vd total = {};
        for (int64_t i = 0; i < n_near_; ++i) {
            total += exp_of(load(line + near_[i] * LD_) - top);
            store(mass_.get() + i * LD_, total);
        }
        before_[0] = 0.0;
        for (int l = 0; l < LD_; ++l) before_[l + 1] = before_[l] + total[l];
        return before_[LD_];
    }

    // The group at which the cumulative mass reaches a share of the whole.
    int32_t draw(double chance) const {
        const double wanted = chance * before_[LD_];
        const int lane = n_below(load(before_ + 1), wanted);
        const vd inside = all(wanted - before_[lane]);
        Int<double> passed = {};
        for (int64_t s = 0; s + 1 < n_near_; ++s)
            passed -= (Int<double>)(load(mass_.get() + s * LD_) < inside);
        const int64_t group = lane * places_.vectors + near_[passed[lane]];
        return int32_t(group < places_.groups ? group : places_.groups - 1);
    }

  private:
    const Places places_;
    int64_t n_near_ = 0;
    Buffer<int32_t> near_;  // vectors of the line with a share
    Buffer<double> mass_;   // cumulative, by lane
    double before_[LD_ + 1] = {};
};

}  // namespace SCSTREAM_ISA
