// Rows of counts, and what groups of the multinomial family say of them.
//
// Groups lie along the lanes: the tables are turned round, so that a feature is one line with an
// entry for every group, and the scores of a row are a sum of lines.
#pragma once

#include "pass.h"
#include "rising.h"

namespace SCSTREAM_ISA {

// Entries of a row; without features, they are those of all features in turn.
struct Entries {
    const double* count;
    const int32_t* feature;
    int64_t size;
};

INLINE double total_of(const Entries& entries) {
    vd total = {};
    for (int64_t i = 0; i < entries.size; i += LD)
        total += load_some(entries.count + i, entries.size - i, 0.0);
    return sum<double>(total);
}

// Reads rows one at a time; a dense row is left as it is, or boiled down to what is not zero.
class RowReader {
  public:
    explicit RowReader(const Rows& rows)
        : rows(rows),
          count_(rows.indptr ? 0 : rows.d + LD, RAW),
          feature_(rows.indptr ? 0 : rows.d + LD, RAW) {}

    Entries read(int64_t row) const {
        if (!rows.indptr) return {rows.x + row * rows.d, nullptr, rows.d};
        const int64_t first = rows.indptr[row];
        return {rows.x + first, rows.indices + first, rows.indptr[row + 1] - first};
    }

    Entries read_sparse(int64_t row) const {
        if (rows.indptr) return read(row);
        const double* x = rows.x + row * rows.d;
        int64_t size = 0, j = 0;
#if defined(__AVX512F__)
        const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        for (; j + LD <= rows.d; j += LD) {
            const __m512d v = (__m512d)load(x + j);
            const __mmask8 mask = _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_NEQ_UQ);
            const __m256i at = _mm256_add_epi32(steps, _mm256_set1_epi32(int(j)));
            _mm512_storeu_pd(count_.get() + size, _mm512_maskz_compress_pd(mask, v));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(feature_.get() + size),
                                _mm256_maskz_compress_epi32(mask, at));
            size += __builtin_popcount(mask);
        }
#endif
        for (; j < rows.d; ++j) {
            count_[size] = x[j];
            feature_[size] = int32_t(j);
            size += x[j] != 0.0;
        }
        return {count_.get(), feature_.get(), size};
    }

    const Rows rows;

  private:
    Buffer<double> count_;
    Buffer<int32_t> feature_;
};

// Where groups stand in a line: lane by lane, so that every lane holds groups in succession and
// their cumulative sums need one step across lanes.
struct Places {
    explicit Places(int64_t groups)
        : groups(groups), vectors((groups + LD - 1) / LD), width(vectors * LD) {}
    int64_t of(int64_t g) const { return g % vectors * LD + g / vectors; }
    const int64_t groups, vectors, width;
};

// Tables of groups turned round: line j has the entries of feature j of all groups, `fill` where
// there is no table. Every sum of lines begins at what is to be added to the scores.
class Lines {
  public:
    template <class TableOf, class AddOf>
    Lines(int64_t groups, int64_t d, double fill, TableOf table_of, AddOf add_of)
        : places(groups), d(d), lines(d * places.width, RAW), start(places.width, RAW) {
        constexpr int64_t BLOCK = 8;  // features at a time: a cache line of every table
        for (int64_t p = 0; p < places.width; ++p) start[p] = -INFINITY;
        for (int64_t g = 0; g < groups; ++g) start[places.of(g)] = add_of(g);
        for (int64_t j = 0; j < d; j += BLOCK) {
            const int64_t end = j + BLOCK < d ? j + BLOCK : d;
            for (int64_t g = 0; g < places.width; ++g) {
                const double* table = g < groups ? table_of(g) : nullptr;
                const int64_t place = places.of(g);
                for (int64_t i = j; i < end; ++i)
                    lines[i * places.width + place] = table ? table[i] : fill;
            }
        }
    }
    const double* line(int64_t j) const { return lines.get() + j * places.width; }

    const Places places;
    const int64_t d;
    Buffer<double> lines, start;
};

constexpr int MOST_VECTORS = BYTES == 64 ? 16 : 12;  // of one line, held in registers

// out = start + sum of factor * line, for N vectors of the lines.
template <int N, class Terms>
INLINE void add_some(const double* start, const Terms& terms, int64_t at, double* out) {
    vd sum[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) sum[i] = load(start + at + i * LD);
    for (int64_t t = 0; t < terms.size; ++t) {
        const double factor = terms.factor(t);
        const double* line = terms.line(t) + at;
        __asm__("" : "+r"(line));  // one address for all, not one for each
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) sum[i] += factor * load(line + i * LD);
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) store(out + at + i * LD, sum[i]);
}

template <class Terms>
static void add_lines(const double* start, const Terms& terms, int64_t vectors, double* out) {
    const int64_t pieces = (vectors + MOST_VECTORS - 1) / MOST_VECTORS;
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t from = piece * vectors / pieces, to = (piece + 1) * vectors / pieces;
        switch (to - from) {
#define CASE(N) \
    case N:     \
        add_some<N>(start, terms, from * LD, out); \
        break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
            CASE(9) CASE(10) CASE(11) CASE(12)
#if defined(__AVX512F__)
            CASE(13) CASE(14) CASE(15) CASE(16)
#endif
#undef CASE
            default: break;
        }
    }
}

// Counts times the lines of their features.
struct CountTerms {
    const Entries& entries;
    const double* lines;
    int64_t width, size;
    double factor(int64_t t) const { return entries.count[t]; }
    const double* line(int64_t t) const { return lines + entries.feature[t] * width; }
};

// Lines that were looked up.
struct PlainTerms {
    const double* const* lines;
    int64_t size;
    double factor(int64_t) const { return 1.0; }
    const double* line(int64_t t) const { return lines[t]; }
};

// N vectors of the scores of a vector's worth of dense rows: a product of matrices in registers.
template <int N>
INLINE void multiply_some(const double* const (&x)[LD], const Lines& lines, int64_t at,
                          double* out) {
    const int64_t width = lines.places.width;
    vd sum[LD][N];
#pragma GCC unroll 8
    for (int r = 0; r < LD; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) sum[r][i] = load(lines.start.get() + at + i * LD);
    const double* line = lines.lines.get() + at;
    for (int64_t j = 0; j < lines.d; ++j, line += width) {
        vd entry[N];
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) entry[i] = load(line + i * LD);
#pragma GCC unroll 8
        for (int r = 0; r < LD; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < N; ++i) sum[r][i] += x[r][j] * entry[i];
    }
#pragma GCC unroll 8
    for (int r = 0; r < LD; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) store(out + r * width + at + i * LD, sum[r][i]);
}

}  // namespace SCSTREAM_ISA
