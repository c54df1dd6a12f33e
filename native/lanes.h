// Triangular linear algebra on many small matrices at once: one group per vector lane.
//
// A matrix is packed by rows of its lower triangle; entry (i, j) of all groups of a vector is one
// vector. Blocks of 4 x 4 entries are kept in registers.
#pragma once

#include "simd.h"

namespace SCSTREAM_ISA {

INLINE int64_t at(int64_t i, int64_t j) { return i * (i + 1) / 2 + j; }

// acc[a][b] += sum over k in [begin, end) of X(i + a, k) Y(j + b, k)
template <int NI, int NJ>
INLINE void add_dots(vd (&acc)[NI][NJ], const vd* X, int64_t i, const vd* Y, int64_t j,
                     int64_t begin, int64_t end) {
    const vd *x[NI], *y[NJ];
    for (int a = 0; a < NI; ++a) x[a] = X + at(i + a, 0);
    for (int b = 0; b < NJ; ++b) y[b] = Y + at(j + b, 0);
    for (int64_t k = begin; k < end; ++k)
        for (int a = 0; a < NI; ++a)
            for (int b = 0; b < NJ; ++b) acc[a][b] += x[a][k] * y[b][k];
}

// acc[a][b] += sum over k in [j, end) of X(i + a, k) Y(k, j + b), Y lower triangular
template <int NI, int NJ>
INLINE void add_products(vd (&acc)[NI][NJ], const vd* X, int64_t i, const vd* Y, int64_t j,
                         int64_t end) {
    const vd* x[NI];
    for (int a = 0; a < NI; ++a) x[a] = X + at(i + a, 0);
    for (int c = 0; c < NJ && j + c < end; ++c)
        for (int b = 0; b <= c; ++b)
            for (int a = 0; a < NI; ++a) acc[a][b] += x[a][j + c] * Y[at(j + c, j + b)];
    for (int64_t k = j + NJ; k < end; ++k) {
        const vd* y = Y + at(k, j);
        for (int a = 0; a < NI; ++a)
            for (int b = 0; b < NJ; ++b) acc[a][b] += x[a][k] * y[b];
    }
}

// Entries of the Cholesky factor in one block; `inverse` holds the inverses of its diagonal.
template <int NI, int NJ>
INLINE void factor_block(vd* A, int64_t i, int64_t j, vd* inverse) {
    vd acc[NI][NJ] = {};
    add_dots<NI, NJ>(acc, A, i, A, j, 0, j);
    const bool diagonal = i == j;
    for (int b = 0; b < NJ; ++b)
        for (int a = diagonal ? b : 0; a < NI; ++a) {
            vd value = A[at(i + a, j + b)] - acc[a][b];
            for (int c = 0; c < b; ++c) value -= A[at(i + a, j + c)] * A[at(j + b, j + c)];
            if (diagonal && a == b) {
                value = root(value);
                inverse[j + b] = 1.0 / value;
            } else {
                value *= inverse[j + b];
            }
            A[at(i + a, j + b)] = value;
        }
}

template <int NI> INLINE void factor_rows(vd* A, int64_t i, vd* inverse) {
    int64_t j = 0;
    for (; j + 4 <= i; j += 4) factor_block<NI, 4>(A, i, j, inverse);
    for (; j < i; ++j) factor_block<NI, 1>(A, i, j, inverse);
    factor_block<NI, NI>(A, i, i, inverse);
}

// A = L L^T in place. A pivot that is not positive turns into a NaN.
static void cholesky(vd* A, int64_t d, vd* inverse) {
    int64_t i = 0;
    for (; i + 4 <= d; i += 4) factor_rows<4>(A, i, inverse);
    for (; i < d; ++i) factor_rows<1>(A, i, inverse);
}

template <int NI, int NJ>
INLINE void invert_block(const vd* L, vd* W, int64_t i, int64_t j, const vd* inverse) {
    vd acc[NI][NJ] = {};
    add_products<NI, NJ>(acc, L, i, W, j, i);
    for (int a = 0; a < NI; ++a)
        for (int b = 0; b < NJ; ++b) {
            vd value = acc[a][b];
            for (int c = 0; c < a; ++c) value += L[at(i + a, i + c)] * W[at(i + c, j + b)];
            W[at(i + a, j + b)] = -value * inverse[i + a];
        }
}

template <int NI> INLINE void invert_rows(const vd* L, vd* W, int64_t i, const vd* inverse) {
    int64_t j = 0;
    for (; j + 4 <= i; j += 4) invert_block<NI, 4>(L, W, i, j, inverse);
    for (; j < i; ++j) invert_block<NI, 1>(L, W, i, j, inverse);
    for (int a = 0; a < NI; ++a) {
        for (int b = 0; b < a; ++b) {
            vd value = {};
            for (int c = b; c < a; ++c) value += L[at(i + a, i + c)] * W[at(i + c, i + b)];
            W[at(i + a, i + b)] = -value * inverse[i + a];
        }
        W[at(i + a, i + a)] = inverse[i + a];
    }
}

// W = L^-1
static void invert(const vd* L, vd* W, int64_t d, const vd* inverse) {
    int64_t i = 0;
    for (; i + 4 <= d; i += 4) invert_rows<4>(L, W, i, inverse);
    for (; i < d; ++i) invert_rows<1>(L, W, i, inverse);
}

template <int NI, int NJ> INLINE void multiply_block(const vd* B, vd* W, int64_t i, int64_t j) {
    vd acc[NI][NJ] = {};
    add_products<NI, NJ>(acc, B, i, W, j, i);
    for (int a = NI - 1; a >= 0; --a)
        for (int b = 0; b < NJ; ++b) {
            vd value = acc[a][b];
            for (int c = 0; c <= a; ++c) value += B[at(i + a, i + c)] * W[at(i + c, j + b)];
            W[at(i + a, j + b)] = value;
        }
}

template <int NI> INLINE void multiply_rows(const vd* B, vd* W, int64_t i) {
    int64_t j = 0;
    for (; j + 4 <= i; j += 4) multiply_block<NI, 4>(B, W, i, j);
    for (; j < i; ++j) multiply_block<NI, 1>(B, W, i, j);
    for (int a = NI - 1; a >= 0; --a)
        for (int b = 0; b <= a; ++b) {
            vd value = {};
            for (int c = b; c <= a; ++c) value += B[at(i + a, i + c)] * W[at(i + c, i + b)];
            W[at(i + a, i + b)] = value;
        }
}

// W = B W in place, both lower triangular; rows from the last, since row i needs those above it.
static void multiply(const vd* B, vd* W, int64_t d) {
    int64_t i = d;
    for (; i % 4; --i) multiply_rows<1>(B, W, i - 1);
    for (; i > 0; i -= 4) multiply_rows<4>(B, W, i - 4);
}

}  // namespace SCSTREAM_ISA
