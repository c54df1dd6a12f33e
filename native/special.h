// Special functions and the variates made from them; addresses as in src/scstream/core/rng.py.
#pragma once

#include "simd.h"

namespace SCSTREAM_ISA {

INLINE double log_gamma_function(double x) {
#if defined(_WIN32)
    return std::lgamma(x);
#else
    int sign;
    return ::lgamma_r(x, &sign);
#endif
}

// Inverse of the standard normal distribution function: Wichura's algorithm AS 241 (PPND16).
static double normal_quantile(double p) {
    const double q = p - 0.5;
    if (std::fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return q *
               (((((((2509.0809287301226727 * r + 33430.575583588128105) * r +
                     67265.770927008700853) * r + 45921.953931549871457) * r +
                   13731.693765509461125) * r + 1971.5909503065514427) * r +
                 133.14166789178437745) * r + 3.387132872796366608) /
               (((((((5226.495278852545925 * r + 28729.085735721942674) * r +
                     39307.89580009271061) * r + 21213.794301586595867) * r +
                   5394.1960214247511077) * r + 687.1870074920579083) * r +
                 42.313330701600911252) * r + 1.0);
    }
    double r = std::sqrt(-std::log(q < 0 ? p : 1.0 - p)), value;
    if (r <= 5.0) {
        r -= 1.6;
        value = (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r +
                      0.24178072517745061177) * r + 1.27045825245236838258) * r +
                    3.64784832476320460504) * r + 5.7694972214606914055) * r +
                  4.6303378461565452959) * r + 1.42343711074968357734) /
                (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r +
                      0.0151986665636164571966) * r + 0.14810397642748007459) * r +
                    0.68976733498510000455) * r + 1.6763848301838038494) * r +
                  2.05319162663775882187) * r + 1.0);
    } else {
        r -= 5.0;
        value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r +
                      0.0012426609473880784386) * r + 0.026532189526576123093) * r +
                    0.29656057182850489123) * r + 1.7848265399172913358) * r +
                  5.4637849111641143699) * r + 6.6579046435011037772) /
                (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r +
                      1.8463183175100546818e-5) * r + 7.868691311456132591e-4) * r +
                    0.0148753612908506148525) * r + 0.13692988092273580531) * r +
                  0.59983220655588793769) * r + 1.0);
    }
    return q < 0 ? -value : value;
}

struct Pair {
    double first, second;
};

INLINE Pair uniforms_at(uint64_t key, int64_t index, int64_t lane) {
    const uint64_t low = 0xFFFFFFFFull;
    uint64_t c0 = uint64_t(index) & low, c1 = uint64_t(index) >> 32;
    uint64_t c2 = uint64_t(lane) & low, c3 = uint64_t(lane) >> 32;
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c1 = p1 & low;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c3 = p0 & low;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const uint64_t first = (c1 << 32) | c0, second = (c3 << 32) | c2;
    return {(double(first >> 11) + 0.5) * 0x1p-53, (double(second >> 11) + 0.5) * 0x1p-53};
}

static void uniforms(uint64_t key, const int64_t* index, const int64_t* lanes, int64_t lane,
                     int64_t n, double* out) {
    for (int64_t i = 0; i < n; ++i) {
        const Pair pair = uniforms_at(key, index[i], lanes ? lanes[i] : lane);
        out[2 * i] = pair.first;
        out[2 * i + 1] = pair.second;
    }
}

static void normals(uint64_t key, const int64_t* ids, int64_t groups, int64_t first_lane, int64_t n,
                    double* out) {
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t i = 0; i < n; i += 2) {
            const Pair pair = uniforms_at(key, ids[g], first_lane + i / 2);
            out[g * n + i] = normal_quantile(pair.first);
            if (i + 1 < n) out[g * n + i + 1] = normal_quantile(pair.second);
        }
}

// log of a Gamma(shape, 1) variate: Marsaglia and Tsang; a rejected attempt takes lanes of its own.
static double log_gamma_variate(uint64_t key, int64_t id, int64_t lane, double shape) {
    if (!(shape > 0.0)) return NAN;
    const double d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
    for (int64_t attempt = 1;; ++attempt) {
        const Pair pair = uniforms_at(key, id, lane + (attempt << 32));
        const double x = normal_quantile(pair.first);
        double v = 1.0 + c * x;
        v = v > 1e-100 ? v : 1e-100;  // never accepted at the bound
        v = v * v * v;
        if (std::log(pair.second) < 0.5 * x * x + d * (1.0 - v + std::log(v))) {
            const double value = std::log(d * v);
            if (!(shape < 1.0)) return value;
            return value + std::log(uniforms_at(key, id, lane).first) / shape;
        }
    }
}

static void log_gammas(uint64_t key, const int64_t* ids, int64_t groups, int64_t first_lane,
                       const double* shape, int64_t n, double* out) {
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t i = 0; i < n; ++i)
            out[g * n + i] = log_gamma_variate(key, ids[g], first_lane + i, shape[g * n + i]);
}

}  // namespace SCSTREAM_ISA
