// The direction family with its prior, as Python holds it.
#pragma once

#include "family.h"

namespace scstream {

class Direction final : public Family {
  public:
    Direction(Vector centre, double strength, Vector scales)
        : centre_(centre.data(), centre.data() + centre.size()),
          scales_(scales.data(), scales.data() + scales.size()) {
        require(int64_t(scales.size()) <= MOST_CONCENTRATIONS, "too many concentrations");
        prior_.d = int64_t(centre.size());
        prior_.c = int64_t(scales.size());
        prior_.order = 0.5 * double(prior_.d) - 1.0;
        prior_.strength = strength;
        prior_.centre = centre_.data();
        prior_.scales = scales_.data();
    }

    int64_t n_features() const override { return prior_.d; }
    int64_t n_stats() const override { return 1 + prior_.d; }
    int64_t table_width(bool predictive) const override { return prior_.table_width(predictive); }
    std::unique_ptr<Pass> pass(const AssignmentParams& plan) const override {
        return std::unique_ptr<Pass>(kernels()->direction.pass(prior_, plan));
    }

  protected:
    void add_stats(const Rows& rows, const int64_t* group, int64_t, double* out) const override {
        kernels()->direction.stats(prior_, rows, group, out);
    }
    void score_rows(const double* table, int64_t groups, bool predictive, const Rows& rows,
                    int64_t begin, int64_t end, double* out) const override {
        kernels()->direction.scores(prior_, table, groups, predictive, rows, begin, end, out);
    }

  private:
    std::vector<double> centre_, scales_;
    DirectionPrior prior_;
};

}  // namespace scstream
