// Vectors of one instruction set, and the elementary functions on them.
//
// Everything here lives in the namespace of its instruction set, and nothing from the standard
// library that could be emitted out of line is used: the linker would keep one copy for all.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace SCSTREAM_ISA {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
constexpr int ROW_VECTORS = 4;  // vectors of rows in a tile: 32 registers
#elif defined(__AVX2__)
constexpr int BYTES = 32;
constexpr int ROW_VECTORS = 2;  // 16 registers
#else
constexpr int BYTES = 16;
constexpr int ROW_VECTORS = 2;
#endif

template <class T> struct Types;
template <> struct Types<double> {
    typedef double Vec __attribute__((vector_size(BYTES), may_alias));
    typedef double Loose __attribute__((vector_size(BYTES), aligned(8), may_alias));
    typedef int64_t Int __attribute__((vector_size(BYTES), may_alias));
    typedef uint64_t Word __attribute__((vector_size(BYTES), may_alias));
    typedef int64_t Scalar;
};
template <> struct Types<float> {
    typedef float Vec __attribute__((vector_size(BYTES), may_alias));
    typedef float Loose __attribute__((vector_size(BYTES), aligned(4), may_alias));
    typedef int32_t Int __attribute__((vector_size(BYTES), may_alias));
    typedef uint32_t Word __attribute__((vector_size(BYTES), may_alias));
    typedef int32_t Scalar;
};
template <class T> using Vec = typename Types<T>::Vec;
template <class T> using Int = typename Types<T>::Int;
template <class T> using Word = typename Types<T>::Word;  // bits: sums wrap around
template <class T> constexpr int LANES = BYTES / int(sizeof(T));
template <class T> constexpr int TILE = ROW_VECTORS * LANES<T>;  // rows in a tile
constexpr int LD = LANES<double>;

typedef Vec<double> vd;
typedef Types<double>::Word vu;

#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))

template <class T> INLINE Vec<T> load(const T* p) {
    return *reinterpret_cast<const typename Types<T>::Loose*>(p);
}
template <class T> INLINE void store(T* p, Vec<T> v) {
    *reinterpret_cast<typename Types<T>::Loose*>(p) = v;
}
template <class T> INLINE Vec<T> all(T x) { return x - Vec<T>{}; }

template <class T> INLINE Vec<T> larger(Vec<T> a, Vec<T> b) { return a > b ? a : b; }

// Whether a comparison holds in any lane.
template <class T> INLINE bool any(Int<T> mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    int64_t words[BYTES / 8], found = 0;
    memcpy(words, &mask, BYTES);
    for (int i = 0; i < BYTES / 8; ++i) found |= words[i];
    return found != 0;
#endif
}

INLINE vd root(vd v) {
#if defined(__AVX512F__)
    return (vd)_mm512_sqrt_pd((__m512d)v);
#elif defined(__AVX2__)
    return (vd)_mm256_sqrt_pd((__m256d)v);
#else
    for (int l = 0; l < LANES<double>; ++l) v[l] = std::sqrt(v[l]);
    return v;
#endif
}

template <class T> INLINE T sum(Vec<T> v) {
    T out = 0;
    for (int l = 0; l < LANES<T>; ++l) out += v[l];
    return out;
}

