"""What the commands do; the heavy imports are inside them, so that ``gpclass --help`` is quick."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from gpclass._version import __version__
from gpclass.app.explorer.serve import explore
from gpclass.app.fitting import fit
from gpclass.app.options import (
    DATA_SETS,
    Data,
    Encoding,
    Ids,
    Inference,
    Jobs,
    Json,
    Likelihood,
    MultiClass,
    Restarts,
    Seed,
    Sep,
    Target,
    given,
    print_json,
    reading,
)
from gpclass.app.reproduce import reproduce
from gpclass.app.scores import COLUMNS, comparison_rows

if TYPE_CHECKING:
    from pandas import DataFrame

    from gpclass import GaussianProcessClassifier
    from gpclass.app.evaluation import Comparison
    from gpclass.metrics import Floats


@final
class _Commands(TyperGroup):
    """The commands, which say what is left when they are interrupted."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an interruption ends with exit status 130."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            # the last note is of the outermost work
            said = getattr(error, "__notes__", ["interrupted"])[-1]
            print(f"gpclass: {said}; nothing was written.", file=sys.stderr)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    help="Gaussian process classification with honest class probabilities.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command()(reproduce)
app.command(epilog=DATA_SETS)(explore)
app.command(epilog=DATA_SETS)(fit)


def _print_version(show: bool) -> None:
    if show:
        print(f"gpclass {__version__}")
        raise typer.Exit()


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


