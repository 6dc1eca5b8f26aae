"""Runs the pieces of experiments, keeps what is finished, and goes on from there."""

import inspect
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import joblib

from gpclass.estimator.progress import LiveLine, duration, left
from gpclass.experiments.form import Experiment, Piece, Size

# name -> a table
Load = Callable[[str], Any]


@final
@dataclass
class Run:
    """One experiment as far as it was run.

    Attributes
    ----------
    pieces : dict
        Of each piece that was run its result, CPU seconds and warnings with their counts.
    left_out : dict
        The reason of each piece that was not run: data that are missing, or an error.
    failed : bool
        Whether a piece ended with an error.
    """

    experiment: Experiment
    size: Size
    arguments: dict[str, dict[str, Any]]
    pieces: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: bool = False

    @property
    def results(self) -> dict[str, Any]:
        """Results by the names of the pieces, in their order."""
        done = (name for name in self.arguments if name in self.pieces)
        return {name: self.pieces[name]["result"] for name in done}


def run(
    wanted: Sequence[Experiment],
    size: Size,
    load: Load,
    cache: Path,
    finish: Callable[[Run], None],
    n_jobs: int = 1,
) -> list[Run]:
    """Run experiments; those of which every piece is finished are handed over at once.

    Parameters
    ----------
    wanted : sequence of Experiment
    size : {"quick", "full"}
    load : callable
        Of the name of a table. Its OSError or ImportError says how to get it, and leaves out the
        pieces that need it.
    cache : Path
        Folder of the finished pieces; after an interruption the same call goes on from there.
    finish : callable
        Takes the run of an experiment that is finished.
    n_jobs : int, default=1
        Processes.

    Raises
    ------
    KeyboardInterrupt
        With a note that says how much is finished.
    """
    runs: list[Run] = []
    tasks: list[tuple[Run, Piece]] = []
    tables = _Tables(load)
    for experiment in wanted:
        pieces = list(experiment.pieces(size))
        runs.append(Run(experiment, size, {piece.name: dict(piece.arguments) for piece in pieces}))
        if len(runs[-1].arguments) < len(pieces):
            raise ValueError(f"{experiment.name} has two pieces of one name.")
        for piece in pieces:
            reason = tables.missing(piece.data)
            if reason:
                runs[-1].left_out[piece.name] = reason
            else:
                tasks.append((runs[-1], piece))
    kept = joblib.Memory(cache, verbose=0).cache(_do, ignore=["data"])
    waiting = [task for task in tasks if not kept.check_call_in_cache(*_call(task[1], tables))]
    state = _Progress(tasks, waiting)
    todo = Counter(id(run) for run, _ in tasks)

    def enter(run: Run, piece: Piece, error: str = "") -> None:
        if error:
            run.left_out[piece.name], run.failed = error, True
        else:
            run.pieces[piece.name] = kept(*_call(piece, tables))
        todo[id(run)] -= 1
        if not todo[id(run)]:
            finish(run)

    for run in runs:
        if not todo[id(run)]:
            finish(run)
    with LiveLine(state.text, shown=bool(waiting)):
        rest = {id(piece) for _, piece in waiting}
        for run, piece in tasks:
            if id(piece) not in rest:
                enter(run, piece)
        calls = (
            joblib.delayed(_attempt)(i, kept, _call(piece, tables))
            for i, (_, piece) in enumerate(waiting)
        )
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        try:
            for i, error in parallel(calls):
                run, piece = waiting[i]
                state.add(run, piece)
                enter(run, piece, error)
        except KeyboardInterrupt as interruption:
            interruption.add_note(f"interrupted: {state.text()}")
            raise
    return runs


@final
class _Tables:
    """Tables by name, each loaded once."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._loaded: dict[str, Any] = {}
        self._missing: dict[str, str] = {}

    def missing(self, names: Iterable[str]) -> str:
        """The reason why one of the tables cannot be had, or nothing."""
        for name in names:
            if name not in self._loaded and name not in self._missing:
                try:
                    self._loaded[name] = self._load(name)
                except (OSError, ImportError) as error:
                    self._missing[name] = str(error)
        return next((self._missing[name] for name in names if name in self._missing), "")

    def __getitem__(self, name: str) -> Any:
        return self._loaded[name]


def _call(piece: Piece, tables: _Tables) -> tuple[Any, ...]:
    """Arguments of `_do`; the result is kept by all but the last."""
    code = inspect.getsource(piece.run)
    data = [tables[name] for name in piece.data]
    return piece.run, dict(piece.arguments), piece.data, code, data


def _do(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    names: tuple[str, ...],
    code: str,
    data: list[Any],
) -> dict[str, Any]:
    """Run a piece: its result as JSON gives it back, CPU seconds, warnings."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*data, **arguments)
    return {
        "result": plain(result),
        "seconds": round(time.process_time() - start, 3),
        "warnings": dict(Counter(f"{w.category.__name__}: {w.message}" for w in caught)),
    }


def _attempt(number: int, kept: Callable[..., Any], call: tuple[Any, ...]) -> tuple[int, str]:
    """Run a piece where it is kept; an error is returned as text, and the others go on."""
    try:
        kept(*call)
    except Exception as error:
        return number, f"{type(error).__name__}: {error}"
    return number, ""


def plain(value: Any) -> Any:
    """As JSON gives it back: arrays and numbers of numpy are lists and numbers."""
    return json.loads(json.dumps(value, default=lambda one: one.tolist()))


@final
class _Progress:
    """How many pieces are done, and about how long the others will take."""

    def __init__(self, tasks: Sequence[Any], waiting: Sequence[Any]) -> None:
        self._all, self._kept = len(tasks), len(tasks) - len(waiting)
        self._cost = sum(piece.cost for _, piece in waiting)
        self._done, self._spent, self._last = 0, 0.0, ""
        self._start = time.perf_counter()

    def add(self, run: Run, piece: Piece) -> None:
        """Count a piece."""
        self._done += 1
        self._spent += piece.cost
        self._last = f": {run.experiment.name} {piece.name}"

    def text(self) -> str:
        """A line on the state."""
        seconds = time.perf_counter() - self._start
        rest = left(seconds, self._spent, self._cost)
        done = self._kept + self._done
        return f"{done} of {self._all} pieces ({duration(seconds)}{rest}){self._last}"
