"""The estimator: validates, picks the parts, keeps what fit learnt."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gpclass.estimator.arguments import (
    as_objects,
    check_kernel_argument,
    is_precomputed,
    pick_parts,
    takes_vectors,
)
from gpclass.estimator.binary_model import BinaryModel, check_sample_count
from gpclass.estimator.decomposition import OneVsOne
from gpclass.estimator.division import divide
from gpclass.estimator.evidence import evidence_at
from gpclass.estimator.joint_model import JointModel
from gpclass.estimator.progress import EvidenceProgress
from gpclass.estimator.report import OptimizerReport, ReportedRun, names_of_theta
from gpclass.estimator.weights import row_weights
from gpclass.exceptions import ConvergenceWarning, JitterWarning
from gpclass.inference import Approximation
from gpclass.kernels import (
    Precomputed,
    default_kernel,
    from_recipe,
    to_recipe,
    validate_precomputed,
)
from gpclass.learning import (
    JointProblem,
    KeepFixed,
    Learned,
    Learner,
    Problem,
    draw_starts,
    learn_all,
)
from gpclass.likelihoods import Likelihood, get_likelihood

Array = NDArray[np.float64]


@final
class GaussianProcessClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process classification, as scikit-learn's class of this name, and more.

    The latent function has a Gaussian process prior; its posterior given the labels is
    approximated by a Gaussian; the kernel's hyperparameters are those of largest evidence; class
    probabilities are averages over the latent.

    Parameters
    ----------
    kernel : Kernel, list of Kernel, "precomputed" or None, default=None
        A kernel of `sklearn.gaussian_process.kernels`; a list has one for each of more than two
        classes. None: a signal variance times an RBF whose
        length-scale starts at the median distance between rows, both learnt. "precomputed": X is
        the (n, n) covariance matrix; for new rows it is (m, n), with their prior variances as
        column n where the training diagonal is not constant.
    likelihood : {"probit", "logit", "threshold"} or Likelihood, default="probit"
        What a label says about the latent. "threshold" is `NoisyThreshold`, whose share of
        wrong labels is learnt.
    inference : {"ep", "laplace", "pl", "vi", "bound", "mcmc"} or a method such as \
            ``EP(schedule="sequential")``, default="ep"
        How the Gaussian is found. EP's evidence and probabilities are the closest to the truth;
        Laplace's method takes about half the time. "mcmc" samples, for fixed hyperparameters
        (``optimizer=None``).
    learning : {"evidence", "em"} or Learner, default="evidence"
        How hyperparameters are found: by the evidence's gradient, or by EM (KG06), which needs
        fewer inferences for many length-scales, and is worth it where these are slow ("vi").
    multi_class : {"joint", "differences", "one_vs_rest", "one_vs_one"}, default="joint"
        What more than two classes are. "joint": one model of all, the multinomial probit for
        ``inference="ep"`` and the softmax for ``"laplace"``. "differences": the latent differences
        of KG06, for every inference and likelihood, at the cost of n (C - 1) rows. Else several
        binary problems; pairs are coupled into probabilities by the method of Wu, Lin & Weng
        (2004).
    inducing : None
        The exact prior; no other value exists yet.
    hyperprior : None
        No prior over hyperparameters; no other value exists yet.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        As in scikit-learn; None keeps the kernel as it is.
    n_restarts_optimizer : int, default=0
        Further runs, started uniformly within the (logarithmic) bounds.
    max_iter_predict : int, default=100
        Iteration limit of the inference.
    warm_start : bool, default=False
        Start the inference of the next fit from the sites of this one.
    copy_X_train : bool, default=True
        Whether to keep a copy of X, or X itself.
    random_state : int, RandomState instance or None, default=None
        Draws the starts of restarts.
    n_jobs : int, default=None
        Processes for restarts or binary problems. The result does not depend on it.
    verbose : int, default=0
        1 shows a line of progress.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    n_classes_ : int
    kernel_ : Kernel
        With the values that were learnt; a CompoundKernel for several binary problems, or one
        kernel a class.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only where X has string column names.
    X_train_ : ndarray of shape (n, d), or list of object
    y_train_ : ndarray of shape (n,)
        Class indices; -1 for a row of weight zero whose class no other row has.
    log_marginal_likelihood_value_ : float
        Evidence in nats; the mean over the binary problems where there are several.
    converged_ : bool
        Whether every inference reached its end.
    n_iter_ : int
        Largest number of iterations of the final inferences.
    optimizer_report_ : OptimizerReport
        Every run of the optimiser.

    References
    ----------
    RW06 chapter 3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GaussianProcessClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessClassifier().fit(X, y)
    >>> model.predict_proba(X[:2]).round(2)
    array([[1., 0., 0.],
           [1., 0., 0.]])
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        *,
        likelihood: Any = "probit",
        inference: Any = "ep",
        learning: Any = "evidence",
        multi_class: str = "joint",
        inducing: None = None,
        hyperprior: None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_iter_predict: int = 100,
        warm_start: bool = False,
        copy_X_train: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.learning = learning
        self.multi_class = multi_class
        self.inducing = inducing
        self.hyperprior = hyperprior
        self.class_weight = class_weight
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ------------------------------------------------------------------ fit

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "GaussianProcessClassifier":
        """Learn the kernel's hyperparameters and the posterior.

        Parameters
        ----------
        X : array-like of shape (n, d), DataFrame, list of object, or (n, n) if precomputed
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), default=None
            Powers of the likelihood terms: a weight of 2 is the row given twice, 0 leaves it out.

        Returns
        -------
        self : GaussianProcessClassifier

        Raises
        ------
        ValueError, TypeError
            Naming the argument that is wrong.
        NotPositiveDefiniteError
            A ValueError, where the kernel is not positive semi-definite on X.

        Warns
        -----
        ConvergenceWarning
            Where an inference did not converge, or a hyperparameter of a kernel that was given
            ended on a bound.
        """
        before = dict(vars(self))
        try:
            return self._fit(X, y, sample_weight)
        except BaseException:
            # nothing half fitted: what an earlier fit learnt stays, what this one began goes
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> "GaussianProcessClassifier":
        parts = pick_parts(self)
        check_kernel_argument(self.kernel)
        X, y = self._validate_fit(X, y)
        weights = row_weights(X, y, sample_weight, self.class_weight)
        used = None if weights is None or (weights > 0).all() else np.flatnonzero(weights > 0)
        classes, codes = np.unique(y if used is None else y[used], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "GaussianProcessClassifier requires 2 or more distinct classes; got "
                f"{len(classes)} class (only {classes.tolist()})"
                + ("" if used is None else " among the rows of positive weight")
            )
        kernels = self._starting_kernels(X, used)
        problems, names = divide(parts, kernels, X, codes, classes, weights, used)
        learned = self._learn(problems, parts.learner)

        self.classes_, self.n_classes_ = classes, len(classes)
        self._decomposition = parts.decomposition
        self.X_train_ = X
        self.y_train_ = np.where(np.isin(y, classes), np.searchsorted(classes, y), -1)
        self.models_ = [
            (JointModel if isinstance(problem, JointProblem) else BinaryModel).of(problem, result)
            for problem, result in zip(problems, learned, strict=True)
        ]
        self.log_marginal_likelihood_value_ = np.mean([m.log_evidence for m in self.models_])
        self.converged_ = all(m.outcome.converged for m in self.models_)
        self.n_iter_ = max(1, *(m.n_iter for m in self.models_)) if self.models_ else 1
        self.optimizer_report_ = OptimizerReport(
            names_of_theta(problems, listed=len(kernels) > 1),
            tuple(
                ReportedRun(name, run, names_of_theta([problem], listed=False))
                for name, problem, result in zip(names, problems, learned, strict=True)
                for run in result.runs
            ),
        )
        self._warn(names)
        return self

    def _validate_fit(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        if takes_vectors(self.kernel):
            X, y = validate_data(self, X, y, dtype=np.float64, copy=bool(self.copy_X_train))
            if is_precomputed(self.kernel):
                validate_precomputed(X)
        else:
            X, y = validate_data(
                self, as_objects(X), y, dtype=None, ensure_2d=False, ensure_all_finite=False
            )
        check_classification_targets(y)
        return X, y

    def _starting_kernels(self, X: Any, used: NDArray[np.intp] | None) -> list[Kernel]:
        """One kernel for all classes, or one a class."""
        if self.kernel is None:
            return [default_kernel(X if used is None else X[used])]
        if isinstance(self.kernel, list | tuple):
            return [clone(kernel) for kernel in self.kernel]
        return [Precomputed() if is_precomputed(self.kernel) else clone(self.kernel)]

    def _learn(self, problems: list[Problem], learner: Learner) -> list[Learned]:
        random_state = check_random_state(self.random_state)
        n_restarts = 0 if isinstance(learner, KeepFixed) else int(self.n_restarts_optimizer)
        starts = [draw_starts(problem, n_restarts, random_state) for problem in problems]
        inits = self._warm_sites(problems)
        with EvidenceProgress(int(self.verbose)) as progress:
            return learn_all(
                learner, problems, starts, inits, n_jobs=self.n_jobs, progress=progress.update
            )

    def _warm_sites(self, problems: list[Problem]) -> list[Any]:
        """Sites of the last fit where warm_start asks for them and they fit the new problems."""
        last = getattr(self, "models_", []) if self.warm_start else []
        if len(last) != len(problems):
            return [None] * len(problems)
        return [
            model.start
            if type(model.problem) is type(problem) and len(model.sites) == problem.n_sites
            else None
            for model, problem in zip(last, problems, strict=True)
        ]

    def _warn(self, names: list[str]) -> None:
        for name, model in zip(names, self.models_, strict=True):
            jitter = model.problem.jitter
            if jitter > 0:
                warnings.warn(
                    f"{jitter:.3g} was added to the diagonal of the kernel "
                    f"{model.problem.kernel} for {name}: its values are so large that their "
                    "rounding alone could make its matrix indefinite; scale the columns of X",
                    JitterWarning,
                    stacklevel=4,
                )
            if not model.outcome.converged:
                warnings.warn(
                    f"inference ({name}) {model.outcome.value}", ConvergenceWarning, stacklevel=4
                )
        if self.kernel is not None and self.optimizer_report_.runs:
            for kernel in (kernel for model in self.models_ for kernel in model.problem.kernels):
                # scikit-learn's own words, once for each hyperparameter on a bound
                kernel._check_bounds_params()

    # -------------------------------------------------------------- predict

    def _validate_new(self, X: Any) -> Any:
        check_is_fitted(self, "models_")
        kernel = self.models_[0].problem.kernels[0]
        if not takes_vectors(kernel):
            return validate_data(
                self,
                as_objects(X),
                dtype=None,
                ensure_2d=False,
                ensure_all_finite=False,
                reset=False,
            )
        if is_precomputed(kernel) and np.shape(X)[1:] == (self.n_features_in_ + 1,):
            # the last column has the new rows' own variances
            return check_array(X, dtype=np.float64)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _log_proba_pairs(self, X: Any) -> Array:
        """``log P(-1)`` and ``log P(+1)`` under each binary problem, shape (m, k, 2)."""
        log_pairs = np.empty((len(X), len(self.models_), 2))
        for k, model in enumerate(self.models_):
            assert isinstance(model, BinaryModel)
            log_pairs[:, k, :] = model.log_probabilities(X)
        return log_pairs

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, averaged over the latent.

        Parameters
        ----------
        X : array-like of shape (m, d), or list of object

        Returns
        -------
        P : ndarray of shape (m, C)
            Columns in the order of ``classes_``; rows sum to one.
        """
        X = self._validate_new(X)
        joint = self._joint_model
        if joint is not None:
            return joint.probabilities(X)
        return self._decomposition.combine(self._log_proba_pairs(X), self.n_classes_)

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second class, or log probabilities where there are more than two.

        Parameters
        ----------
        X : array-like of shape (m, d), or list of object

        Returns
        -------
        scores : ndarray of shape (m,), or (m, C) for C > 2
            Larger is more probable; `predict` takes the largest, or the sign.
        """
        if getattr(self, "n_classes_", 0) == 2:
            log_pairs = self._log_proba_pairs(self._validate_new(X))
            return np.asarray(log_pairs[:, 0, 1] - log_pairs[:, 0, 0])
        P = self.predict_proba(X)
        return np.asarray(np.log(np.maximum(P, np.finfo(np.float64).tiny)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (m, d), or list of object

        Returns
        -------
        labels : ndarray of shape (m,)
        """
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent function, for two classes (RW06 Algorithm 3.2).

        Parameters
        ----------
        X : array-like of shape (m, d), or list of object

        Returns
        -------
        latent_mean, latent_var : ndarray of shape (m,)

        Raises
        ------
        ValueError
            For more than two classes.
        """
        check_is_fitted(self, "models_")
        if self.n_classes_ > 2:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for "
                f"binary classification, received {self.n_classes_} classes."
            )
        X = self._validate_new(X)
        return self.models_[0].latent(X)

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and covariance of the latent functions of the classes.

        Parameters
        ----------
        X : array-like of shape (m, d), or list of object

        Returns
        -------
        mean : ndarray of shape (m, C)
        covariance : ndarray of shape (m, C, C)
            Of the classes at each row. For two classes, which have one latent f, those of
            ``(-f/2, f/2)``, whose difference is f; one against the rest has independent latents.

        Raises
        ------
        ValueError
            For one against one, which has a latent function a pair of classes.
        """
        X = self._validate_new(X)
        joint = self._joint_model
        if joint is not None:
            return joint.latent(X)
        self._check_class_latents()
        found = [model.latent(X) for model in self.models_]
        if self.n_classes_ == 2:
            mean, variance = found[0]
            half = np.array([-0.5, 0.5])
            return mean[:, None] * half, variance[:, None, None] * np.outer(half, half)
        means, variances = (np.stack(part, axis=1) for part in zip(*found, strict=True))
        return means, variances[:, :, None] * np.eye(self.n_classes_)

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw the latent functions of the classes at all rows of X together.

        Parameters
        ----------
        X : array-like of shape (m, d), or list of object
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            As in scikit-learn's ``sample_y``; None draws anew each time.

        Returns
        -------
        samples : ndarray of shape (m, C, n_samples)
            Of what `predict_latent` has the mean and covariance of.

        Raises
        ------
        ValueError
            As `predict_latent`, where the covariance of all rows would not fit in memory, and for
            a precomputed kernel, which has no covariances among new rows.
        """
        X = self._validate_new(X)
        if is_precomputed(self.kernel):
            raise ValueError(
                'with kernel="precomputed" the covariances of new rows with each other are not '
                "known, and draws at all of them together need these: take predict_latent"
            )
        check_sample_count(n_samples)
        rng = check_random_state(random_state)
        joint = self._joint_model
        if joint is not None:
            return joint.sample(X, int(n_samples), rng)
        self._check_class_latents()
        found = [model.sample(X, int(n_samples), rng) for model in self.models_]
        if self.n_classes_ == 2:
            return np.stack([-0.5 * found[0], 0.5 * found[0]], axis=1)
        return np.stack(found, axis=1)

    @property
    def _joint_model(self) -> JointModel | None:
        model = self.models_[0]
        return model if isinstance(model, JointModel) else None

    def _check_class_latents(self) -> None:
        if self.n_classes_ > 2 and isinstance(self._decomposition, OneVsOne):
            raise ValueError(
                "one against one has a latent function for each pair of classes, none for a "
                "class: take multi_class='joint', 'differences' or 'one_vs_rest'"
            )

    # ------------------------------------------------------------- evidence

    @property
    def kernel_(self) -> Kernel:
        """Kernel with the hyperparameters that were learnt."""
        check_is_fitted(self, "models_")
        kernels = [model.problem.kernel for model in self.models_]
        return kernels[0] if len(kernels) == 1 else CompoundKernel(kernels)

    @property
    def likelihood_(self) -> Likelihood | list[Likelihood]:
        """Likelihood with the hyperparameters that were learnt (a list for several problems)."""
        check_is_fitted(self, "models_")
        found = [model.problem.likelihood for model in self.models_]
        return found[0] if len(found) == 1 else found

    @property
    def approximation_(self) -> Approximation | list[Approximation] | Any:
        """Approximation of the problem (a list of them where there are several)."""
        check_is_fitted(self, "models_")
        found = [model.approximation() for model in self.models_]
        return found[0] if len(found) == 1 else found

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Evidence of hyperparameters, in nats: the mean over the binary problems.

        Parameters
        ----------
        theta : array-like of shape (p,) or (k * p,), default=None
            Logarithms of the hyperparameters: of all k binary problems, or of each in turn. The
            kernel's come first, then the likelihood's, which may be left out: they stay where
            they are. None: the value at those that were learnt.
        eval_gradient : bool, default=False
            Whether to return the gradient by theta too.
        clone_kernel : bool, default=True
            False also makes theta, and the sites found there, those of the fitted model.

        Returns
        -------
        log_evidence : float
        gradient : ndarray of the shape of theta
            Only where eval_gradient is True.

        Raises
        ------
        ValueError
            For a theta of the wrong length, and for a gradient without theta.
        """
        check_is_fitted(self, "models_")
        if theta is None:
            if eval_gradient:
                raise ValueError("eval_gradient=True needs theta")
            return self.log_marginal_likelihood_value_
        found = evidence_at(self.models_, theta, eval_gradient)
        if not clone_kernel:
            self.models_ = found.models
        return (found.log_evidence, found.gradient) if eval_gradient else found.log_evidence

    # ------------------------------------------------------ scikit-learn's

    def set_params(self, **params: Any) -> "GaussianProcessClassifier":
        """Set arguments by name, ``likelihood__epsilon`` and the like among them.

        A likelihood is frozen, so it is replaced by one that differs in the settings named.

        Raises
        ------
        ValueError
            For a name that does not exist.
        """
        prefix = "likelihood__"
        own = {name: value for name, value in params.items() if not name.startswith(prefix)}
        inner = {name[len(prefix) :]: params[name] for name in params.keys() - own.keys()}
        super().set_params(**own)
        if inner:
            likelihood = get_likelihood(self.likelihood)
            unknown = sorted(inner.keys() - likelihood.get_params().keys())
            if unknown:
                raise ValueError(
                    f"the likelihood {likelihood!r} has no settings {unknown}; it has "
                    f"{sorted(likelihood.get_params())}"
                )
            self.likelihood = replace(likelihood, **inner)  # type: ignore[type-var]
        return self

    def __getstate__(self) -> dict[str, Any]:
        """What is saved: the kernel that was given as plain data."""
        state: dict[str, Any] = dict(super().__getstate__())
        return state | {"kernel": to_recipe(self.kernel)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was saved."""
        super().__setstate__(state | {"kernel": from_recipe(state["kernel"])})

    def __sklearn_tags__(self) -> Any:
        """Say what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags
