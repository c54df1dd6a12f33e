// The choice of a row between groups that stand along the lanes of a line (see `Places`).
#pragma once

#include "counts.h"

namespace SCSTREAM_ISA {

INLINE double largest(vd v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_pd((__m512d)v);
#else
    double out = v[0];
    for (int l = 1; l < LD; ++l) out = v[l] > out ? v[l] : out;
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
    for (int l = 0; l + 1 < LD; ++l) out += v[l] < number;
    return out;
#endif
}

// exp(x) for x <= 0; where the instruction set looks up tables, by one of 2^(i / 16) that leaves
// little to the polynomial.
INLINE vd exp_below(vd x) {
#if defined(__AVX512F__)
    // Less i * 2^48, which comes back with the exponent.
    alignas(64) static const int64_t power[16] = {
        0x3ff0000000000000ll, 0x3fefb5586cf9890fll, 0x3fef72b83c7d517bll, 0x3fef387a6e756238ll,
        0x3fef06fe0a31b715ll, 0x3feedea64c123422ll, 0x3feebfdad5362a27ll, 0x3feeab07dd485429ll,
        0x3feea09e667f3bcdll, 0x3feea11473eb0187ll, 0x3feeace5422aa0dbll, 0x3feec49182a3f090ll,
        0x3feee89f995ad3adll, 0x3fef199bdd85529cll, 0x3fef5818dcfba487ll, 0x3fefa4afa2a490dall,
    };
    const vd magic = all(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to integer numbers
    const vd shifted = x * (16.0 * 1.4426950408889634) + magic;
    const vd r = x - (shifted - magic) * (0.0625 * 0.6931471805599453);
    const vd r2 = r * r;
    const vd p = (1.0 + r) + r2 * ((0.5 + r * (1.0 / 6.0)) +
                                   r2 * ((1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0)));
    const vu found = (vu)_mm512_permutex2var_epi64(
        _mm512_load_si512(power), (__m512i)shifted, _mm512_load_si512(power + 8));
    const vd scale = (vd)(found + ((vu)shifted << 48));
    return x < -708.0 ? vd{} : p * scale;
#else
    return exp_of(x);
#endif
}

// Choices of a panel of rows, step by step: steps of different rows do not wait for each other.
class Chooser {
  public:
    Chooser(const Places& places, int64_t rows)
        : places_(places),
          near_(rows * (places.vectors + 1), RAW),
          n_near_(rows, RAW),
          before_(rows * 2 * LD) {
        for (int64_t row = 0; row < rows; ++row) {
            n_near_[row] = int32_t(places.vectors);
            for (int64_t v = 0; v < places.vectors; ++v)
                near_[row * (places.vectors + 1) + v] = int32_t(v);
        }
    }

    double best_score(const double* line) const {
        vd top = load(line);
        for (int64_t p = LD; p < places_.width; p += LD)
            top = larger<double>(top, load(line + p));
        return largest(top);
    }

    // The first of the groups with the best score.
    int32_t most_probable(const double* line, double top) const {
        Int<double> which = Int<double>{} + places_.vectors;
        for (int64_t v = places_.vectors - 1; v >= 0; --v)
            which = load(line + v * LD) == top ? Int<double>{} + v : which;
        for (int l = 0; l < LD; ++l)
            if (which[l] < places_.vectors) return int32_t(l * places_.vectors + which[l]);
        return 0;
    }

    // Find the vectors of scores with a share that is not negligible; of few, all are taken.
    void look(int64_t row, const double* line, double top) {
        if (places_.vectors <= FEW_VECTORS) return;
        const vd least = all(top - NEGLIGIBLE);
        int32_t* near = near_.get() + row * (places_.vectors + 1);
        int32_t found = 0;
        for (int64_t v = 0; v < places_.vectors; ++v) {
            near[found] = int32_t(v);
            found += any_above(load(line + v * LD), least);
        }
        n_near_[row] = found;
    }

    // Put the cumulative sums of exp(score - top), lane by lane, in the place of these scores.
    void add_masses(int64_t row, double* line, double top) {
        const int32_t* near = near_.get() + row * (places_.vectors + 1);
        vd total = {};
        for (int64_t i = 0; i < n_near_[row]; ++i) {
            total += exp_below(load(line + near[i] * LD) - top);
            store(line + i * LD, total);
        }
        store(before_.get() + row * 2 * LD + 1, total);
    }

    // Add up the lanes; return the sum of all.
    double add_lanes(int64_t row) {
        double* before = before_.get() + row * 2 * LD;
        for (int l = 1; l < LD; ++l) before[l + 1] += before[l];
        return before[LD];
    }

    // The group at which the cumulative mass reaches a share of the total.
    int32_t draw(int64_t row, const double* mass, double chance) const {
        const double* before = before_.get() + row * 2 * LD;
        const double wanted = chance * before[LD];
        const int lane = n_below(load(before + 1), wanted);
        const vd inside = all(wanted - before[lane]);
        Int<double> passed = {};
        for (int64_t i = 0; i + 1 < n_near_[row]; ++i)
            passed -= (Int<double>)(load(mass + i * LD) < inside);
        const int64_t near = near_[row * (places_.vectors + 1) + passed[lane]];
        const int64_t group = lane * places_.vectors + near;
        return int32_t(group < places_.groups ? group : places_.groups - 1);
    }

  private:
    static constexpr int64_t FEW_VECTORS = 32;

    const Places places_;
    Buffer<int32_t> near_;    // vectors of the line with a share, and
    Buffer<int32_t> n_near_;  // how many these are
    Buffer<double> before_;   // mass before every lane: from zero to that of all
};

}  // namespace SCSTREAM_ISA
