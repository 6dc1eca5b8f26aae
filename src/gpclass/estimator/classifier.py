"""The estimator: scikit-learn's interface around the parts, and the only object that changes."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpclass.estimator.arguments import MAX_ITER, pick_parts, seed_of
from gpclass.estimator.calibration import temperature_of
from gpclass.estimator.division import divide
from gpclass.estimator.fitted_attributes import FittedAttributes
from gpclass.estimator.fitting import learn_models, starting_kernels, warn_of_fit
from gpclass.estimator.inducing import inducing_points
from gpclass.estimator.inputs import (
    CovarianceMatrix,
    is_precomputed,
    takes_vectors,
    with_any_table,
)
from gpclass.estimator.inputs.collections import is_collection
from gpclass.estimator.lazy import lazily, refuse_collection
from gpclass.estimator.model import check_sample_count
from gpclass.estimator.posterior_queries import PosteriorQueries
from gpclass.estimator.prediction import (
    class_latents,
    class_log_probabilities,
    class_probabilities,
    class_samples,
)
from gpclass.estimator.settings import PartSettings
from gpclass.estimator.training import training_table
from gpclass.learning import HyperPrior

Array = NDArray[np.float64]


@final
class GaussianProcessClassifier(ClassifierMixin, FittedAttributes, PosteriorQueries, PartSettings):  # type: ignore[misc]
    """Gaussian process classification, as scikit-learn's class of this name, and more.

    The latent function has a Gaussian process prior, and its posterior is approximated by a
    Gaussian. The kernel's hyperparameters maximise the evidence. Class probabilities are averages
    over the latent.

    Parameters
    ----------
    kernel : Kernel, list of Kernel, "precomputed" or None, default=None
        A kernel of `sklearn.gaussian_process.kernels`; a list has one for each of more than two
        classes. None: any columns, also with missing entries, become a matrix without units
        (`estimator.inputs.MixedTable`); on it `kernels.default_kernel`: a smooth function with a
        length-scale a column, a linear one and a constant, all learnt. "precomputed": X is the
        (n, n) covariance matrix; for new rows it is (m, n), with their prior variances as column n
        where the training diagonal is not constant.
    likelihood : {"probit", "logit", "threshold"} or Likelihood, default="probit"
        "threshold" is `NoisyThreshold`, whose share of wrong labels is learnt.
    inference : {"ep", "laplace", "pl", "vi", "bound", "mcmc"} or a method such as \
            ``EP(schedule="sequential")``, default="ep"
        EP's evidence and probabilities are the closest to the truth; Laplace's method takes about
        half the time. "mcmc" samples, for fixed hyperparameters (``optimizer=None``).
    learning : {"evidence", "loo", "ccd", "nuts", "em"} or Learner, default="evidence"
        How hyperparameters are found: by the evidence's gradient, by that of the leave-one-out log
        predictive, or by EM (KG06). "ccd" averages predictions over settings
        around the maximum of the evidence, "nuts" over draws (`pip install 'gpclass[nuts]'`);
        those at the maximum are reported.
    multi_class : {"joint", "differences", "one_vs_rest", "one_vs_one"}, default="joint"
        What more than two classes are. "joint": one model of all, the multinomial probit for
        ``inference="ep"``, the softmax for ``"laplace"``, and "differences" for any other
        inference. "differences": the latent differences of KG06, for every inference and
        likelihood, at the cost of n (C - 1) rows. Else several binary problems; pairs are
        coupled into probabilities by the method of Wu, Lin & Weng (2004).
    inducing : None, "auto", int or array-like of shape (m, d), default=None
        None: the exact prior, O(n^3) time and O(n^2) memory. Else m inducing points, in O(n m^2).
        With ``inference="vi"`` it is the variational form by blocks of rows, in O(m^2) memory a
        class, and "joint" the multinomial probit of all classes, or with ``likelihood="logit"`` the
        softmax. With another it is FITC, in O(n m) memory,
        for two classes and for "one_vs_rest" and "one_vs_one". "auto": as many as leave 1 % of the
        variance of the rows, at most 1024. A number: rows of X, each the one of which the others
        leave most variance under the starting kernel; with "vi" and columns of numbers, means of
        rows (k-means) where these leave less. They are chosen again with the kernel that was
        learnt, and learning goes on from there. An array: rows as X has them, with the same
        columns.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        With ``kernel=None``: the columns that have levels, as names, numbers or truth values. None:
        no column. "from_dtype": categories of pandas and polars, and text that is not of numbers.
    hyperprior : {"auto", "weak"}, HyperPrior or None, default="auto"
        Prior over the logarithms of the hyperparameters: learning then maximises the evidence times
        its density. "weak" is `weak_hyperprior`; "auto" is that for ``kernel=None`` and none for a
        kernel that is given. Evidences that are reported are without it. A learner object with a
        hyperprior of its own keeps it.
    calibration : {"auto", "loo"} or None, default="auto"
        "loo": class probabilities to the power 1 / T (divided by their sum), with the temperature
        T of `best_temperature`, by the leave-one-out log predictive. Classes that are predicted,
        latents and evidences do not depend on it. "auto" is "loo" for ``kernel=None``, but not for
        Monte Carlo, and None, no temperature, for a kernel that is given.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        As in scikit-learn; None keeps the kernel as it is.
    n_restarts_optimizer : int, default=0
        Further runs, started uniformly within the (logarithmic) bounds.
    max_iter_predict : int, default=100
        Iteration limit of an inference that is given by name; a method object has its own.
    warm_start : bool, default=False
        Start the next fit from the sites of this one, also where rows have been added after those
        of this one, and its learning from the hyperparameters of this one. It saves time; of
        several maxima of the evidence it may find another.
    copy_X_train : bool, default=True
        Whether to keep a copy of X, or X itself.
    random_state : int, RandomState instance or None, default=None
        Draws the starts of restarts, and what "nuts" and "mcmc" draw.
    n_jobs : int, default=None
        Processes for restarts or binary problems. The result does not depend on it.
    verbose : int, default=0
        1 shows on stderr how far learning is, and about how long it will go on.
    checkpoint : str or path, default=None
        A file in which learning notes the best hyperparameters so far; with ``warm_start`` a fit
        begins at those that are there. For one problem: two classes, or a joint model.

    Attributes
    ----------
    classes_, n_classes_ : ndarray of shape (C,), int
    n_features_in_, feature_names_in_ : int, ndarray of shape (d,)
        The names only where X has string column names.
    X_train_, y_train_ : ndarray of shape (n, d) or list of object, ndarray of shape (n,)
        Rows as the kernel takes them. Class indices; -1 for a row of weight zero whose class no
        other row has.
    kernel_ : Kernel
        With the hyperparameters that were learnt; a CompoundKernel of several binary problems, or
        of one kernel a class.
    likelihood_ : Likelihood or list of Likelihood
        With its hyperparameters (epsilon) as learnt; a list of several binary problems.
    approximation_ : Approximation or list of Approximation
        The posterior at the training rows: its ``log_evidence``, its ``outcome`` (how the inference
        ended), its sites and its ``posterior``. It is computed when it is first asked for.
    loo_proba_ : ndarray of shape (N, C)
        Class probabilities of each training row given all others, at the hyperparameters that were
        learnt from all: from the sites, without another fit. A row is left out with its whole
        weight; one of weight zero, which the fit left out, has its prediction. Computed when it is
        first asked for, at about the cost of one evidence with its gradient.
    temperature_ : float
        T, 1 without calibration and where none is surely better; below one it makes probabilities
        surer.
    loo_log_loss_ : float
        Mean of ``-log p(y_i | y_-i)`` by the weights of the fit, in nats.
    log_marginal_likelihood_value_ : float
        Evidence in nats; the mean over the binary problems where there are several.
    converged_ : bool
        Whether every final inference converged.
    n_iter_ : int
        Evaluations of the evidence in the longest run of the optimiser. Where nothing was learnt,
        iterations of the inference (the largest number of several).
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
    """

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        *,
        likelihood: Any = "probit",
        inference: Any = "ep",
        learning: Any = "evidence",
        multi_class: str = "joint",
        inducing: int | str | ArrayLike | None = None,
        hyperprior: HyperPrior | str | None = "auto",
        categorical_features: Any = "from_dtype",
        calibration: str | None = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_iter_predict: int = MAX_ITER,
        warm_start: bool = False,
        copy_X_train: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.learning = learning
        self.multi_class = multi_class
        self.inducing = inducing
        self.hyperprior = hyperprior
        self.categorical_features = categorical_features
        self.calibration = calibration
        self.class_weight = class_weight
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint

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
            At fixed hyperparameters the evidence of the two agrees to 1e-8. Where hyperparameters
            are learnt, the search stops a little off the maximum, so that the evidence agrees to
            1e-7 and the probabilities to about 1e-6.

        Returns
        -------
        self : GaussianProcessClassifier

        Raises
        ------
        ValueError, TypeError
            Naming the argument that is wrong. What an earlier fit learnt stays.
        NotPositiveDefiniteError
            A ValueError, where the kernel is not positive semi-definite on X.
        NotEnoughMemoryError
            A MemoryError, before the kernel is evaluated.

        Warns
        -----
        CostWarning
            Where the fit needs half of the free memory, or may take more than ten minutes.
        ConvergenceWarning
            Where an inference did not converge, or a hyperparameter of a kernel that was given
            ended on a bound.
        """
        parts = pick_parts(self)
        # Validation writes n_features_in_ and feature_names_in_ on the estimator that it is given.
        # It gets another one, so that a fit that fails leaves this one as it was.
        seen = type(self)(
            self.kernel,
            copy_X_train=self.copy_X_train,
            categorical_features=self.categorical_features,
        )
        inputs, X, y, rows, source = training_table(self, parts, seen, X, y, sample_weight)
        names = getattr(seen, "feature_names_in_", None)
        shared = getattr(inputs, "shared", None)
        kernels = starting_kernels(
            self.kernel, X if rows.used is None else X[rows.used], names, shared
        )
        seed = seed_of(self.random_state) if self.inducing is not None else 0
        n_rows = len(rows.codes) if source is None else source.n_rows
        points = inducing_points(self.inducing, inputs, seen, n_rows, seed)
        division = divide(parts, kernels, X, rows, inducing=points is not None).over(source)
        models, report = learn_models(self, division, parts.learner, points)
        warn_of_fit(division.names, models, bounds=self.kernel is not None and bool(report.runs))

        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
            if hasattr(seen, name):
                setattr(self, name, getattr(seen, name))
        self.classes_, self.n_classes_ = rows.classes, len(rows.classes)
        codes = np.searchsorted(rows.classes, y)
        self.X_train_, self.y_train_ = X, np.where(np.isin(y, rows.classes), codes, -1)
        self.models_ = models
        self.log_marginal_likelihood_value_ = np.float64(np.mean([m.log_evidence for m in models]))
        self.converged_ = all(m.outcome.converged for m in models)
        evaluations = [reported.run.n_evaluations for reported in report.runs]
        self.n_iter_ = max(1, *(evaluations or [m.n_iter for m in models]))
        self.optimizer_report_ = report
        self._inputs, self._decomposition = inputs, parts.decomposition
        self.temperature_ = temperature_of(self)
        return self

    def _at(self, X: Any) -> tuple[Any, Any, int, Any]:
        """What was learnt, and new rows as the kernels take them."""
        check_is_fitted(self, "models_")
        refuse_collection(X)
        X = self._inputs.transform(self, X)
        return self.models_, self._decomposition, self.n_classes_, X

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities of m rows, averaged over the latent.

        Returns
        -------
        P : ndarray of shape (m, C)
            Columns in the order of ``classes_``; rows sum to one.
        """
        if is_collection(X):
            return lazily(self, "predict_proba", X)  # type: ignore[no-any-return]
        return class_probabilities(*self._at(X), self.temperature_)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities, (m, C).

        They are finite. For two classes, and for one against the rest, probabilities that are too
        small for float64 keep theirs; those of a joint model end at -708 / T.
        """
        return class_log_probabilities(*self._at(X), self.temperature_)

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second class, (m,), or log probabilities of more than two, (m, C)."""
        log_p = class_log_probabilities(*self._at(X), self.temperature_)
        return np.asarray(log_p[:, 1] - log_p[:, 0]) if self.n_classes_ == 2 else log_p

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row, shape (m,)."""
        if is_collection(X):
            return lazily(self, "predict", X)  # type: ignore[no-any-return]
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent function of two classes, each (m,) (RW06 Algorithm 3.2).

        Raises ValueError for more than two classes.
        """
        check_is_fitted(self, "models_")
        if self.n_classes_ > 2:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for "
                f"binary classification, received {self.n_classes_} classes."
            )
        models, _, _, X = self._at(X)
        return models[0].latent(X)  # type: ignore[no-any-return]

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and covariance of the latent functions of the classes at m rows.

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
        return class_latents(*self._at(X))

    def sample_latent(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> Array:
        """Draw the latent functions of the classes at all rows of X together.

        Parameters
        ----------
        X, n_samples, random_state
            As in scikit-learn's ``sample_y``; None draws anew each time.

        Returns
        -------
        samples : ndarray of shape (m, C, n_samples)

        Raises
        ------
        ValueError
            As `predict_latent`, where the covariance of all rows would not fit in memory, and for
            a precomputed kernel, which has no covariances among new rows.
        """
        learnt = self._at(X)
        if isinstance(self._inputs, CovarianceMatrix):
            raise ValueError(
                'with kernel="precomputed" the covariances of new rows with each other are not '
                "known, and draws at all of them together need these: take predict_latent"
            )
        check_sample_count(n_samples)
        return class_samples(*learnt, int(n_samples), check_random_state(random_state))

    def __sklearn_tags__(self) -> Any:
        """Say what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.sparse = takes_vectors(self.kernel)
        return with_any_table(tags) if self.kernel is None else tags
