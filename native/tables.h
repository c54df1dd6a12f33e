// Tables of groups as the kernels on rows hold them.
#pragma once

#include <type_traits>

#include "simd.h"

namespace SCSTREAM_ISA {

constexpr int64_t IN_CACHE = 1 << 15;  // numbers of tables that stay in the first caches

// A table of doubles as numbers of type T: the table itself, or a rounded copy.
template <class T> class Rounded {
  public:
    Rounded(const double* table, int64_t size)
        : copy_(std::is_same<T, double>::value ? 0 : size, RAW) {
        if constexpr (std::is_same<T, double>::value) {
            table_ = table;
        } else {
            for (int64_t p = 0; p < size; ++p) copy_[p] = T(table[p]);
            table_ = copy_.get();
        }
    }
    const T* get() const { return table_; }

  private:
    const T* table_;
    Buffer<T> copy_;
};

}  // namespace SCSTREAM_ISA
