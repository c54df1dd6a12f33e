// Products of rows with vectors of many features, and how rows are packed for them.
//
// Many rows stand in tiles, feature by feature, so that a vector holds one feature of several rows.
// A few rows that are compared with one group stand one behind the other.
#pragma once

#include "api.h"
#include "rising.h"
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

// a . b of two vectors of features.
INLINE double dot(const double* a, const double* b, int64_t d) {
    vd s[2] = {};
    int64_t j = 0;
    for (; j + 2 * LD <= d; j += 2 * LD)
        for (int i = 0; i < 2; ++i) s[i] += load(a + j + i * LD) * load(b + j + i * LD);
    for (; j < d; j += LD) s[0] += load_some(a + j, d - j, 0.0) * load_some(b + j, d - j, 0.0);
    return sum<double>(s[0] + s[1]);
}

// The products of a vector with a few rows that stand one behind the other.
INLINE vd row_products(const double* w, int64_t d, const double* rows) {
    vd out;
    for (int l = 0; l < LD; ++l) out[l] = dot(w, rows + l * d, d);
    return out;
}

// sums += weight * row, for every row of a few.
INLINE void add_rows(vd weight, const double* rows, int64_t d, double* sums) {
    for (int l = 0; l < LD; ++l)
        if (weight[l] != 0.0)
            for (int64_t j = 0; j < d; ++j) sums[j] += weight[l] * rows[l * d + j];
}

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
