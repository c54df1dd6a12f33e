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

// Two polynomials of degree seven, highest power first, whose ratio is taken.
struct Rational {
    double above[8], below[8];
};

// Where `other` holds, the ratio of the second pair of polynomials.
INLINE vd ratio_of(vd r, const Rational& one, const Rational& two, Int<double> other) {
    vd above = other ? all(two.above[0]) : all(one.above[0]);
    vd below = other ? all(two.below[0]) : all(one.below[0]);
    for (int i = 1; i < 8; ++i) {
        above = above * r + (other ? all(two.above[i]) : all(one.above[i]));
        below = below * r + (other ? all(two.below[i]) : all(one.below[i]));
    }
    return above / below;
}

// Inverse of the standard normal distribution function: Wichura's algorithm AS 241 (PPND16).
INLINE vd normal_quantile(vd p) {
    static const Rational centre = {
        {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
         45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
         133.14166789178437745, 3.387132872796366608},
        {5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
         5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0}};
    static const Rational tail = {
        {7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
         1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
         4.6303378461565452959, 1.42343711074968357734},
        {1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
         0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
         2.05319162663775882187, 1.0}};
    static const Rational far_tail = {
        {2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
         0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
         5.4637849111641143699, 6.6579046435011037772},
        {2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
         7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
         0.59983220655588793769, 1.0}};
    const vd q = p - 0.5;
    const Int<double> outside = (Int<double>)(larger<double>(q, -q) > 0.425);
    const vd r = root(-log_of(q < 0.0 ? p : 1.0 - p));
    const Int<double> far = (Int<double>)(r > 5.0);
    vd value = ratio_of(outside ? r - 1.6 : 0.180625 - q * q, centre, tail, outside);
    if (any<double>(far)) value = far ? ratio_of(r - 5.0, far_tail, far_tail, far) : value;
    return outside ? (q < 0.0 ? -value : value) : q * value;
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

// A vector of numbers from `first` upwards.
INLINE vu steps_from(int64_t first) {
    vu out = {};
    for (int l = 0; l < LD; ++l) out[l] = uint64_t(first + l);
    return out;
}

static void normals(uint64_t key, const int64_t* ids, int64_t groups, int64_t first_lane, int64_t n,
                    double* out) {
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t i = 0; i < n; i += 2 * LD) {
            vu one, two;
            philox(key, vu{} + uint64_t(ids[g]), steps_from(first_lane + i / 2), one, two);
            const vd first = normal_quantile(unit(one)), second = normal_quantile(unit(two));
            for (int64_t j = 0; j < 2 * LD && i + j < n; ++j)
                out[g * n + i + j] = j % 2 ? second[j / 2] : first[j / 2];
        }
}

// One attempt at Gamma(shape, 1) variates, shape >= 1, by Marsaglia and Tsang: d v, if accepted.
struct GammaAttempt {
    INLINE_MEMBER GammaAttempt(vd shape, vd first, vd second)
        : d(shape - 1.0 / 3.0), x(normal_quantile(first)), chance(second) {
        const vd root_v = larger<double>(1.0 + x / root(9.0 * d), all(1e-100));
        v = root_v * root_v * root_v;  // never accepted at the bound
    }
    INLINE_MEMBER Int<double> accepted() const {
        return (Int<double>)(log_of(chance) < 0.5 * x * x + d * (1.0 - v + log_of(v)));
    }
    // Implies the above, and needs no logarithm.
    INLINE_MEMBER Int<double> surely_accepted() const {
        return (Int<double>)(chance < 1.0 - 0.0331 * (x * x) * (x * x));
    }
    const vd d, x, chance;
    vd v;
};

INLINE vd at_least_one(vd shape) { return shape < 1.0 ? shape + 1.0 : shape; }

// Log of the variates of these shapes, from those of `at_least_one` and a uniform.
INLINE vd lowered(vd value, vd shape, vd chance) {
    return shape < 1.0 ? value + log_of(chance) / shape : value;
}

