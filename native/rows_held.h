// The rows of a batch as Python hands them over: an array, or a CSR matrix of scipy.
#pragma once

#include <string>

#include "arrays.h"

namespace scstream {

// Rows, with what keeps their memory.
struct RowsHeld {
    using Short = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

    Rows rows;
    Matrix dense;
    Vector data;
    Short indices;
    std::vector<int64_t> indptr;

    RowsHeld(const nb::object& X, const std::optional<Vector>& weight, int64_t d, bool sparse) {
        size_t width = 0;
        if (nb::ndarray_check(X) && nb::try_cast(X, dense)) {
            rows.x = dense.data();
            rows.n = int64_t(dense.shape(0));
            width = dense.shape(1);
        } else {
            width = read_sparse(X, sparse);
        }
        require(int64_t(width) == d, "rows have the wrong width");
        require(!weight || int64_t(weight->size()) == rows.n, "one weight per row is needed");
        rows.d = d;
        rows.weight = weight ? weight->data() : nullptr;
        if (rows.indptr) check();
    }

  private:
    size_t read_sparse(const nb::object& X, bool sparse) {
        if (!sparse || !nb::hasattr(X, "format") ||
            nb::cast<std::string>(nb::str(X.attr("format"))) != "csr" ||
            !nb::try_cast(X.attr("data"), data) || !nb::try_cast(X.attr("indices"), indices) ||
            !read_indptr(X.attr("indptr")))
            throw Refused("rows of this type are not read");
        const nb::object shape = X.attr("shape");
        rows.n = nb::cast<int64_t>(shape[0]);
        rows.x = data.data();
        rows.indices = indices.data();
        rows.indptr = indptr.data();
        return nb::cast<size_t>(shape[1]);
    }

    bool read_indptr(const nb::object& from) {
        Short few;
        Ids many;
        if (nb::try_cast(from, few, false))
            indptr.assign(few.data(), few.data() + few.size());
        else if (nb::try_cast(from, many))
            indptr.assign(many.data(), many.data() + many.size());
        else
            return false;
        return true;
    }

    void check() const {
        require(int64_t(indptr.size()) == rows.n + 1 && indptr[0] == 0 &&
                    indptr.back() <= int64_t(indices.size()) && indices.size() <= data.size(),
                "the arrays of the CSR matrix do not fit together");
        bool well = true;
        for (int64_t r = 0; r < rows.n; ++r) well &= indptr[r] <= indptr[r + 1];
        require(well, "the rows of the CSR matrix are out of order");
        require(indptr.back() == 0 || kernels()->multinomial.in_range(rows),
                "an index of the CSR matrix is out of range");
    }
};

}  // namespace scstream
