"""How strongly does each code speak of each factor? One function for each answer, one table of them all."""

from jaxdis.relations.correlation import correlation, r2
from jaxdis.relations.information import mutual_information, mutual_information_equal_count, mutual_information_sampled
from jaxdis.relations.relation import Relation
from jaxdis.spec import Spec

RELATIONS: dict[str, Spec] = {
    "mutual_information": Spec(mutual_information),
    "mutual_information_equal_count": Spec(mutual_information_equal_count),
    "mutual_information_sampled": Spec(mutual_information_sampled),
    "correlation": Spec(correlation),
    "r2": Spec(r2),
}

__all__ = [
    "RELATIONS",
    "Relation",
    "correlation",
    "mutual_information",
    "mutual_information_equal_count",
    "mutual_information_sampled",
    "r2",
]
