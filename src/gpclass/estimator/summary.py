"""What a fitted classifier has learnt, in a few lines of text."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from scipy.special import entr
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

from gpclass.estimator.inputs import listed
from gpclass.estimator.leave_one_out import training_rows
from gpclass.estimator.prediction import class_probabilities
from gpclass.kernels import ColumnScale, column_scales
from gpclass.learning import BinaryProblem, InducingProblem
from gpclass.priors import Inducing

# Columns with a line of their own, training rows that are predicted (to be quick), and the
# probability from which a prediction is called sure.
MOST_COLUMNS: Final = 20
MOST_ROWS: Final = 1000
SURE: Final = 0.9
# Length-scales, in standard deviations of the column, up to which a function is so called.
EFFECTS: Final = ((1.0, "bends in its range"), (5.0, "gently curved"), (np.inf, "nearly linear"))


def summary_of(model: BaseEstimator) -> str:
    """Text of evidence, kernels, columns and sureness; see `FittedAttributes.summary`."""
    kernels = [(one.problem, kernel) for one in model.models_ for kernel in one.problem.kernels]
    lines = [_table(model), _inference(model), _evidence(model)]
    for k, (problem, kernel) in enumerate(kernels):
        lines.append(f"kernel{f' {k + 1}' if len(kernels) > 1 else ''}: {kernel}")
        lines += _columns(model, kernel, problem.inputs)
    return "\n".join([*lines, _sureness(model)])


def _table(model: BaseEstimator) -> str:
    counts = np.bincount(model.y_train_[model.y_train_ >= 0], minlength=model.n_classes_)
    classes = listed(f"{label} ({n})" for label, n in zip(model.classes_, counts, strict=True))
    columns = f" of {model.n_features_in_} columns" if hasattr(model, "n_features_in_") else ""
    n, kept = model.models_[0].problem.n_rows, len(model.y_train_)
    sample = f" (of which {kept} are kept)" if _is_sample(model) and n > kept else ""
    return f"{n if sample else kept} rows{sample}{columns}: {classes}"


def _is_sample(model: BaseEstimator) -> bool:
    """Whether the training rows in memory are a sample of a collection."""
    return getattr(model.models_[0].problem, "source", None) is not None


def _inference(model: BaseEstimator) -> str:
    method = type(model.models_[0].problem.inference).__name__
    ends = listed(sorted({one.outcome.name for one in model.models_}))
    report = model.optimizer_report_
    learnt = f"learnt in {report.n_evaluations} evaluations" if report.runs else "not learnt"
    return f"inference: {method}, {ends}; hyperparameters {learnt}{_prior(model)}"


def _prior(model: BaseEstimator) -> str:
    """How many inducing points there are, where there are any, and what they leave."""
    problems = [one.problem for one in model.models_]
    fitc = [one.prior_form for one in problems if isinstance(one, BinaryProblem)]
    held: list[Any] = [one for one in fitc if isinstance(one, Inducing)]
    by_blocks = [one for one in problems if isinstance(one, InducingProblem)]
    counts = sorted({len(one.Z) for one in (*held, *by_blocks)})
    if not counts:
        return ""
    few, many = counts[0], counts[-1]
    text = f"{few if few == many else f'{few} to {many}'} inducing points"
    if not by_blocks:
        return f"\nprior: FITC, {text}"
    left = max(one.trace_left(MOST_ROWS) for one in by_blocks)
    return f"\nprior: {text}, which leave {left:.2g} of the latent's variance"


def _evidence(model: BaseEstimator) -> str:
    evidence, codes = model.log_marginal_likelihood_value_, model.y_train_
    text = f"log evidence: {evidence:.2f} nats"
    if len(model.models_) > 1:
        return f"{text}, the mean over {len(model.models_)} binary problems"
    if model.multi_class == "differences" or model.models_[0].problem.weights is not None:
        return text
    share = np.bincount(codes) / len(codes)
    alone = float(-entr(share).sum())
    n = model.models_[0].problem.n_rows
    return f"{text}, {evidence / n:.3f} a row (class frequencies alone: {alone:.3f})"


def _columns(model: BaseEstimator, kernel: Kernel, X: Any) -> Iterator[str]:
    """A line for each column that matters to a kernel, and one for the others."""
    scales = scales_of(kernel, X)
    if not scales:
        return
    names = names_of_columns(model, X)
    yield "length-scales in deviations of the column (a short one bends, and need not matter most):"
    matter = sorted((one for one in scales if one.matters), key=lambda one: one.relative)
    width = max((len(names[one.column]) for one in matter), default=0)
    for one in matter[:MOST_COLUMNS]:
        yield f"  {names[one.column]:<{width}}  {one.relative:>7.3g}  {_effect(one)}"
    for words, rest in (
        ("matter less", matter[MOST_COLUMNS:]),
        ("do not matter", [one for one in scales if not one.matters]),
    ):
        if rest:
            yield f"  {words}: {listed(names[one.column] for one in rest)}"


def scales_of(kernel: Any, X: Any) -> list[ColumnScale]:
    """Length-scales of single columns; none of a kernel that is no function of vectors."""
    return column_scales(kernel, X) if kernel.requires_vector_input else []


def names_of_columns(model: Any, X: Any) -> list[str]:
    """Names of the columns as the kernels take them."""
    if hasattr(model._inputs, "column_names"):
        return list(model._inputs.column_names(levels=False))
    return list(getattr(model, "feature_names_in_", [f"column {j}" for j in range(X.shape[1])]))


def _effect(one: ColumnScale) -> str:
    if one.discrete:
        factor = np.exp(-0.5 / one.length_scale**2)
        return f"another level multiplies the covariance by {factor:.2g}"
    return next(words for reach, words in EFFECTS if one.relative <= reach)


def _sureness(model: BaseEstimator) -> str:
    """How many training rows have a probability above 0.9, and how many are right."""
    rows = np.unique(np.linspace(0, len(model.y_train_) - 1, MOST_ROWS).astype(np.intp))
    new = training_rows(model, rows)
    parts = model.models_, model._decomposition, model.n_classes_
    P = class_probabilities(*parts, new, model.temperature_)
    sure, right = np.mean(P.max(axis=1) > SURE), np.mean(P.argmax(axis=1) == model.y_train_[rows])
    power = f" (temperature {model.temperature_:.2g})" if model.temperature_ != 1.0 else ""
    return (
        f"on {len(rows)} training rows: a probability above {SURE} in {sure:.0%}, the most "
        f"probable class right in {right:.0%}{power}"
    )
