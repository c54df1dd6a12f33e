// The Python module: the choice of instruction set and of threads, random numbers, and families.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "diagonal_object.h"
#include "direction_object.h"
#include "gaussian_object.h"
#include "weights.h"
#include "multinomial_object.h"
#include "reader.h"
#include "subspace_object.h"

namespace scstream {

Pass::~Pass() = default;

std::vector<const Kernels*> usable() {
    std::vector<const Kernels*> out;
#if defined(SCSTREAM_HAS_avx512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        out.push_back(kernels_avx512());
#endif
#if defined(SCSTREAM_HAS_avx2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        out.push_back(kernels_avx2());
#endif
#ifdef SCSTREAM_HAS_portable
    out.push_back(kernels_portable());
#endif
    return out;
}

void choose(const std::string& name) {
    for (const Kernels* k : usable())
        if (name == k->name) {
            kernels() = k;
            return;
        }
    throw nb::value_error(("no kernels for instruction set " + name).c_str());
}

const Kernels*& kernels() {
    static const Kernels* chosen = usable().front();
    return chosen;
}

std::vector<std::string> available() {
    std::vector<std::string> out;
    for (const Kernels* k : usable()) out.push_back(k->name);
    return out;
}

int set_threads(int n) {
    const int before = threads_wanted();
    threads_wanted() = n < 1 ? 1 : n;
    return before;
}

Output uniforms(uint64_t key, Ids index, int64_t lane) {
    Fresh<double> out(2 * int64_t(index.size()));
    kernels()->uniforms(key, index.data(), nullptr, lane, int64_t(index.size()), out.data());
    return out.array_like(index, index.ndim(), {2});
}

Output uniforms_by_lane(uint64_t key, Ids index, Ids lane) {
    require(index.size() == lane.size(), "one lane per index is needed");
    Fresh<double> out(2 * int64_t(index.size()));
    kernels()->uniforms(key, index.data(), lane.data(), 0, int64_t(index.size()), out.data());
    return out.array_like(index, index.ndim(), {2});
}

Output normals(uint64_t key, Ids ids, int64_t first_lane, int64_t n) {
    const int64_t groups = int64_t(ids.size());
    Fresh<double> out(groups * n);
    {
        nb::gil_scoped_release free;
        run_ranges(groups, 1, threads_for(50.0 * double(groups * n), groups),
                   [&](int64_t begin, int64_t end) {
                       kernels()->normals(key, ids.data() + begin, end - begin, first_lane, n,
                                          out.data() + begin * n);
                   });
    }
    return out.array({size_t(groups), size_t(n)});
}

Output log_gammas(uint64_t key, Ids ids, int64_t first_lane, Matrix shape) {
    require(shape.shape(0) == ids.size(), "one row of shapes per group is needed");
    const int64_t groups = int64_t(ids.size()), n = int64_t(shape.shape(1));
    Fresh<double> out(groups * n);
    {
        nb::gil_scoped_release free;
        run_ranges(groups, 1, threads_for(100.0 * double(groups * n), groups),
                   [&](int64_t begin, int64_t end) {
                       kernels()->log_gammas(key, ids.data() + begin, end - begin, first_lane,
                                             shape.data() + begin * n, n, out.data() + begin * n);
                   });
    }
    return out.array({size_t(groups), size_t(n)});
}

}  // namespace scstream

