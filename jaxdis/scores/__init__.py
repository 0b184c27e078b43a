"""How close is a relation to one code per factor? One function per measure, and one table with them all."""

from jaxdis._core.spec import Spec
from jaxdis.scores._entropies import concentration, entropy, exclusivity, modularity
from jaxdis.scores._gaps import axis_alignment, factor_gap, gap, joint_gap, maximum, strongest
from jaxdis.scores._permutations import amari, independent_groups, matching

SCORES: dict[str, Spec] = {
    "gap": Spec(gap, title="Gap of the two best codes"),
    "factor_gap": Spec(factor_gap, title="Gap of the two best factors"),
    "axis_alignment": Spec(axis_alignment, title="Best code less all others"),
    "entropy": Spec(entropy, title="Entropy of rows and columns (DCI)"),
    "modularity": Spec(modularity, title="Modularity by squares"),
    "maximum": Spec(maximum, title="Strongest code"),
    "strongest": Spec(strongest, title="Best gap credited to each factor"),
    "exclusivity": Spec(exclusivity, title="Exclusivity of EDI"),
    "concentration": Spec(concentration, title="Share of the largest entry"),
    "matching": Spec(matching, title="One-to-one matching"),
    "amari": Spec(amari, title="Amari distance"),
    "independent_groups": Spec(independent_groups, title="Independent groups by threshold"),
    "joint_gap": Spec(joint_gap, title="Joint entropy minus gap"),
}

__all__ = ["SCORES", *SCORES]
