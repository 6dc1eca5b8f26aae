"""The page of `gpclass report` and `gpclass evaluate --report`: what was learnt, and how well.

Every sentence and picture is computed from the fitted model.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpclass.app import page
from gpclass.app.findings import (
    LITTLE_INFLUENCE,
    ColumnFinding,
    column_sentences,
    of_columns,
    outlier_sentence,
)
from gpclass.app.page import Picture
from gpclass.app.picture import error_reject_figure, new_figure, reliability_figure
from gpclass.app.scores import COLUMNS, Cell, comparison_rows
from gpclass.app.tables import Reading, class_labels, read_table, require_pandas
from gpclass.displays import (
    DecisionSurfaceDisplay,
    EffectDisplay,
    EvidenceSurfaceDisplay,
    OutlierDisplay,
    RelevanceDisplay,
)
from gpclass.displays.tables import Table
from gpclass.estimator.inputs import MixedTable, listed
from gpclass.estimator.summary import scales_of

if TYPE_CHECKING:
    from gpclass.app.evaluation import Comparison

# Of how many columns effects are computed, and how many are drawn.
MOST_EFFECTS: Final = 30
MOST_DRAWN: Final = 4
# Evidence surfaces of more rows take minutes.
MOST_ROWS_OF_SURFACE: Final = 1200
# Multiplications that all effects, and an evidence surface, may take: some seconds each.
EFFECT_WORK: Final = 2e10
SURFACE_WORK: Final = 8e10


class Labelled(NamedTuple):
    """A table with its classes that the model was not fitted to, and what it is called."""

    name: str
    X: Any
    y: NDArray[Any]


def training_table(model: Any) -> Any:
    """Rows of the training table as a DataFrame, from the model; ValueError for other kernels."""
    if not isinstance(model._inputs, MixedTable):
        raise ValueError("a report needs a model with the default kernel, as `gpclass fit` has.")
    return require_pandas().DataFrame(model._inputs.original(model.X_train_))


def read_labelled(path: Path, target: str, reading: Reading, model: Any) -> Labelled:
    """Read rows with classes from a file; ValueError for classes that the model lacks."""
    table = read_table(path, reading)
    table.check_columns(path, target)
    frame = table.frame.dropna(subset=[target])
    y = class_labels(frame[target])
    strange = listed(sorted(set(map(str, y)) - set(map(str, model.classes_))))
    if strange or not len(y):
        what = f"classes in {target!r} that the model lacks: {strange}" if strange else "no class"
        raise ValueError(f"{path.name} has {what}.")
    return Labelled(path.name, frame.drop(columns=target), y.astype(model.classes_.dtype))


def report_page(
    model: Any,
    X: Any,
    *,
    title: str,
    comparison: "Comparison | None" = None,
    unseen: Labelled | None = None,
) -> str:
    """Return the page of a fitted classifier.

    Parameters
    ----------
    model : GaussianProcessClassifier
        Fitted.
    X : table of n rows
        The training table: ranges of the columns, and rows over which effects are averaged.
    title : str
    comparison : Comparison, default=None
        Cross-validated scores of models, for the table. None: leave-one-out scores of the model.
    unseen : Labelled, default=None
        Rows that were not used to fit, for scores and the reliability diagram.
    """
    table = Table.of(model, X)
    y = model.classes_[model.y_train_]
    loo = model.loo_proba_
    outliers = OutlierDisplay.of_training(model)
    found, constant, left_out = _effects(model, X, table)
    sentences = [*column_sentences(found, constant)] if found else [_why_no_effects(model)]
    if left_out:
        sentences.append(
            f"Of {len(table.names)} columns, the effects of {len(found)} were computed, those with "
            "the shortest length-scales."
        )
    sentences.append(outlier_sentence(outliers, loo[outliers.rows]))
    sections = [
        page.section("What the model learnt", page.findings(sentences)),
        page.section("How good it is", *_scores(model, y, loo, comparison, unseen)),
    ]
    if found:
        drawn = _column_pictures(model, X, y, table, found)
        sections.append(page.section("What its columns do", page.pictures(drawn)))
    others = [*_model_pictures(model, outliers)]
    sections.append(page.section("Inside the model", page.pictures(others), *_no_surface(model)))
    sections.append(page.section("Summary of the model", page.preformatted(model.summary())))
    classes = listed(f"{c} ({n})" for c, n in zip(*np.unique(y, return_counts=True), strict=True))
    subtitle = f"{len(y)} rows, {len(table.names)} columns, classes {classes}"
    return page.whole_page(title, subtitle, sections)


def _effects(model: Any, X: Any, table: Table) -> tuple[list[ColumnFinding], list[str], bool]:
    """Effects of the columns that have two values; the others' names; whether some are left out."""
    if len(model.classes_) > 2 and model.multi_class == "one_vs_one":
        return [], [], False
    constant = [j for j in range(len(table.names)) if _is_constant(table, j)]
    varied = [j for j in range(len(table.names)) if j not in constant]
    chosen = varied[:MOST_EFFECTS]
    if len(varied) > MOST_EFFECTS:
        encoded = [str(name) for name in RelevanceDisplay.compute(model).names]
        # of a category, the level with the shortest length-scale
        place = {j: _place(table.names[j], encoded) for j in varied}
        chosen = sorted(varied, key=lambda j: place[j])[:MOST_EFFECTS]
    n, n_classes = len(model.y_train_), len(model.classes_)
    one_row = 31 * len(chosen) * float(n) ** 2 * n_classes**2 / 4
    rows = int(np.clip(EFFECT_WORK / max(one_row, 1.0), 10, 100))
    # of many classes any one can be computed: all of them are in the effect
    label = model.classes_[-1] if n_classes > 7 else None
    effects = [
        EffectDisplay.compute(model, X, j, max_rows=rows, class_of_interest=label) for j in chosen
    ]
    return of_columns(effects), [table.names[j] for j in constant], len(varied) > len(chosen)


