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

// log Gamma(z) for z > 0, in the same way.
INLINE vd log_gamma_of(vd z) {
    const Int<double> low = z < 8.0;
    vd below = all(1.0);
    for (int i = 0; i < 8; ++i) below *= z + double(i);
    below = low ? below : all(1.0);
    z = low ? z + 8.0 : z;
    const double half_log_2_pi = 0.91893853320467274178;
    return ((z - 0.5) * log_of(z) - z) + (half_log_2_pi + stirling_rest(z)) - log_of(below);
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

}  // namespace SCSTREAM_ISA