@app.command(epilog=DATA_SETS)
def evaluate(
    data: Data,
    target: Target = None,
    ids: Ids = None,
    sep: Sep = None,
    encoding: Encoding = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 10,
    picture: Annotated[
        Path | None, typer.Option(help="Save reliability and error-reject curves here.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a page (.html) on the comparison, and a fit to all rows, here."),
    ] = None,
    as_json: Json = False,
    seed: Seed = 0,
    likelihood: Likelihood = None,
    inference: Inference = None,
    multi_class: MultiClass = None,
    restarts: Restarts = None,
    n_jobs: Jobs = None,
) -> None:
    """Cross-validate, and compare with scikit-learn's GP classifier and logistic regression."""
    from gpclass.app.datasets import load_dataset
    from gpclass.app.evaluation import check_classes, compare, default_models
    from gpclass.app.tables import whole_file

    options = given(likelihood, inference, multi_class, restarts, n_jobs)
    if picture is not None:
        _check_picture(picture, Path(data))
    if report is not None:
        from gpclass.app.page import check_page, write_page

        check_page(report, Path(data))
    dataset = load_dataset(data, target, reading(sep, encoding, ids))
    check_classes(dataset.y, name=dataset.target, fewest=folds)
    models = default_models(seed, gp_parameters=options | {"verbose": 1})
    with _counted_fits() as progress:
        comparison = compare(
            models, dataset.X, dataset.y, n_splits=folds, random_state=seed, progress=progress
        )
    n, d = dataset.X.shape
    title = f"{dataset.name}: {n} rows, {d} features, {folds}-fold cross-validation"
    if picture is not None:
        from gpclass.app.picture import probability_figure

        figure = probability_figure(
            dataset.y, comparison.probabilities, labels=comparison.classes, title=title
        )
        with whole_file(picture) as part:
            figure.savefig(part, dpi=150)
    if report is not None:
        from gpclass.app.report import report_page

        model = models["gpclass"].fit(dataset.X, dataset.y)
        write_page(report, report_page(model, dataset.X, title=dataset.name, comparison=comparison))
    if as_json:
        about = {"data": dataset.name, "source": dataset.source, "sha256": dataset.sha256}
        about |= {"target": dataset.target, "features": d}
        shown = {
            name: None if path is None else str(path)
            for name, path in (("picture", picture), ("report", report))
        }
        print_json(about | comparison.to_dict() | shown)
        return
    _print_table(title, comparison)
    if picture is not None:
        print(f"picture: {picture}")
    if report is not None:
        print(f"report: {report}")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL.skops", help="From gpclass fit.")],
    data: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV, TSV or Parquet file.")],
    out: Annotated[Path, typer.Option(help="The file to write: CSV, TSV or Parquet.")],
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COLUMN", help="A column to copy; may be repeated."),
    ] = None,
    loss: Annotated[
        Path | None,
        typer.Option(
            help="Losses, a CSV file: a row for each class that a case is of, a column for each "
            "that is decided for, and one called reject if cases may be rejected."
        ),
    ] = None,
    reject_cost: Annotated[
        float | None, typer.Option(help="The loss of rejecting a case, whatever its class.")
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Write class probabilities, and decisions by a loss, for the rows of a table."""
    from gpclass.app.losses import REJECTED, decisions, read_loss
    from gpclass.app.model_file import load_model
    from gpclass.app.tables import check_output, check_suffix, read_table, write_table

    check_suffix(out)
    check_output(out, model, data, *([loss] if loss else []))
    classifier = load_model(model)
    classes = classifier.classes_
    losses = None if loss is None else read_loss(loss, classes)
    frame = read_table(data, reading(sep, encoding, ids)).frame
    proba = _probabilities(classifier, frame, data)
    predicted = classes[proba.argmax(axis=1)]
    columns = {f"probability_{c}": p for c, p in zip(classes, proba.T, strict=True)}
    columns["predicted"] = predicted
    names, chosen = [*map(str, classes)], predicted.astype(str)
    if losses is not None or reject_cost is not None:
        chosen = columns["decision"] = decisions(proba, classes, losses, reject_cost)
        names = list(dict.fromkeys([*names, REJECTED]))
    taken = [name for name in ids or [] if name in columns]
    if taken:
        raise ValueError(f"the id {taken[0]!r} has the name of a column of the predictions.")
    table = frame[list(ids or [])].assign(**columns)
    write_table(table, out)
    counts = {name: int((chosen == name).sum()) for name in names}
    if as_json:
        print_json(
            {
                "predictions": str(out),
                "model": str(model),
                "rows": len(table),
                "columns": list(table.columns),
                "predicted_counts": counts,
            }
        )
        return
    print(f"{len(table)} rows: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    print(f"predictions: {out}")


@app.command()
def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL.skops", help="From gpclass fit.")],
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Rows with classes that the model was not fitted to, for scores."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    target: Target = None,
    sep: Sep = None,
    encoding: Encoding = None,
) -> None:
    """Write a page on what a saved model learnt, and how good it is."""
    from gpclass.app.model_file import read_model_file
    from gpclass.app.page import check_page, write_page
    from gpclass.app.report import read_labelled, report_page, training_table

    check_page(out, model, *([data] if data else []))
    classifier, trained = read_model_file(model)
    unseen = None
    if data is not None:
        unseen = read_labelled(data, target or trained, reading(sep, encoding), classifier)
        _probabilities(classifier, unseen.X, data)
    X = training_table(classifier)
    write_page(out, report_page(classifier, X, title=f"{model.stem}: {trained}", unseen=unseen))
    print(f"report: {out} ({out.stat().st_size / 1000:.0f} kB)")


def _probabilities(
    classifier: "GaussianProcessClassifier", frame: "DataFrame", data: Path
) -> "Floats":
    """Class probabilities of the rows of a file; a ValueError names it."""
    from gpclass.estimator.inputs import listed

    missing = [name for name in classifier.feature_names_in_ if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{data.name} lacks columns that the model was fitted to: {listed(missing)}."
        )
    try:
        return classifier.predict_proba(frame)
    except ValueError as error:
        raise ValueError(f"{data.name}: {error}") from error


def _check_picture(picture: Path, data: Path) -> None:
    """Refuse a picture that cannot be written, before the work begins."""
    from gpclass.app.tables import check_output
    from gpclass.displays.drawing import require_matplotlib

    figure = require_matplotlib("matplotlib.figure").Figure()
    formats = sorted(figure.canvas.get_supported_filetypes())
    if picture.suffix.lstrip(".").lower() not in formats:
        raise ValueError(f"the picture {picture} must end in one of .{', .'.join(formats)}.")
    check_output(picture, data)


@contextmanager
def _counted_fits() -> Iterator[Callable[[str, int, int], None]]:
    """A line on stderr on the fits of a comparison."""
    from gpclass.estimator.progress import LiveLine, duration, left

    name, done, total, start = "", 0, 0, time.perf_counter()

    def text() -> str:
        seconds = time.perf_counter() - start
        used = f"{duration(seconds)}{left(seconds, done, total)}"
        return f"cross-validation: {done} of {total} fits ({used}) {name}".rstrip()

    def show(*state: Any) -> None:
        nonlocal name, done, total
        name, done, total = state

    with LiveLine(text):
        try:
            yield show
        except KeyboardInterrupt as error:
            error.add_note(f"interrupted after {done} of {total} fits")
            raise


def _print_table(title: str, comparison: "Comparison") -> None:
    """Print mean and standard error over the folds, the best mean of a score in bold."""
    table = Table(
        title=title,
        caption="mean ± standard error over the folds; best mean in bold",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("model")
    for column in COLUMNS:
        table.add_column(column.heading, justify="right")
    for name, cells in comparison_rows(comparison):
        table.add_row(
            name, *(f"[bold]{one.text}[/bold]" if one.best else one.text for one in cells)
        )
    # A pipe has no width of its own, and the table should not be folded in a log file.
    console = Console()
    (console if console.is_terminal else Console(width=132)).print(table)
    errors = Console(stderr=True, highlight=False)
    for name, scores in comparison.models.items():
        for message, count in scores.warnings.items():
            text = f"{name}, {count} of {comparison.n_splits} folds: {message}"
            errors.print(text, soft_wrap=True, markup=False)