def _is_constant(table: Table, j: int) -> bool:
    values = table.texts(j) if table.has_levels(j) else table.entries(j)
    known = values if values.dtype == object else values[np.isfinite(values)]
    return len(np.unique(known)) < 2


def _place(name: str, encoded: Sequence[str]) -> int:
    own = (k for k, one in enumerate(encoded) if one == name or one.startswith(f"{name}_"))
    return next(own, len(encoded))


def _why_no_effects(model: Any) -> str:
    if model.multi_class == "one_vs_one":
        return (
            "One against one has no latent function of a class, so the effects of the columns and "
            "their intervals are not computed."
        )
    return "No column has two values, so there is nothing to learn from."


def _scores(
    model: Any, y: Any, loo: Any, comparison: "Comparison | None", unseen: Labelled | None
) -> Iterator[str]:
    """The table of models, and how their probabilities come true."""
    if comparison is not None:
        yield page.table(
            f"Scores of {comparison.n_splits}-fold cross-validation: mean ± standard error over "
            "the folds, the best mean of a score in bold",
            ["model", *(column.heading for column in COLUMNS)],
            comparison_rows(comparison),
        )
        y, probabilities = comparison.y, comparison.probabilities
        what = "by the fit that did not see the row"
    else:
        yield page.table(
            "Scores of the model on its training rows, each left out of them, beside the "
            "frequencies of the classes" + (", and on rows that it has not seen" * bool(unseen)),
            ["predicted by", *(column.heading for column in COLUMNS[:4])],
            _own_rows(model, y, loo, unseen),
        )
        probabilities, what = {"leave-one-out": loo}, "given all other training rows"
        if unseen is not None:
            y, probabilities = unseen.y, {unseen.name: model.predict_proba(unseen.X)}
            what = f"on {unseen.name}"
    figure, event = reliability_figure(y, probabilities, labels=model.classes_)
    reject = error_reject_figure(y, probabilities, labels=model.classes_)
    names = " and ".join(probabilities)
    drawn = [
        Picture(
            "Do probabilities come true?",
            figure,
            f"Reliability diagram of {names}: the observed frequency of {event} against its "
            "predicted probability, with 95 % intervals, and below it the number of rows.",
            f"Predictions {what}, in ten bins. On the diagonal, {event} is as frequent as was "
            "predicted; the bars are 95 % intervals.",
        ),
        Picture(
            "What if the unsure rows are left to an expert?",
            reject,
            f"Error-reject curves of {names}: the error rate of the rows that are kept, in per "
            "cent, against the share of the least certain rows that is rejected.",
            "The error rate of the rows that are kept, as the least certain ones are rejected.",
        ),
    ]
    yield page.pictures(drawn)


def _own_rows(
    model: Any, y: Any, loo: Any, unseen: Labelled | None
) -> Iterator[tuple[str, list[Cell]]]:
    from gpclass.app.evaluation import fold_scores

    classes = model.classes_
    frequencies = np.tile((y[:, None] == classes).mean(axis=0), (len(y), 1))
    rows = {"the model, leave-one-out": (y, loo), "class frequencies": (y, frequencies)}
    if unseen is not None:
        name = f"the model, on {unseen.name} ({len(unseen.y)} rows)"
        rows[name] = (unseen.y, model.predict_proba(unseen.X))
    for name, (observed, proba) in rows.items():
        values = fold_scores(y, observed, proba, classes)
        yield (
            name,
            [
                Cell(f"{column.factor * value:.{column.decimals}f}")
                for column, value in zip(COLUMNS, values, strict=False)
            ],
        )