// exp(x) for x <= 709; below -708 the result is zero. x = n log 2 + r, |r| <= log(2) / 2, and
// exp(r) by a minimax polynomial in Estrin's order, whose products do not wait for each other.
INLINE vd exp_of(vd x) {
    const vd magic = all(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to integer numbers
    const vd shifted = x * 1.4426950408889634 + magic;
    const vd n = shifted - magic;
    const vd r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    const vd r2 = r * r, r4 = r2 * r2;
    const vd low = (1.0 + r * 1.0000000000000067491) +
                   r2 * (0.50000000000000056225 + r * 0.16666666666554314583);
    const vd middle = (0.041666666666573067732 + r * 0.0083333333856992117269) +
                      r2 * (0.0013888888932514779355 + r * 0.00019841170230570286664);
    const vd high = (0.000024801504313785540166 + r * 2.7640197391694840467e-6) +
                    r2 * 2.7626371065696356076e-7;
    const vd p = low + r4 * (middle + r4 * high);
    const vu bits = ((vu)shifted << 52) + (vu)p;
    return x < -708.0 ? vd{} : (vd)bits;
}
INLINE Vec<float> exp_of(Vec<float> x) {
    typedef Vec<float> vf;
    const vf magic = all(12582912.0f);  // 1.5 * 2^23
    const vf shifted = x * 1.44269504f + magic;
    const vf n = shifted - magic;
    const vf r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    const vf r2 = r * r;
    const vf low = (1.0f + r * 1.0000000377388712611f) +
                   r2 * (0.50000000471460574196f + r * 0.1666641541404117843f);
    const vf high = (0.041666352771112211265f + r * 0.0083751347746243251734f) +
                    r2 * 0.0013941118895837000817f;
    const vf p = low + r2 * r2 * high;
    const Word<float> bits = ((Word<float>)shifted << 23) + (Word<float>)p;
    return x < -87.0f ? vf{} : (vf)bits;
}

// a / b; from an approximate reciprocal and Newton's steps where that is faster than to divide.
INLINE vd ratio(vd a, vd b) {
#if defined(__AVX512F__)
    vd r = (vd)_mm512_rcp14_pd((__m512d)b);
    r += r * (1.0 - b * r);
    const vd q = a * r;
    return q + r * (a - b * q);
#else
    return a / b;
#endif
}

// log(u) for finite u > 0, normal: u = m 2^e with m in [sqrt(1/2), sqrt(2)), and
// log(m) = 2 atanh(t), t = (m - 1) / (m + 1), by a minimax polynomial in t^2.
INLINE vd log_of(vd u) {
    const vu bits = (vu)u;
    const Int<double> e = (Int<double>)(bits - 0x3FE6A09E667F3BCDull) >> 52;
    const vd m = (vd)(bits - ((vu)e << 52));
    // e + 1.5 * 2^52, written into the mantissa, becomes a float without a conversion instruction.
    const vd n = (vd)(e + 0x4338000000000000ll) - 6755399441055744.0;
    const vd t = ratio(m - 1.0, m + 1.0);
    const vd z = t * t, z2 = z * z;
    const vd low = (0.66666666666666696883 + z * 0.39999999999899443233) +
                   z2 * (0.28571428626003268742 + z * 0.22222211130259877026);
    const vd high = (0.18182889455674946199 + z * 0.15331710618210767217) +
                    z2 * 0.14616585424888667489;
    const vd p = (low + z2 * z2 * high) * (z * t) + 2.0 * t;
    return n * 6.93147180369123816490e-01 + (p + n * 1.90821492927058770002e-10);
}
INLINE Vec<float> log_of(Vec<float> u) {
    typedef Vec<float> vf;
    const Word<float> bits = (Word<float>)u;
    const Int<float> e = (Int<float>)(bits - 0x3F3504F3u) >> 23;
    const vf m = (vf)(bits - ((Word<float>)e << 23));
    const vf n = (vf)(e + 0x4B400000) - 12582912.0f;
    const vf t = (m - 1.0f) / (m + 1.0f);
    const vf z = t * t;
    const vf p = (0.66666685045156029076f + z * (0.39988778282162806449f + z * 0.29580053f)) *
                     (z * t) + 2.0f * t;
    return n * 0.693145752f + (p + n * 1.42860677e-6f);
}

// log(1 + s) for s >= 0, with what 1 + s rounds off put back where it matters.
template <class T> INLINE Vec<T> log1p_of(Vec<T> s) {
    Vec<T> u = s + T(1);
    Vec<T> lost = s - (u - T(1));
    return log_of(u) + (u < T(1.5) ? lost : Vec<T>{});
}

// A lower bound of log(1 + s): the bits of a number, read as a integer number, are its logarithm
// with the mantissa taken for a straight line.
INLINE vd at_most_log1p_bits(vd u) {
    vu high = (vu)u >> 32;
    return ((vd)(high | 0x4330000000000000ull) - 4503599627370496.0) * (0x1p-20 * 0.6931471805599453) -
           (1023.0 * 0.6931471805599453 + 1e-9);
}
INLINE Vec<float> at_most_log1p_bits(Vec<float> u) {
    Vec<float> bits = __builtin_convertvector((Int<float>)u, Vec<float>);
    return bits * (0x1p-23f * 0.69314715f) - 127.0f * 0.69314715f - 1e-4f;
}
template <class T> INLINE Vec<T> at_most_log1p(Vec<T> s) { return at_most_log1p_bits(s + T(1)); }

// log(exp(a) + exp(b))
INLINE vd log_add(vd a, vd b) {
    vd top = larger<double>(a, b);
    vd apart = (a > b ? b - a : a - b);
    return top + log1p_of<double>(exp_of(apart));
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

// Store the first `count` numbers.
INLINE void store_some(double* p, int64_t count, vd v) {
    if (count >= LANES<double>) return store(p, v);
    for (int l = 0; l < count; ++l) p[l] = v[l];
}

// Store the lanes where a comparison holds, one after the other, and return how many these are.
// There must be room for all lanes.
INLINE int64_t store_where(Int<double> mask, vd v, double* p) {
#if defined(__AVX512F__)
    const __mmask8 kept = _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask);
    _mm512_storeu_pd(p, _mm512_maskz_compress_pd(kept, (__m512d)v));
    return __builtin_popcount(kept);
#else
    int64_t size = 0;
    for (int l = 0; l < LD; ++l) {
        p[size] = v[l];
        size += mask[l] ? 1 : 0;
    }
    return size;
#endif
}

// Philox 4x32-10 on the counter (index, lane): two 64-bit words.
INLINE vu times32(vu a, uint32_t m) {
#if defined(__AVX512F__)
    return (vu)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(m));
#elif defined(__AVX2__)
    return (vu)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(m));
