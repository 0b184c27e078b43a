"""How strongly does each code encode each factor? One function per measure, and one table with them all."""

from jaxdis._core.spec import Spec
from jaxdis.relations._binless import (
    impact_intensity,
    mutual_information_neighbors,
    mutual_information_neural,
    neighbor_alignment,
)
from jaxdis.relations._correlation import correlation, r2
from jaxdis.relations._information import mutual_information, mutual_information_equal_count, mutual_information_sampled
from jaxdis.relations._learned import (
    boosted_trees,
    lasso_importance,
    logistic_accuracy,
    logistic_importance,
    random_forest,
    svm_accuracy,
    threshold_accuracy,
)
from jaxdis.relations._relation import Relation

RELATIONS: dict[str, Spec] = {
    "mutual_information": Spec(mutual_information, title="Mutual information, equal-width bins"),
    "mutual_information_equal_count": Spec(
        mutual_information_equal_count, title="Mutual information, equal-count bins"
    ),
    "mutual_information_sampled": Spec(mutual_information_sampled, title="Mutual information of the sampled code"),
    "mutual_information_neighbors": Spec(mutual_information_neighbors, title="Mutual information, nearest neighbors"),
    "mutual_information_neural": Spec(mutual_information_neural, title="Mutual information, neural bound (MINE)"),
    "neighbor_alignment": Spec(neighbor_alignment, title="Alignment of neighbors (SPN)"),
    "impact_intensity": Spec(impact_intensity, title="Impact intensity of EDI"),
    "correlation": Spec(correlation, title="Absolute correlation"),
    "r2": Spec(r2, title="Squared correlation"),
    "svm_accuracy": Spec(svm_accuracy, title="Accuracy of a support vector machine on one code"),
    "lasso_importance": Spec(lasso_importance, title="Coefficients of a lasso"),
    "logistic_accuracy": Spec(logistic_accuracy, title="Accuracy of logistic regression on one code"),
    "logistic_importance": Spec(logistic_importance, title="Coefficients of logistic regression"),
    "threshold_accuracy": Spec(threshold_accuracy, title="Accuracy of thresholds on one code"),
    "boosted_trees": Spec(boosted_trees, title="Importance in gradient-boosted trees"),
    "random_forest": Spec(random_forest, title="Importance in random forests"),
}

__all__ = ["RELATIONS", "Relation", *RELATIONS]
