// A mixture made ready once, for rows that are compared with it and not learned.
#pragma once

#include "family.h"

namespace scstream {

class Reader {
  public:
    Reader(const Family& family, Matrix clusters, Vector log_weight, Matrix prior,
           std::optional<double> log_new, bool predictive, Ids ids)
        : family_(family), clusters_(clusters), log_weight_(log_weight), prior_(prior), ids_(ids) {
        const size_t k = clusters.shape(0), width = size_t(family.table_width(predictive));
        require(clusters.shape(1) == width && log_weight.size() == k && ids.size() == k &&
                    prior.size() == size_t(family.table_width(true)),
                "the arrays of the mixture do not fit together");
        require(k > 0 || log_new.has_value(), "a mixture needs something to choose");
        AssignmentParams plan;
        plan.n_clusters = int64_t(k);
        plan.clusters = clusters_.data();
        plan.log_weight = log_weight_.data();
        plan.prior = prior_.data();
        plan.log_new = log_new.value_or(0.0);
        plan.may_be_new = log_new.has_value();
        plan.predictive = predictive;
        pass_ = family.pass(plan);
    }

    // Ids of the most probable clusters, -1 for a new one.
    nb::ndarray<nb::numpy, int64_t> labels(const nb::object& X) const {
        const RowsHeld held = family_.rows_of(X, std::nullopt);
        const int64_t n = held.rows.n;
        Fresh<int64_t> label(n);
        {
            nb::gil_scoped_release free;
            for (int64_t begin = 0; begin < n; begin += SLICE)
                pass_->labels(held.rows, begin, begin + SLICE < n ? begin + SLICE : n, label.data());
            for (int64_t r = 0; r < n; ++r)
                if (label.data()[r] >= 0) label.data()[r] = ids_.data()[label.data()[r]];
        }
        return label.array({size_t(n)});
    }

  private:
    static constexpr int64_t SLICE = 1 << 12;  // rows compared at a time

    const Family& family_;
    const Matrix clusters_;
    const Vector log_weight_;
    const Matrix prior_;
    const Ids ids_;
    std::unique_ptr<Pass> pass_;
};

}  // namespace scstream
