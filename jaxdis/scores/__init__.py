"""How one-to-one is a relation? One function for each answer, one table of them all."""

from jaxdis.scores.entropies import concentration, entropy, exclusivity, modularity
from jaxdis.scores.gaps import factor_gap, gap, joint_gap, strongest
from jaxdis.scores.permutations import amari, independent_groups, matching
from jaxdis.spec import Spec

SCORES: dict[str, Spec] = {
    "gap": Spec(gap),
    "factor_gap": Spec(factor_gap),
    "entropy": Spec(entropy),
    "modularity": Spec(modularity),
    "strongest": Spec(strongest),
    "exclusivity": Spec(exclusivity),
    "concentration": Spec(concentration),
    "matching": Spec(matching),
    "amari": Spec(amari),
    "independent_groups": Spec(independent_groups),
    "joint_gap": Spec(joint_gap),
}

__all__ = ["SCORES", *SCORES]
