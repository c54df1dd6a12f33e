// Products of rows with vectors of many features, and how rows are packed for them.
//
// Rows stand in tiles, feature by feature, so that a vector holds one feature of several rows.
#pragma once

#include "api.h"
#include "simd.h"

namespace SCSTREAM_ISA {

using scstream::Rows;

constexpr int AT_ONCE = 6;  // vectors whose products stay in registers together

// s[a][v] = w[a] . x for N vectors w and RV vectors of rows.
template <int N, int RV>
INLINE void products(const double* const (&w)[N], int64_t d, const double* x, int64_t stride,
                     vd (&s)[N][RV]) {
#pragma GCC unroll 8
    for (int a = 0; a < N; ++a)
        for (int v = 0; v < RV; ++v) s[a][v] = vd{};
    for (int64_t j = 0; j < d; ++j) {
        vd xs[RV];
#pragma GCC unroll 8
        for (int v = 0; v < RV; ++v) xs[v] = load(x + j * stride + v * LD);
#pragma GCC unroll 8
        for (int a = 0; a < N; ++a)
            for (int v = 0; v < RV; ++v) s[a][v] += w[a][j] * xs[v];
    }
}

// Call function(g, s) with s[v] = vector(g) . x for every group; a few groups at a time.
template <int RV, class Vector, class Function>
INLINE void all_products(int64_t groups, Vector vector, int64_t d, const double* x, int64_t stride,
                         Function function) {
    int64_t g = 0;
    for (; g + AT_ONCE <= groups; g += AT_ONCE) {
        const double* w[AT_ONCE];
        vd s[AT_ONCE][RV];
        for (int a = 0; a < AT_ONCE; ++a) w[a] = vector(g + a);
        products<AT_ONCE, RV>(w, d, x, stride, s);
        for (int a = 0; a < AT_ONCE; ++a) function(g + a, s[a]);
    }
    for (; g < groups; ++g) {
        const double* w[1] = {vector(g)};
        vd s[1][RV];
        products<1, RV>(w, d, x, stride, s);
        function(g, s[0]);
    }
}

// w . x for one vector of rows. Four sums do not wait for each other.
INLINE vd product(const double* w, int64_t d, const double* x) {
    vd s[4] = {};
    int64_t j = 0;
    for (; j + 4 <= d; j += 4)
        for (int i = 0; i < 4; ++i) s[i] += w[j + i] * load(x + (j + i) * LD);
    for (; j < d; ++j) s[0] += w[j] * load(x + j * LD);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

// Sum over the rows of a vector of weight times feature.
INLINE double weighted(vd weight, const double* x) {
    double out = 0.0;
    for (int l = 0; l < LD; ++l) out += weight[l] * x[l];
    return out;
}

INLINE bool all_zero(vd weight) { return !any<double>((Int<double>)(weight != 0.0)); }

// Write the features of rows one behind the other: out[j * stride + r] = value(r, j).
template <class Value>
INLINE void transpose(int64_t n, int64_t d, int64_t stride, double* out, Value value) {
    constexpr int64_t BLOCK = 16;  // features whose lines stay in the first cache
    for (int64_t first = 0; first < d; first += BLOCK) {
        const int64_t end = first + BLOCK < d ? first + BLOCK : d;
        for (int64_t r = 0; r < n; ++r)
            for (int64_t j = first; j < end; ++j) out[j * stride + r] = value(r, j);
    }
}

}  // namespace SCSTREAM_ISA
