"""Survivors that are equivalent to the program, or nearly so, with the reason."""

EQUIVALENT: dict[str, str] = {
    "core.moves.accept_merges: 'merges' -> 'splits'": (
        "Equivalent: numbers for splits have counter 0, numbers for a merge have the second id as "
        "their counter, which is at least 1; so none is used twice under one key."
    ),
    "core.start.data_driven_prior: 0.0 -> 1.0": (
        "Nearly equivalent: the first round must gain 1 nat, where rounds that matter gain "
        "hundreds."
    ),
    "families.base.Family.log_marginal_of_unions: 1 -> 2": (
        "Equivalent: pairs are computed in chunks of at least two, with the same results."
    ),
    "families.gaussian.Gaussian.stats: 1 -> 2": (
        "Equivalent: one more bound at the end, of a group without rows."
    ),
}
