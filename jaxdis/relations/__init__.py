"""How strongly does each code speak of each factor? One function for each answer, one table of them all."""

from jaxdis.relations.binless import impact_intensity, mutual_information_neighbors, mutual_information_neural
from jaxdis.relations.correlation import correlation, r2
from jaxdis.relations.information import mutual_information, mutual_information_equal_count, mutual_information_sampled
from jaxdis.relations.learned import lasso_importance, svm_accuracy, threshold_accuracy
from jaxdis.relations.logistic import logistic_accuracy, logistic_importance
from jaxdis.relations.relation import Relation
from jaxdis.relations.trees import boosted_trees, random_forest
from jaxdis.spec import Spec

RELATIONS: dict[str, Spec] = {
    "mutual_information": Spec(mutual_information),
    "mutual_information_equal_count": Spec(mutual_information_equal_count),
    "mutual_information_sampled": Spec(mutual_information_sampled),
    "mutual_information_neighbors": Spec(mutual_information_neighbors),
    "mutual_information_neural": Spec(mutual_information_neural),
    "impact_intensity": Spec(impact_intensity),
    "correlation": Spec(correlation),
    "r2": Spec(r2),
    "svm_accuracy": Spec(svm_accuracy),
    "lasso_importance": Spec(lasso_importance),
    "logistic_accuracy": Spec(logistic_accuracy),
    "logistic_importance": Spec(logistic_importance),
    "threshold_accuracy": Spec(threshold_accuracy),
    "boosted_trees": Spec(boosted_trees),
    "random_forest": Spec(random_forest),
}

__all__ = [
    "RELATIONS",
    "Relation",
    "boosted_trees",
    "correlation",
    "impact_intensity",
    "lasso_importance",
    "logistic_accuracy",
    "logistic_importance",
    "mutual_information",
    "mutual_information_equal_count",
    "mutual_information_neighbors",
    "mutual_information_neural",
    "mutual_information_sampled",
    "r2",
    "random_forest",
    "svm_accuracy",
    "threshold_accuracy",
]
