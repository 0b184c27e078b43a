"""The bibliography: what the docstrings of the library cite as "Name et al. YEAR", in full.

``jaxdis list references`` prints it, and ``jaxdis list references --bibtex mig dci`` the entries that were used.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple


class Reference(NamedTuple):
    """A publication.

    Attributes:
      authors: as "Chen, R. T. Q.".
      title: without braces of BibTeX.
      venue: the journal, conference, publisher or archive.
      year: of publication.
      link: a DOI (``10.…``), an arXiv number (``arXiv:…``) or an address.
      kind: the type of its entry in BibTeX.
      volume: of the journal or of the proceedings; "" for none.
    """

    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    link: str
    kind: Literal["article", "inproceedings", "book", "misc"]
    volume: str = ""

    @property
    def cited(self) -> str:
        """How docstrings cite it: ``Chen et al. 2018``."""
        names = [author.split(", ")[0] for author in self.authors]
        if len(names) > 2:
            return f"{names[0]} et al. {self.year}"
        return f"{' & '.join(names)} {self.year}"

    @property
    def url(self) -> str:
        if self.link.startswith("10."):
            return f"https://doi.org/{self.link}"
        if self.link.startswith("arXiv:"):
            return f"https://arxiv.org/abs/{self.link.removeprefix('arXiv:')}"
        return f"https://{self.link}"

    @property
    def place(self) -> str:
        """Where it was published: ``Neural Computation 9``."""
        return f"{self.venue} {self.volume}".rstrip()

    def bibtex(self, key: str) -> str:
        """An entry of a BibTeX file."""
        fields = {
            "author": " and ".join(self.authors),
            "title": f"{{{self.title}}}",
            _VENUES[self.kind]: self.venue,
            "volume": self.volume,
            "year": str(self.year),
            "url": self.url,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
        return "\n".join([f"@{self.kind}{{{key},", *lines, "}"])


# The field of BibTeX that names the venue.
_VENUES = {"article": "journal", "inproceedings": "booktitle", "book": "publisher", "misc": "howpublished"}


def _journal(authors: str, title: str, journal: str, volume: str, year: int, link: str) -> Reference:
    return Reference(_split(authors), title, journal, year, link, "article", volume)


def _conference(authors: str, title: str, conference: str, year: int, link: str, *, volume: str = "") -> Reference:
    return Reference(_split(authors), title, conference, year, link, "inproceedings", volume)


def _book(authors: str, title: str, publisher: str, year: int, link: str) -> Reference:
    return Reference(_split(authors), title, publisher, year, link, "book")


def _preprint(authors: str, title: str, year: int, link: str) -> Reference:
    return Reference(_split(authors), title, "arXiv preprint", year, link, "misc")


def _data(authors: str, title: str, publisher: str, year: int, link: str) -> Reference:
    return Reference(_split(authors), title, publisher, year, link, "misc")


def _split(authors: str) -> tuple[str, ...]:
    return tuple(authors.split("; "))


REFERENCES: dict[str, Reference] = {
    "amari1996": _conference(
        "Amari, S.; Cichocki, A.; Yang, H. H.",
        "A New Learning Algorithm for Blind Signal Separation",
        "Advances in Neural Information Processing Systems",
        1996,
        "proceedings.neurips.cc/paper/1995/hash/e19347e1c3ca0c0b97de5fb3b690855a-Abstract.html",
        volume="8",
    ),
    "arbelaez2011": _journal(
        "Arbeláez, P.; Maire, M.; Fowlkes, C.; Malik, J.",
        "Contour Detection and Hierarchical Image Segmentation",
        "IEEE Transactions on Pattern Analysis and Machine Intelligence",
        "33",
        2011,
        "10.1109/TPAMI.2010.161",
    ),
    "ba2016": _preprint(
        "Ba, J. L.; Kiros, J. R.; Hinton, G. E.",
        "Layer Normalization",
        2016,
        "arXiv:1607.06450",
    ),
    "belghazi2018": _conference(
        "Belghazi, M. I.; Baratin, A.; Rajeswar, S.; Ozair, S.; Bengio, Y.; Courville, A.; Hjelm, R. D.",
        "Mutual Information Neural Estimation",
        "International Conference on Machine Learning",
        2018,
        "arXiv:1801.04062",
    ),
    "bohning1992": _journal(
        "Böhning, D.",
        "Multinomial Logistic Regression Algorithm",
        "Annals of the Institute of Statistical Mathematics",
        "44",
        1992,
        "10.1007/BF00048682",
    ),
    "breiman2001": _journal(
        "Breiman, L.",
        "Random Forests",
        "Machine Learning",
        "45",
        2001,
        "10.1023/A:1010933404324",
    ),
    "burda2016": _conference(
        "Burda, Y.; Grosse, R.; Salakhutdinov, R.",
        "Importance Weighted Autoencoders",
        "International Conference on Learning Representations",
        2016,
        "arXiv:1509.00519",
    ),
    "burgess2018": _conference(
        "Burgess, C. P.; Higgins, I.; Pal, A.; Matthey, L.; Watters, N.; Desjardins, G.; Lerchner, A.",
        "Understanding Disentangling in β-VAE",
        "NIPS Workshop on Learning Disentangled Representations",
        2018,
        "arXiv:1804.03599",
    ),
    "burgess2019": _preprint(
        "Burgess, C. P.; Matthey, L.; Watters, N.; Kabra, R.; Higgins, I.; Botvinick, M.; Lerchner, A.",
        "MONet: Unsupervised Scene Decomposition and Representation",
        2019,
        "arXiv:1901.11390",
    ),
    "burgesskim2018": _data(
        "Burgess, C.; Kim, H.",
        "3D Shapes Dataset",
        "DeepMind",
        2018,
        "github.com/google-deepmind/3d-shapes",
    ),
    "cao2022": _conference(
        "Cao, J.; Nai, R.; Yang, Q.; Huang, J.; Gao, Y.",
        "An Empirical Study on Disentanglement of Negative-free Contrastive Learning",
        "Advances in Neural Information Processing Systems",
        2022,
        "arXiv:2206.04756",
    ),
    "carbonneau2022": _journal(
        "Carbonneau, M.-A.; Zaïdi, J.; Boilard, J.; Gagnon, G.",
        "Measuring Disentanglement: A Review of Metrics",
        "IEEE Transactions on Neural Networks and Learning Systems",
        "35",
        2022,
        "10.1109/TNNLS.2022.3218982",
    ),
    "chen2016": _conference(
        "Chen, X.; Duan, Y.; Houthooft, R.; Schulman, J.; Sutskever, I.; Abbeel, P.",
        "InfoGAN: Interpretable Representation Learning by Information Maximizing Generative Adversarial Nets",
        "Advances in Neural Information Processing Systems",
        2016,
        "arXiv:1606.03657",
    ),
    "chen2018": _conference(
        "Chen, R. T. Q.; Li, X.; Grosse, R.; Duvenaud, D.",
        "Isolating Sources of Disentanglement in Variational Autoencoders",
        "Advances in Neural Information Processing Systems",
        2018,
        "arXiv:1802.04942",
    ),
    "crouse2016": _journal(
        "Crouse, D. F.",
        "On Implementing 2D Rectangular Assignment Algorithms",
        "IEEE Transactions on Aerospace and Electronic Systems",
        "52",
        2016,
        "10.1109/TAES.2016.140952",
    ),
    "dangnhu2022": _conference(
        "Dang-Nhu, R.",
        "Evaluating Disentanglement of Structured Representations",
        "International Conference on Learning Representations",
        2022,
        "arXiv:2101.04041",
    ),
    "davison1997": _book(
        "Davison, A. C.; Hinkley, D. V.",
        "Bootstrap Methods and Their Application",
        "Cambridge University Press",
        1997,
        "10.1017/CBO9780511802843",
    ),
    "do2020": _conference(
        "Do, K.; Tran, T.",
        "Theory and Evaluation Metrics for Learning Disentangled Representations",
        "International Conference on Learning Representations",
        2020,
        "arXiv:1908.09961",
    ),
    "duan2020": _conference(
        "Duan, S.; Matthey, L.; Saraiva, A.; Watters, N.; Burgess, C. P.; Lerchner, A.; Higgins, I.",
        "Unsupervised Model Selection for Variational Disentangled Representation Learning",
        "International Conference on Learning Representations",
        2020,
        "arXiv:1905.12614",
    ),
    "eastwood2018": _conference(
        "Eastwood, C.; Williams, C. K. I.",
        "A Framework for the Quantitative Evaluation of Disentangled Representations",
        "International Conference on Learning Representations",
        2018,
        "openreview.net/forum?id=By-7dz-AZ",
    ),
    "efron1993": _book(
        "Efron, B.; Tibshirani, R. J.",
        "An Introduction to the Bootstrap",
        "Chapman & Hall",
        1993,
        "10.1201/9780429246593",
    ),
    "engelcke2020": _conference(
        "Engelcke, M.; Kosiorek, A. R.; Parker Jones, O.; Posner, I.",
        "GENESIS: Generative Scene Inference and Sampling with Object-Centric Latent Representations",
        "International Conference on Learning Representations",
        2020,
        "arXiv:1907.13052",
    ),
    "fan2008": _journal(
        "Fan, R.-E.; Chang, K.-W.; Hsieh, C.-J.; Wang, X.-R.; Lin, C.-J.",
        "LIBLINEAR: A Library for Large Linear Classification",
        "Journal of Machine Learning Research",
        "9",
        2008,
        "jmlr.org/papers/v9/fan08a.html",
    ),
    "friedman2001": _journal(
        "Friedman, J. H.",
        "Greedy Function Approximation: A Gradient Boosting Machine",
        "Annals of Statistics",
        "29",
        2001,
        "10.1214/aos/1013203451",
    ),
    "friedman2010": _journal(
        "Friedman, J.; Hastie, T.; Tibshirani, R.",
        "Regularization Paths for Generalized Linear Models via Coordinate Descent",
        "Journal of Statistical Software",
        "33",
        2010,
        "10.18637/jss.v033.i01",
    ),
    "gondal2019": _conference(
        "Gondal, M. W.; Wüthrich, M.; Miladinović, Đ.; Locatello, F.; Breidt, M.; Volchkov, V.; Akpo, J.; "
        "Bachem, O.; Schölkopf, B.; Bauer, S.",
        "On the Transfer of Inductive Bias from Simulation to the Real World: a New Disentanglement Dataset",
        "Advances in Neural Information Processing Systems",
        2019,
        "arXiv:1906.03292",
    ),
    "greff2019": _conference(
        "Greff, K.; Kaufman, R. L.; Kabra, R.; Watters, N.; Burgess, C.; Zoran, D.; Matthey, L.; "
        "Botvinick, M.; Lerchner, A.",
        "Multi-Object Representation Learning with Iterative Variational Inference",
        "International Conference on Machine Learning",
        2019,
        "arXiv:1903.00450",
    ),
    "gulrajani2017": _conference(
        "Gulrajani, I.; Ahmed, F.; Arjovsky, M.; Dumoulin, V.; Courville, A.",
        "Improved Training of Wasserstein GANs",
        "Advances in Neural Information Processing Systems",
        2017,
        "arXiv:1704.00028",
    ),
    "hager2005": _journal(
        "Hager, W. W.; Zhang, H.",
        "A New Conjugate Gradient Method with Guaranteed Descent and an Efficient Line Search",
        "SIAM Journal on Optimization",
        "16",
        2005,
        "10.1137/030601880",
    ),
    "hajimiri2021": _preprint(
        "Hajimiri, S.; Lotfi, A.; Baghshah, M. S.",
        "Semi-Supervised Disentanglement of Class-Related and Class-Independent Factors in VAE",
        2021,
        "arXiv:2102.00892",
    ),
    "he2016": _conference(
        "He, K.; Zhang, X.; Ren, S.; Sun, J.",
        "Deep Residual Learning for Image Recognition",
        "IEEE Conference on Computer Vision and Pattern Recognition",
        2016,
        "arXiv:1512.03385",
    ),
    "higgins2017": _conference(
        "Higgins, I.; Matthey, L.; Pal, A.; Burgess, C.; Glorot, X.; Botvinick, M.; Mohamed, S.; Lerchner, A.",
        "beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework",
        "International Conference on Learning Representations",
        2017,
        "openreview.net/forum?id=Sy2fzU9gl",
    ),
    "hochreiter1997": _journal(
        "Hochreiter, S.; Schmidhuber, J.",
        "Long Short-Term Memory",
        "Neural Computation",
        "9",
        1997,
        "10.1162/neco.1997.9.8.1735",
    ),
    "hsu2023": _conference(
        "Hsu, K.; Dorrell, W.; Whittington, J. C. R.; Wu, J.; Finn, C.",
        "Disentanglement via Latent Quantization",
        "Advances in Neural Information Processing Systems",
        2023,
        "arXiv:2305.18378",
    ),
    "hubert1985": _journal(
        "Hubert, L.; Arabie, P.",
        "Comparing Partitions",
        "Journal of Classification",
        "2",
        1985,
        "10.1007/BF01908075",
    ),
    "hyvarinen2016": _conference(
        "Hyvärinen, A.; Morioka, H.",
        "Unsupervised Feature Extraction by Time-Contrastive Learning and Nonlinear ICA",
        "Advances in Neural Information Processing Systems",
        2016,
        "arXiv:1605.06336",
    ),
    "ioffe2015": _conference(
        "Ioffe, S.; Szegedy, C.",
        "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift",
        "International Conference on Machine Learning",
        2015,
        "arXiv:1502.03167",
    ),
    "jang2017": _conference(
        "Jang, E.; Gu, S.; Poole, B.",
        "Categorical Reparameterization with Gumbel-Softmax",
        "International Conference on Learning Representations",
        2017,
        "arXiv:1611.01144",
    ),
    "johnson2017": _conference(
        "Johnson, J.; Hariharan, B.; van der Maaten, L.; Fei-Fei, L.; Zitnick, C. L.; Girshick, R.",
        "CLEVR: A Diagnostic Dataset for Compositional Language and Elementary Visual Reasoning",
        "IEEE Conference on Computer Vision and Pattern Recognition",
        2017,
        "arXiv:1612.06890",
    ),
    "julka2024": _preprint(
        "Julka, S.; Wang, Y.; Granitzer, M.",
        "Towards an Improved Metric for Evaluating Disentangled Representations",
        2024,
        "arXiv:2410.03056",
    ),
    "kabra2019": _data(
        "Kabra, R.; Burgess, C.; Matthey, L.; Kaufman, R. L.; Greff, K.; Reynolds, M.; Lerchner, A.",
        "Multi-Object Datasets",
        "DeepMind",
        2019,
        "github.com/google-deepmind/multi_object_datasets",
    ),
    "kim2018": _conference(
        "Kim, H.; Mnih, A.",
        "Disentangling by Factorising",
        "International Conference on Machine Learning",
        2018,
        "arXiv:1802.05983",
    ),
    "kingma2015": _conference(
        "Kingma, D. P.; Ba, J.",
        "Adam: A Method for Stochastic Optimization",
        "International Conference on Learning Representations",
        2015,
        "arXiv:1412.6980",
    ),
    "kingma2014": _conference(
        "Kingma, D. P.; Welling, M.",
        "Auto-Encoding Variational Bayes",
        "International Conference on Learning Representations",
        2014,
        "arXiv:1312.6114",
    ),
    "kish1965": _book(
        "Kish, L.",
        "Survey Sampling",
        "Wiley",
        1965,
        "www.wiley.com/p-9780471109495",
    ),
    "kraskov2004": _journal(
        "Kraskov, A.; Stögbauer, H.; Grassberger, P.",
        "Estimating Mutual Information",
        "Physical Review E",
        "69",
        2004,
        "10.1103/PhysRevE.69.066138",
    ),
    "kuhn1955": _journal(
        "Kuhn, H. W.",
        "The Hungarian Method for the Assignment Problem",
        "Naval Research Logistics Quarterly",
        "2",
        1955,
        "10.1002/nav.3800020109",
    ),
    "kumar2018": _conference(
        "Kumar, A.; Sattigeri, P.; Balakrishnan, A.",
        "Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
        "International Conference on Learning Representations",
        2018,
        "arXiv:1711.00848",
    ),
    "lecun2004": _conference(
        "LeCun, Y.; Huang, F. J.; Bottou, L.",
        "Learning Methods for Generic Object Recognition with Invariance to Pose and Lighting",
        "IEEE Conference on Computer Vision and Pattern Recognition",
        2004,
        "10.1109/CVPR.2004.1315150",
    ),
    "li2020": _conference(
        "Li, Z.; Murkute, J. V.; Gyawali, P. K.; Wang, L.",
        "Progressive Learning and Disentanglement of Hierarchical Representations",
        "International Conference on Learning Representations",
        2020,
        "arXiv:2002.10549",
    ),
    "locatello2019": _conference(
        "Locatello, F.; Bauer, S.; Lucic, M.; Rätsch, G.; Gelly, S.; Schölkopf, B.; Bachem, O.",
        "Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations",
        "International Conference on Machine Learning",
        2019,
        "arXiv:1811.12359",
    ),
    "locatello2020": _journal(
        "Locatello, F.; Bauer, S.; Lucic, M.; Rätsch, G.; Gelly, S.; Schölkopf, B.; Bachem, O.",
        "A Sober Look at the Unsupervised Learning of Disentangled Representations and their Evaluation",
        "Journal of Machine Learning Research",
        "21",
        2020,
        "arXiv:2010.14766",
    ),
    "mahon2024": _journal(
        "Mahon, L.; Sha, L.; Lukasiewicz, T.",
        "Correcting Flaws in Common Disentanglement Metrics",
        "Transactions on Machine Learning Research",
        "",
        2024,
        "openreview.net/forum?id=c8WJ4Vozb2",
    ),
    "matthey2017": _data(
        "Matthey, L.; Higgins, I.; Hassabis, D.; Lerchner, A.",
        "dSprites: Disentanglement Testing Sprites Dataset",
        "DeepMind",
        2017,
        "github.com/google-deepmind/dsprites-dataset",
    ),
    "musco2015": _conference(
        "Musco, C.; Musco, C.",
        "Randomized Block Krylov Methods for Stronger and Faster Approximate Singular Value Decomposition",
        "Advances in Neural Information Processing Systems",
        2015,
        "arXiv:1504.05477",
    ),
    "nocedal2006": _book(
        "Nocedal, J.; Wright, S. J.",
        "Numerical Optimization",
        "Springer",
        2006,
        "10.1007/978-0-387-40065-5",
    ),
    "politis1999": _book(
        "Politis, D. N.; Romano, J. P.; Wolf, M.",
        "Subsampling",
        "Springer",
        1999,
        "10.1007/978-1-4612-1554-7",
    ),
    "ramamoorthi2001": _conference(
        "Ramamoorthi, R.; Hanrahan, P.",
        "An Efficient Representation for Irradiance Environment Maps",
        "SIGGRAPH",
        2001,
        "10.1145/383259.383317",
    ),
    "reed2015": _conference(
        "Reed, S. E.; Zhang, Y.; Zhang, Y.; Lee, H.",
        "Deep Visual Analogy-Making",
        "Advances in Neural Information Processing Systems",
        2015,
        "proceedings.neurips.cc/paper/2015/hash/e07413354875be01a996dc560274708e-Abstract.html",
    ),
    "rezende2018": _preprint(
        "Rezende, D. J.; Viola, F.",
        "Taming VAEs",
        2018,
        "arXiv:1810.00597",
    ),
    "ridgeway2018": _conference(
        "Ridgeway, K.; Mozer, M. C.",
        "Learning Deep Disentangled Embeddings with the F-Statistic Loss",
        "Advances in Neural Information Processing Systems",
        2018,
        "arXiv:1802.05312",
    ),
    "ross2014": _journal(
        "Ross, B. C.",
        "Mutual Information between Discrete and Continuous Data Sets",
        "PLoS ONE",
        "9",
        2014,
        "10.1371/journal.pone.0087357",
    ),
    "sepliarskaia2019": _preprint(
        "Sepliarskaia, A.; Kiseleva, J.; de Rijke, M.",
        "How to Not Measure Disentanglement",
        2019,
        "arXiv:1910.05587",
    ),
    "sha2021": _conference(
        "Sha, L.; Lukasiewicz, T.",
        "Multi-type Disentanglement without Adversarial Training",
        "AAAI Conference on Artificial Intelligence",
        2021,
        "arXiv:2012.08883",
        volume="35",
    ),
    "suter2019": _conference(
        "Suter, R.; Miladinović, Đ.; Schölkopf, B.; Bauer, S.",
        "Robustly Disentangled Causal Mechanisms: Validating Deep Representations for Interventional Robustness",
        "International Conference on Machine Learning",
        2019,
        "arXiv:1811.00007",
    ),
    "trauble2021": _conference(
        "Träuble, F.; Creager, E.; Kilbertus, N.; Locatello, F.; Dittadi, A.; Goyal, A.; Schölkopf, B.; Bauer, S.",
        "On Disentangled Representations Learned from Correlated Data",
        "International Conference on Machine Learning",
        2021,
        "arXiv:2006.07886",
    ),
    "ulyanov2016": _preprint(
        "Ulyanov, D.; Vedaldi, A.; Lempitsky, V.",
        "Instance Normalization: The Missing Ingredient for Fast Stylization",
        2016,
        "arXiv:1607.08022",
    ),
    "valenti2022": _conference(
        "Valenti, A.; Bacciu, D.",
        "Leveraging Relational Information for Learning Weakly Disentangled Representations",
        "International Joint Conference on Neural Networks",
        2022,
        "arXiv:2205.10056",
    ),
    "watters2019": _preprint(
        "Watters, N.; Matthey, L.; Burgess, C. P.; Lerchner, A.",
        "Spatial Broadcast Decoder: A Simple Architecture for Learning Disentangled Representations in VAEs",
        2019,
        "arXiv:1901.07017",
    ),
    "yang1997": _journal(
        "Yang, H. H.; Amari, S.",
        "Adaptive Online Learning Algorithms for Blind Separation: Maximum Entropy and Minimum Mutual Information",
        "Neural Computation",
        "9",
        1997,
        "10.1162/neco.1997.9.7.1457",
    ),
}

_BY_CITATION = {reference.cited: key for key, reference in REFERENCES.items()}
_NAME = r"[A-ZÀ-Ž][\w’-]+"
# "Chen et al. 2018", "Kim & Mnih (2018)", "Burgess and Kim 2018", and "Ross 2014" where there is such an entry.
_CITATION = re.compile(rf"({_NAME})( et al\.| (?:&|and) {_NAME})? \(?((?:19|20)\d\d)\b")


def citations(text: str) -> list[str]:
    """What a text cites, as ``Chen et al. 2018``, in the order of first citation.

    A single name counts only if there is an entry for it: "Table 2019" is not a citation.
    """
    found = []
    for name, others, year in _CITATION.findall(re.sub(r"\s+", " ", text)):
        citation = f"{name}{others.replace(' and ', ' & ')} {year}"
        if others or citation in _BY_CITATION:
            found.append(citation)
    return list(dict.fromkeys(found))


def cited_in(text: str) -> list[str]:
    """Keys of the entries that a text cites, in the order of first citation."""
    return [_BY_CITATION[citation] for citation in citations(text) if citation in _BY_CITATION]


def bibliography(keys: Iterable[str]) -> str:
    """BibTeX of the given entries, each once.

    Raises:
      ValueError: for a key without an entry.
    """
    keys = list(dict.fromkeys(keys))
    for key in keys:
        if key not in REFERENCES:
            raise ValueError(f"references: needs keys such as chen2018, got {key!r}")
    return "\n\n".join(REFERENCES[key].bibtex(key) for key in keys)
