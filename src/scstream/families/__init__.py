"""What a cluster is: exponential families with conjugate priors."""

from scstream.families.base import Draws, Family
from scstream.families.bernoulli import Bernoulli
from scstream.families.categorical import Categorical
from scstream.families.diagonal import Diagonal
from scstream.families.direction import Direction
from scstream.families.gaussian import Gaussian
from scstream.families.multinomial import Multinomial
from scstream.families.poisson import Poisson
from scstream.families.product import FAMILIES, Product, family_class, family_from
from scstream.families.subspace import Subspace

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Categorical",
    "Diagonal",
    "Direction",
    "Draws",
    "Family",
    "Gaussian",
    "Multinomial",
    "Poisson",
    "Product",
    "Subspace",
    "family_class",
    "family_from",
]
