// The rising factorial: log Gamma(b + x) - log Gamma(b), without the cancellation of two lgammas.
#pragma once

#include "simd.h"

namespace SCSTREAM_ISA {

constexpr int FEW = 16; // integer steps that are multiplied out, so that one logarithm does

// What Stirling's formula leaves, for z >= 8.
INLINE vd stirling_rest(vd z) {
    const vd r = 1.0 / z, r2 = r * r;
    return r * (8.3333333333333333e-2 +
                r2 * (-2.7777777777777778e-3 +
                      r2 * (7.9365079365079365e-4 +
                            r2 * (-5.9523809523809524e-4 +
                                  r2 * (8.4175084175084175e-4 +
                                        r2 * (-1.9175269175269175e-3 +
                                              r2 * 6.4102564102564103e-3))))));
}

// For b > 0 and x >= 0. Below 8 the formula is taken eight steps higher.
INLINE vd log_rising_by_stirling(vd b, vd x) {
    const Int<double> low = b < 8.0;
    vd above = all(1.0), below = all(1.0);
    if (any<double>(low)) {
        for (int i = 0; i < 8; ++i) {
            below *= b + double(i);
            above *= b + x + double(i);
        }
        below = low ? below : all(1.0);
        above = low ? above : all(1.0);
    }
    b = low ? b + 8.0 : b;
    const vd z = b + x;
    return (z - 0.5) * log1p_of<double>(x / b) + x * (log_of(b) - 1.0) +
           (stirling_rest(z) - stirling_rest(b)) + (log_of(below) - log_of(above));
}

// Whether all are integer numbers up to FEW.
INLINE bool all_few(vd x) {
    const double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to integer numbers
    return !any<double>((Int<double>)((x + magic) - magic != x) | (Int<double>)(x > double(FEW)));
}

INLINE vd log_rising(vd b, vd x) {
    if (!all_few(x)) return log_rising_by_stirling(b, x);
    vd product = all(1.0);
    for (int i = 0; any<double>(x > double(i)); ++i)
        product *= x > double(i) ? b + double(i) : all(1.0);
    return log_of(product);
}

// Numbers from p; beyond `count` those of `fill`.
INLINE vd load_some(const double* p, int64_t count, double fill) {
    if (count >= LANES<double>) return load(p);
#if defined(__AVX512F__)
    return (vd)_mm512_mask_loadu_pd((__m512d)all(fill), __mmask8((1u << count) - 1), p);
#else
    vd out = all(fill);
    for (int l = 0; l < count; ++l) out[l] = p[l];
    return out;
#endif
}
// The same of table[place[0]], table[place[1]], ...
INLINE vd gather_some(const double* table, const int32_t* place, int64_t count, double fill) {
#if defined(__AVX512F__)
    const __mmask8 mask = __mmask8(count >= 8 ? 0xFF : (1u << count) - 1);
    const __m256i at = _mm256_maskz_loadu_epi32(mask, place);
    return (vd)_mm512_mask_i32gather_pd((__m512d)all(fill), mask, at, table, 8);
#else
    vd out = all(fill);
    if (count >= LANES<double>)
        for (int l = 0; l < LANES<double>; ++l) out[l] = table[place[l]];
    else
        for (int l = 0; l < count; ++l) out[l] = table[place[l]];
    return out;
#endif
}
INLINE void store_some(double* p, int64_t count, vd v) {
    if (count >= LANES<double>) return store(p, v);
    for (int l = 0; l < count; ++l) p[l] = v[l];
}

}  // namespace SCSTREAM_ISA
