"""Mutants chosen by hand: mistakes that somebody made, or that would be hard to see in results.

The others are a sample of all mutants of every module.
"""

from __future__ import annotations

from benchmarks.mutants.operators import Mutant

_CHOSEN = [  # module, function, expression, replacement
    # Survivors of an audit.
    (
        "kernels.reference",
        "Kernels.log_mean_weights",
        "np.log(weight + alpha)[:, None]",
        "np.log(np.maximum(weight, _EMPTY))[:, None]",
    ),
    (
        "kernels.reference",
        "Kernels.log_mean_weights",
        "np.log(counts + alpha / 2.0)",
        "np.log(np.maximum(counts, _EMPTY))",
    ),
    (
        "core.moves",
        "accept_splits",
        "np.log(kernels.uniforms(key, state.ids[proposed])[:, 0])",
        "np.log(kernels.uniforms(key, state.ids[proposed])[:, 0]) - 5.0",
    ),
    ("core.default", "step", "max(config.n_sweeps, _BIRTH_SWEEPS if sampled.events else 0)", "0"),
    ("core.paper", "step", "(config.n_sweeps, -1)", "(0, -1)"),
    ("core.moves", "accept_merges", "np.log(chance)", "np.log(chance) - 5.0"),
    # The rules of the authors' program.
    ("core.paper", "predictive_sweep", "rules.draw_sublabels", "False"),
    ("core.paper", "assign_and_move", "rules.renew", "False"),
    ("core.cluster_edits", "renew_subclusters", "count.max(axis=1) > 0", "True"),
    # Terms of the ratios.
    ("kernels.reference", "Kernels.log_odds_of_two", "np.log(alpha)", "0.0"),
    ("kernels.reference", "Kernels.log_odds_of_two", "gammaln(n_left + n_right)", "0.0"),
    ("core.moves", "log_subcluster_weights", "2.0 * gammaln(alpha / 2.0)", "gammaln(alpha / 2.0)"),
    ("core.ratios", "log_joint", "gammaln(alpha + total)", "gammaln(total)"),
    ("core.moves", "accept_splits", "-np.log(2.0) * weight", "-np.inf"),
    # Printed in the paper.
    (
        "families.gaussian",
        "Gaussian.log_marginal",
        "_log_multigamma(nu / 2, d)",
        "_log_multigamma(nu, d)",
    ),
    (
        "families.gaussian",
        "Gaussian._posterior",
        "self.kappa * np.outer(prior_mean, prior_mean)",
        "0.0",
    ),
    ("families.gaussian", "Gaussian._student", "nu - d + 1.0", "nu - d"),
    (
        "families.multinomial",
        "Multinomial.log_marginal",
        "gammaln(posterior.sum(axis=-1))",
        "gammaln(self.concentration.sum() + stats[..., 0])",
    ),
    # Randomness.
    ("core.moves", "accept_merges", "'merges'", "'splits'"),
    ("core.sweep", "label_key", "'labels'", "'weights'"),
    ("core.rng", "key_for", "PURPOSES.index(purpose)", "0"),
    # Forgetting and evidence.
    (
        "core.forgetting",
        "forget",
        "factor * state.split_evidence",
        "state.split_evidence",
    ),
    ("core.forgetting", "_decayed", "factor * subclusters", "subclusters * 1.0"),
    (
        "core.window",
        "Exponential.weight",
        "np.exp2(-np.asarray(age) / self.half_life)",
        "np.exp(-np.asarray(age) / self.half_life)",
    ),
    (
        "core.assign",
        "_split_evidence",
        "np.clip(apart - together, -_MAX_EVIDENCE, _MAX_EVIDENCE)",
        "(apart - together)",
    ),
    (
        "core.evidence",
        "accumulate_evidence",
        "np.maximum(state.split_evidence + for_split, 0.0)",
        "state.split_evidence + for_split",
    ),
    (
        "core.default",
        "gibbs_sweeps",
        "with_statistics(state, rows.assign(params))",
        "with_statistics(state, rows.assign(params), 2.0)",
    ),
    # Edits of clusters.
    ("core.cluster_edits", "subclusters_of", "stats / 2.0 - offset", "stats / 2.0 + offset"),
    (
        "core.cluster_edits",
        "split_clusters",
        "np.zeros(n)",
        "state.split_evidence[which]",
    ),
    (
        "core.cluster_edits",
        "remove_clusters",
        "state.unassigned_now + float(state.current[removed, :, 0].sum())",
        "state.unassigned_now",
    ),
    ("core.finish", "remove_unsupported", "gone.all()", "False"),
    ("core.births", "one_or_many", "groups", "union"),
    (
        "core.archive",
        "retire",
        "state.peak[removed] / state.weight[removed]",
        "state.peak[removed]",
    ),
    (
        "kernels.reference",
        "Kernels.estimate_motion",
        "family.means(current) - family.means(past)",
        "family.means(past) - family.means(current)",
    ),
    ("kernels.reference", "Kernels.shrink", "1.0 - noise / np.maximum(size, 1e-100)", "1.0"),
]


def chosen_mutants() -> list[Mutant]:
    """The mutants chosen by hand."""
    return [Mutant(f"scstream.{module}", *change) for module, *change in _CHOSEN]