// Logarithms of Gamma(shape, 1) variates; a rejected attempt takes lanes of its own.
INLINE vd log_gamma_variates(uint64_t key, vu id, vu lane, vd shape) {
    Int<double> waiting = (Int<double>)(shape > 0.0);
    vd value = waiting ? vd{} : all(double(NAN));
    vu one, two;
    for (uint64_t attempt = 1; any<double>(waiting); ++attempt) {
        philox(key, id, lane + (attempt << 32), one, two);
        const GammaAttempt made(at_least_one(shape), unit(one), unit(two));
        const Int<double> accepted = waiting & made.accepted();
        value = accepted ? log_of(made.d * made.v) : value;
        waiting &= ~accepted;
    }
    philox(key, id, lane, one, two);
    return lowered(value, shape, unit(one));
}

// The variates of one group, block by block: most first attempts are accepted by a bound without
// logarithms, and the others are made one by one.
class GroupGammas {
  public:
    GroupGammas(uint64_t key, int64_t id, int64_t first_lane)
        : key_(key), id_(vu{} + uint64_t(id)), first_lane_(first_lane) {}

    void draw(const double* shape, int64_t n, double* out) {
        for (int64_t begin = 0; begin < n; begin += BLOCK) {
            const int64_t size = n - begin < BLOCK ? n - begin : BLOCK;
            draw_uniforms(begin, size);
            make(shape + begin, size, out + begin);
            make_again(shape, begin, out);
        }
    }

  private:
    static constexpr int64_t BLOCK = 128;

    void draw_uniforms(int64_t begin, int64_t size) {
        for (int64_t i = 0; i < size; i += LD) {
            const vu lane = steps_from(first_lane_ + begin + i);
            vu one, two;
            philox(key_, id_, lane + (uint64_t(1) << 32), one, two);
            store(first_ + i, unit(one));
            store(second_ + i, unit(two));
            philox(key_, id_, lane, one, two);
            store(boost_ + i, unit(one));
        }
    }

    void make(const double* shape, int64_t size, double* out) {
        n_again_ = 0;
        for (int64_t i = 0; i < size; i += LD) {
            const vd shapes = load_some(shape + i, size - i, 1.0);
            const GammaAttempt made(at_least_one(shapes), load(first_ + i), load(second_ + i));
            const vd value = lowered(log_of(made.d * made.v), shapes, load(boost_ + i));
            store_some(out + i, size - i, value);
            const Int<double> sure = made.surely_accepted();
            for (int l = 0; l < LD; ++l) {
                again_[n_again_] = int32_t(i + l);
                n_again_ += sure[l] ? 0 : 1;
            }
        }
        while (n_again_ && again_[n_again_ - 1] >= size) --n_again_;
    }

    void make_again(const double* shape, int64_t begin, double* out) {
        for (int64_t k = 0; k < n_again_; k += LD) {
            vu lane = {};
            vd shapes = all(1.0);
            for (int l = 0; l < LD && k + l < n_again_; ++l) {
                lane[l] = uint64_t(first_lane_ + begin + again_[k + l]);
                shapes[l] = shape[begin + again_[k + l]];
            }
            const vd value = log_gamma_variates(key_, id_, lane, shapes);
            for (int l = 0; l < LD && k + l < n_again_; ++l) out[begin + again_[k + l]] = value[l];
        }
    }

    const uint64_t key_;
    const vu id_;
    const int64_t first_lane_;
    double first_[BLOCK], second_[BLOCK], boost_[BLOCK];
    int32_t again_[BLOCK + 1];
    int64_t n_again_ = 0;
};

static void log_gammas(uint64_t key, const int64_t* ids, int64_t groups, int64_t first_lane,
                       const double* shape, int64_t n, double* out) {
    for (int64_t g = 0; g < groups; ++g)
        GroupGammas(key, ids[g], first_lane).draw(shape + g * n, n, out + g * n);
}

}  // namespace SCSTREAM_ISA
