"""How well `algorithm="exact"` mixes, against a collapsed Gibbs sampler."""