#elif defined(__SSE2__)
    return (vu)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(m));
#else
    return (a & 0xFFFFFFFFull) * (uint64_t)m;
#endif
}
INLINE void philox(uint64_t key, vu index, vu lane, vu& first, vu& second) {
    // Only the lower half of a word counts until the end.
    vu c0 = index, c1 = index >> 32, c2 = lane, c3 = lane >> 32;
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
        vu p0 = times32(c0, 0xD2511F53u), p1 = times32(c2, 0xCD9E8D57u);
        c0 = (p1 >> 32) ^ c1 ^ (uint64_t)k0;
        c1 = p1;
        c2 = (p0 >> 32) ^ c3 ^ (uint64_t)k1;
        c3 = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    first = (c1 << 32) | (c0 & 0xFFFFFFFFull);
    second = (c3 << 32) | (c2 & 0xFFFFFFFFull);
}
INLINE vd unit(vu word) {
    // 53 bits and a half, exactly: high and low parts are put into mantissas of known exponents.
    vu bits = word >> 11;
    vd high = (vd)((bits >> 32) | 0x4530000000000000ull) - 19342813113834066795298816.0;  // 2^84
    vd low = (vd)((bits & 0xFFFFFFFFull) | 0x4330000000000000ull) - 4503599627370496.0;   // 2^52
    return ((high + low) + 0.5) * 0x1p-53;
}

// Memory aligned to vectors; zero, unless it was asked for raw.
enum Fill { ZERO, RAW };
template <class T> class Buffer {
  public:
    explicit Buffer(size_t n, Fill fill = ZERO)
        : data_(static_cast<T*>(aligned(n * sizeof(T), fill))) {}
    ~Buffer() { free(raw_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* get() const { return data_; }
    T& operator[](size_t i) const { return data_[i]; }

  private:
    void* aligned(size_t bytes, Fill fill) {
        raw_ = fill == ZERO ? calloc(bytes + 64, 1) : malloc(bytes + 64);
        if (!raw_) throw std::bad_alloc();
        return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(raw_) + 63) & ~uintptr_t(63));
    }
    void* raw_;
    T* data_;
};

}  // namespace SCSTREAM_ISA
