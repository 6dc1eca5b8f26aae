"""The twelve methods of KG06 Tables 4 and 5, each a function of a fold."""

import warnings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.experiments.paper_tables import Fold, error_rate
from gpclass.inference import EP, Laplace, TangentBound
from gpclass.kernels import MixedRBF
from gpclass.likelihoods import Logit, NoisyThreshold

Array = NDArray[np.float64]

# Footnote 11: variance, bias, latent noise, inverse squared length-scale.
START: Final = (1.0, 1e-4, 1e-3, 0.05)
# "Zero or a very small number".
HARD_NOISE: Final = 1e-6
BOUNDS: Final = (1e-8, 1e8)
LENGTH_BOUNDS: Final = (1e-3, 1e5)
# Footnotes 14 and 15, and the finer steps around the best of these.
LOG_C: Final = np.arange(0.0, 3.1, 0.5)
LOG_L: Final = np.arange(-3.0, 0.1, 0.5)
FINE: Final = np.arange(-0.4, 0.41, 0.1)
# A margin that no training row may cross; where there is none, libsvm would not end.
HARD_C: Final = 1e6
MOST_STEPS: Final = 200_000
NEIGHBOURS: Final = tuple(range(1, 31))
INNER_FOLDS: Final = 5
EXACT: Final = NoisyThreshold(0.0)


class Learnt(NamedTuple):
    """Classes of the test rows, hyperparameters, log evidence, whether the inference converged."""

    predicted: NDArray[Any]
    theta: Array
    log_evidence: float = np.nan
    converged: bool = True


def single(noise: float | None = START[2], *, fixed: bool = False) -> Kernel:
    """KG06 eq. 13 with one length-scale for all columns of `Fold.wide`; no noise for None."""
    return _around(RBF(START[3] ** -0.5, LENGTH_BOUNDS), noise, fixed)


def multiple(n_continuous: int, n_discrete: int, noise: float | None = START[2]) -> Kernel:
    """The same with a length-scale for each column of `Fold.codes`."""
    length = START[3] ** -0.5
    rbf = MixedRBF(
        np.full(n_continuous, length),
        tuple(range(n_continuous, n_continuous + n_discrete)),
        np.full(max(n_discrete, 1), length),
        LENGTH_BOUNDS,
        LENGTH_BOUNDS,
    )
    return _around(rbf, noise, fixed=False)


def _around(kernel: Kernel, noise: float | None, fixed: bool) -> Kernel:
    whole = ConstantKernel(START[0], BOUNDS) * kernel + ConstantKernel(START[1], BOUNDS)
    if noise is None:
        return whole
    return whole + WhiteKernel(noise, "fixed" if fixed else BOUNDS)


def spread_over_columns(kernel: Kernel, theta: Array) -> Array:
    """Theta of `multiple` from that of `single`: every column has the one length-scale.

    Both are in scikit-learn's order: variance, length-scales, bias, noise.
    """
    n = len(kernel.theta) - len(theta) + 1
    return np.concatenate([theta[:1], np.full(n, theta[1]), theta[2:]])


def fit(
    kernel: Kernel, X: Array, y: Any, X_test: Array, theta: Array | None = None, **settings: Any
) -> Learnt:
    """Learn from theta, or the kernel's own, and predict."""
    if theta is not None:
        kernel = kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
    model = GaussianProcessClassifier(kernel, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `converged` is counted
        model.fit(X, y)
    evidence = float(model.log_marginal_likelihood_value_)
    return Learnt(model.predict(X_test), model.kernel_.theta, evidence, bool(model.converged_))


def em_ep(
    kernel: Kernel, X: Array, y: Any, X_test: Array, theta: Array | None = None, **more: Any
) -> Learnt:
    """GPC-EP: EM-EP with the threshold; its softness is the kernel's noise."""
    settings = {"likelihood": EXACT, "inference": EP(), "learning": "em"} | more
    return fit(kernel, X, y, X_test, theta, **settings)


def other_gpc(method: str, fold: Fold) -> Learnt:
    """GPC-VL, GPC-VU or GPC-L: the logit, a length-scale a column, no latent noise.

    "VU at VL" is the upper bound at the hyperparameters that maximise the lower one.
    """
    bound = method.partition(" at ")[0]
    inferences = {"VL": TangentBound("lower"), "VU": TangentBound("upper"), "L": Laplace()}
    settings: dict[str, Any] = {"likelihood": Logit(), "inference": inferences[bound]}
    kernel = multiple(fold.n_continuous, fold.codes.shape[1] - fold.n_continuous, None)
    theta = None
    if method != bound:
        theta = other_gpc("VL", fold).theta
        settings["optimizer"] = None
    return fit(kernel, fold.codes, fold.y, fold.codes_test, theta, **settings)


def _folds(seed: int) -> KFold:
    return KFold(INNER_FOLDS, shuffle=True, random_state=seed)


def neighbours(fold: Fold, k: Sequence[int], seed: int) -> NDArray[Any]:
    """k-NN, k by five-fold cross-validation where there is a choice."""
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": list(k)}, cv=_folds(seed))
    return np.asarray(search.fit(fold.codes, fold.y).predict(fold.codes_test))


def discriminant(fold: Fold) -> NDArray[Any]:
    """Linear discriminant analysis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a constant column
        model = LinearDiscriminantAnalysis().fit(fold.codes, fold.y)
    return np.asarray(model.predict(fold.codes_test))


def svm(fold: Fold, *, hard: bool, seed: int) -> NDArray[Any]:
    """SVM-CV: C and l of ``exp(-l r^2 / 2)`` on a coarse grid, then on a finer one around it."""
    best = {"C": 0.0, "gamma": 0.0}
    for C, gamma in ((LOG_C, LOG_L), (FINE, FINE)):
        grid = {"gamma": 0.5 * 10.0 ** (best["gamma"] + gamma)}
        grid["C"] = np.array([HARD_C]) if hard else 10.0 ** (best["C"] + C)
        search = GridSearchCV(SVC(max_iter=MOST_STEPS), grid, cv=_folds(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # grids reach where no margin is found
            search.fit(fold.wide, fold.y)
        best = {
            "C": float(np.log10(search.best_params_["C"])),
            "gamma": float(np.log10(2.0 * search.best_params_["gamma"])),
        }
    return np.asarray(search.predict(fold.wide_test))


def classical_errors(fold: Fold, seed: int) -> dict[str, float]:
    """Error rates of nearest neighbours, LDA and the soft SVM."""
    predicted = {
        "1-NN": neighbours(fold, (1,), seed),
        "k-NN": neighbours(fold, NEIGHBOURS, seed),
        "LDA": discriminant(fold),
        "SVM-CV(soft)": svm(fold, hard=False, seed=seed),
    }
    return {method: error_rate(one, fold.y_test) for method, one in predicted.items()}


def svm_ep(fold: Fold, theta: Array, seed: int) -> NDArray[Any]:
    """SVM-EP: the covariance that EM-EP found without its noise; C by cross-validation."""
    kernel = single(None).clone_with_theta(theta[:3])
    K, cross = kernel(fold.wide), kernel(fold.wide_test, fold.wide)
    best = 0.0
    for C in (LOG_C, FINE):
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": 10.0 ** (best + C)}, cv=_folds(seed))
        best = float(np.log10(search.fit(K, fold.y).best_params_["C"]))
    return np.asarray(search.predict(cross))