def _column_pictures(
    model: Any, X: Any, y: Any, table: Table, found: list[ColumnFinding]
) -> Iterator[Picture]:
    """Effects of the columns that matter most, and the surface of the first two of numbers."""
    drawn = [one for one in found[:MOST_DRAWN] if one.influence >= LITTLE_INFLUENCE] or found[:1]
    label = None
    if len(model.classes_) > 7:
        label = model.classes_[found[0].code]
    for one in drawn:
        figure, ax = new_figure()
        one.effect.plot(ax)
        said = one.direction()
        yield Picture(
            f"Effect of {one.name}",
            figure,
            f"Effect of {one.name}: {said}.",
            f"{said[0].upper()}{said[1:]}, averaged over the rows. The band is the "
            f"{one.effect.confidence:.0%} interval of a row's probability, averaged too.",
        )
    numbers = [one.name for one in found if not table.has_levels(table.position(one.name))]
    if len(numbers) >= 2:
        figure, ax = new_figure(height=4.2)
        surface = DecisionSurfaceDisplay.compute(
            model, X, (numbers[0], numbers[1]), y=y, class_of_interest=label, n_points=31
        )
        surface.plot(ax)
        what = "the most probable class" if surface.shown is None else (
            f"the probability of {surface.classes[surface.shown]!s}"
        )  # fmt: skip
        yield Picture(
            f"{numbers[0]} and {numbers[1]} together",
            figure,
            f"Map of {what} over {numbers[0]} and {numbers[1]}, with the rows of the table, and "
            "dashed lines of the latent's standard deviation.",
            f"{what[0].upper()}{what[1:]} where the other columns are at their medians or most "
            "frequent levels. Dashed lines: the standard deviation (sd) of the latent function, "
            "which is large where the model does not know.",
        )


def _model_pictures(model: Any, outliers: OutlierDisplay) -> Iterator[Picture]:
    """Outliers, relevances and the evidence."""
    figure, ax = new_figure()
    outliers.plot(ax)
    yield Picture(
        "Rows that surprise the model",
        figure,
        f"Probability of each training row's own class given all other rows; "
        f"{len(outliers.outliers)} rows are below {outliers.threshold:g}: "
        f"{listed(outliers.outliers) or 'none'}.",
        "A row far down may have a wrong label, be a rare case, or show where the model is wrong. "
        "Numbers are rows of the table, from 0.",
    )
    relevance = RelevanceDisplay.compute(model)
    figure, ax = new_figure(height=max(2.4, 1.2 + 0.2 * min(len(relevance.names), 20)))
    relevance.plot(ax)
    first = listed(relevance.names[:3])
    yield Picture(
        "Where the smooth part bends",
        figure,
        f"Inverse length-scales of the columns; the largest are those of {first}.",
        "One over the length-scale of each column as the kernel takes it. The kernel's linear part "
        "is not in it; the effects above have both.",
    )
    n_points = _surface_points(model)
    if n_points:
        surface = EvidenceSurfaceDisplay.compute(
            model, _surface_parameters(model), n_points=n_points
        )
        figure, ax = new_figure(height=4.0)
        surface.plot(ax)
        yield Picture(
            "How sure the hyperparameters are",
            figure,
            f"Log evidence over {surface.labels[0]} and {surface.labels[1]}, with the path of the "
            "optimiser to what was learnt.",
            "Log evidence over two hyperparameters, the others as they were learnt; a wide dark "
            "area means that many values fit. Learning maximises the evidence times a weak prior, "
            "so it may end beside the darkest place.",
        )


def _surface_points(model: Any) -> int:
    """Values of each hyperparameter in the surface, 0 for none."""
    n, problem = len(model.y_train_), model.models_[0].problem
    collection = getattr(problem, "source", None) is not None
    if n > MOST_ROWS_OF_SURFACE or len(problem.theta) < 2 or collection:
        return 0
    return int(np.clip((SURFACE_WORK / (float(n) ** 3 * len(model.classes_))) ** 0.5, 7, 15))


def _no_surface(model: Any) -> list[str]:
    n = len(model.y_train_)
    if n <= MOST_ROWS_OF_SURFACE:
        return []
    return [page.paragraph(f"The evidence surface is left out: with {n} rows it takes minutes.")]


def _surface_parameters(model: Any) -> tuple[int, int] | None:
    """The first hyperparameter, a variance, and the shortest length-scale."""
    problem = model.models_[0].problem
    names = problem.hyperparameters.names
    scales = [one for one in scales_of(problem.kernels[0], problem.inputs) if one.matters]
    if len(problem.kernels) > 1 or not scales:
        return None
    shortest = names.index(min(scales, key=lambda one: one.relative).parameter)
    return (shortest, 0) if shortest else None