NB_MODULE(_native, m) {
    using namespace scstream;
    using namespace nb::literals;
    // Families that live as long as the interpreter hold kernels: that is no leak.
    nb::set_leak_warnings(false);
    nb::exception<Refused>(m, "Refused");
    m.def("available", available, "Instruction sets of this build and machine, the best first.");
    m.def("isa", [] { return std::string(kernels()->name); }, "The instruction set in use.");
    m.def("choose", choose, "isa"_a, "Use another of the available instruction sets.");
    m.def("set_threads", set_threads, "n"_a, "Set this thread's number of threads; return the old.");
    m.def("uniforms", uniforms, "key"_a, "index"_a, "lane"_a = 0);
    m.def("uniforms", uniforms_by_lane, "key"_a, "index"_a, "lane"_a);
    m.def("normals", normals);
    m.def("log_gammas", log_gammas);
    m.def("log_odds_of_two", log_odds_of_two);
    m.def("log_mean_weights", log_mean_weights);
    m.def("sample_log_weights", sample_log_weights);
    m.def("shrink", shrink_vectors);
    m.def("neighbour_pairs", neighbour_pairs, "points"_a, "n_neighbours"_a);
    nb::class_<Family>(m, "Family")
        .def("log_likelihood", &Family::log_likelihood, "params"_a, "X"_a)
        .def("log_predictive", &Family::log_predictive, "table"_a, "X"_a)
        .def("stats", &Family::stats, "X"_a, "group"_a, "n_groups"_a,
             "weight"_a.none() = nb::none())
        .def(
            "assign",
            [](const Family& self, nb::object X, std::optional<Vector> weight, Matrix clusters,
               Matrix subclusters, Vector log_weight, Matrix log_subweight, Matrix prior, Ids pairs,
               Matrix unions, std::optional<double> log_new, std::optional<uint64_t> key,
               bool predictive, bool report_map, bool collect_evidence, bool single, int64_t first_row,
               int64_t slice_length, Ids subtrees, bool map_labels, Matrix screen,
               int64_t n_candidates, std::optional<Matrix> typical) {
                const AssignmentArrays arrays = {clusters, subclusters, log_weight, log_subweight,
                                           prior, pairs,  unions, screen, n_candidates, typical};
                return self.assign(X, weight, arrays, log_new, key, predictive, map_labels, report_map,
                                   collect_evidence, single, {first_row, slice_length, subtrees});
            },
            "X"_a, "weight"_a.none(), "clusters"_a, "subclusters"_a, "log_weight"_a, "log_subweight"_a,
            "prior"_a, "pairs"_a, "unions"_a, "log_new"_a.none(), "key"_a.none(), "predictive"_a,
            "report_map"_a, "collect_evidence"_a, "single"_a, "first_row"_a, "slice_length"_a,
            "subtrees"_a, "map_labels"_a, "screen"_a, "n_candidates"_a, "typical"_a.none());
    nb::class_<Reader>(m, "Reader")
        .def(nb::init<const Family&, Matrix, Vector, Matrix, std::optional<double>, bool, Ids>(),
             "family"_a, "clusters"_a, "log_weight"_a, "prior"_a, "log_new"_a.none(), "predictive"_a,
             "ids"_a, nb::keep_alive<1, 2>())
        .def("labels", &Reader::labels, "X"_a);
    nb::class_<Gaussian, Family>(m, "Gaussian")
        .def(nb::init<Vector, double, double, Matrix, Vector>(), "mean"_a, "kappa"_a, "nu"_a,
             "psi"_a, "origin"_a)
        .def("log_marginal", &Gaussian::log_marginal, "stats"_a)
        .def("log_marginal_of_unions", &Gaussian::log_marginal_of_unions, "stats"_a, "first"_a,
             "second"_a)
        .def("near", &Gaussian::near, "X"_a, "clusters"_a, "log_weight"_a, "screen"_a,
             "n_candidates"_a, "first_row"_a, "every"_a, "phase"_a, "prior"_a, "log_new"_a.none())
        .def("shortlist", &Gaussian::shortlist)
        .def("log_split_ratio", &Gaussian::log_split_ratio)
        .def("likely_unions", &Gaussian::likely_unions)
        .def("move_clusters", &Gaussian::move_clusters)
        .def("estimate_motion", &Gaussian::estimate_motion)
        .def("sample_cluster_params", &Gaussian::sample_cluster_params)
        .def("means", &Gaussian::means, "stats"_a)
        .def("stds", &Gaussian::stds, "stats"_a)
        .def("translate", &Gaussian::translate, "stats"_a, "shift"_a)
        .def("predictive_params", &Gaussian::predictive, "stats"_a)
        .def("sample_posterior", &Gaussian::draw, "stats"_a, "draws"_a);
    nb::class_<Diagonal, Family>(m, "Diagonal")
        .def(nb::init<Vector, Vector, double, Vector, Vector>(), "mean"_a, "kappa"_a, "nu"_a,
             "psi"_a, "origin"_a)
        .def("log_marginal", &Diagonal::log_marginal, "stats"_a)
        .def("predictive_params", &Diagonal::predictive, "stats"_a)
        .def("parameters", &Diagonal::parameters, "stats"_a, "normals"_a, "log_gammas"_a);
    nb::class_<Multinomial, Family>(m, "Multinomial")
        .def(nb::init<Vector>(), "concentration"_a)
        .def("log_marginal", &Multinomial::log_marginal, "stats"_a)
        .def("log_marginal_of_unions", &Multinomial::log_marginal_of_unions, "stats"_a, "first"_a,
             "second"_a)
        .def("log_split_ratio", &Multinomial::log_split_ratio)
        .def("likely_unions", &Multinomial::likely_unions)
        .def("coordinates_of", &Multinomial::coordinates_of, "stats"_a)
        .def("log_leave_one_out", &Multinomial::log_leave_one_out)
        .def("sample_cluster_params", &Multinomial::sample_cluster_params)
        .def("parameters", &Multinomial::parameters, "log_gammas"_a);
    nb::class_<Direction, Family>(m, "Direction")
        .def(nb::init<Vector, double, Vector>(), "centre"_a, "strength"_a, "scales"_a);
    nb::class_<Subspace, Family>(m, "Subspace")
        .def(nb::init<Vector, Vector, Matrix, double>(), "origin"_a, "inverse_scale"_a, "basis"_a,
             "log_scale"_a);
}
