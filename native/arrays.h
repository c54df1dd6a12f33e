// Arrays between Python and the kernels.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "api.h"
#include "parallel.h"

namespace nb = nanobind;

namespace scstream {

struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;  // any strides
using Strided = nb::ndarray<const double, nb::ndim<1>, nb::device::cpu>;
using Mask = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<nb::numpy, double>;

// Memory that becomes a numpy array.
template <class T> class Fresh {
  public:
    // Zero; large blocks come from the system that way and cost nothing until they are touched.
    explicit Fresh(int64_t n) : memory(static_cast<T*>(std::calloc(size_t(n > 0 ? n : 1), sizeof(T)))) {
        if (!memory) throw std::bad_alloc();
#if defined(__linux__)
        // Large pages, as numpy asks for: their first use is much cheaper.
        const size_t bytes = size_t(n) * sizeof(T), page = 1 << 21;
        const size_t begin = (reinterpret_cast<size_t>(memory.get()) + page - 1) / page * page;
        const size_t end = (reinterpret_cast<size_t>(memory.get()) + bytes) / page * page;
        if (n > 0 && bytes >= 4 * page && end > begin)
            madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
    }
    T* data() const { return memory.get(); }
    nb::ndarray<nb::numpy, T> array(const std::vector<size_t>& shape) {
        T* data = memory.release();
        nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
        return nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), owner);
    }
    // In the shape of the first axes of another array, followed by `more`.
    template <class A>
    nb::ndarray<nb::numpy, T> array_like(const A& source, size_t axes,
                                         std::initializer_list<size_t> more = {}) {
        std::vector<size_t> shape;
        for (size_t i = 0; i < axes; ++i) shape.push_back(source.shape(i));
        shape.insert(shape.end(), more);
        return array(shape);
    }

  private:
    struct Free {
        void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T, Free> memory;
};

inline Fresh<double> fresh(const std::vector<double>& values) {
    Fresh<double> out{int64_t(values.size())};
    std::copy(values.begin(), values.end(), out.data());
    return out;
}

// The kernels of the instruction set in use.
const Kernels*& kernels();

inline void require(bool met, const char* what) {
    if (!met) throw nb::value_error(what);
}

}  // namespace scstream
