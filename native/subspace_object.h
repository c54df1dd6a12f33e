// The subspace family with what its passes need, as Python holds it.
#pragma once

#include "family.h"

namespace scstream {

class Subspace final : public Family {
  public:
    // `basis` has one line per direction.
    Subspace(Vector origin, Vector inverse_scale, Matrix basis, double log_scale)
        : origin_(origin.data(), origin.data() + origin.size()),
          inverse_scale_(inverse_scale.data(), inverse_scale.data() + inverse_scale.size()),
          basis_(basis.data(), basis.data() + basis.size()) {
        require(inverse_scale.size() == origin.size() && basis.shape(1) == origin.size(),
                "origin, scale and basis do not fit together");
        prior_.d = int64_t(origin.size());
        prior_.q = int64_t(basis.shape(0));
        prior_.log_scale = log_scale;
        prior_.origin = origin_.data();
        prior_.inverse_scale = inverse_scale_.data();
        prior_.basis = basis_.data();
    }

    int64_t n_features() const override { return prior_.d; }
    int64_t n_stats() const override { return prior_.n_stats(); }
    int64_t table_width(bool predictive) const override { return prior_.table_width(predictive); }
    std::unique_ptr<Pass> pass(const AssignmentParams& plan) const override {
        return std::unique_ptr<Pass>(kernels()->subspace.pass(prior_, plan));
    }

  protected:
    void add_stats(const Rows& rows, const int64_t* group, int64_t n_groups,
                   double* out) const override {
        kernels()->subspace.stats(prior_, rows, group, n_groups, out);
    }
    void score_rows(const double* table, int64_t groups, bool predictive, const Rows& rows,
                    int64_t begin, int64_t end, double* out) const override {
        kernels()->subspace.scores(prior_, table, groups, predictive, rows, begin, end, out);
    }

  private:
    std::vector<double> origin_, inverse_scale_, basis_;
    SubspacePrior prior_;
};

}  // namespace scstream
