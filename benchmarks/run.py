"""All figures of speed and memory in one run.

``python -m benchmarks.run`` prints tables with the limits that this library promises, and keeps
every repetition as JSON under ``benchmarks/results``. A limit that is missed is printed as such
and is no error: a busy machine misses them too.
"""

import argparse
import json
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import (
    evaluations,
    evidence,
    fit,
    inducing,
    memory,
    methods,
    multiclass,
    predict,
    rivals,
    schedules,
    small,
)
from benchmarks.figures import Figures
from benchmarks.machine import describe
from benchmarks.tables import show


class Benchmark(NamedTuple):
    """How a table is made, and which of its rows can be had alone."""

    run: Callable[..., Figures]
    rows: tuple[str, ...] = ()


class Choice(NamedTuple):
    """A benchmark, and one of its rows or all (None)."""

    name: str
    row: str | None


BENCHMARKS: Final[dict[str, Benchmark]] = {
    "evidence": Benchmark(evidence.run),
    "methods": Benchmark(methods.run, methods.ROWS),
    "schedules": Benchmark(schedules.run, schedules.ROWS),
    "evaluations": Benchmark(evaluations.run, evaluations.ROWS),
    "memory": Benchmark(memory.run, memory.ROWS),
    "fit": Benchmark(fit.run),
    "small": Benchmark(small.run, small.ROWS),
    "predict": Benchmark(predict.run),
    "classes": Benchmark(multiclass.run_evidence, multiclass.ROWS),
    "class-probabilities": Benchmark(multiclass.run_probabilities),
    "digits": Benchmark(multiclass.run_digits),
    "inducing": Benchmark(inducing.run_pass),
    "inducing-growth": Benchmark(inducing.run_growth),
    "inducing-cluster": Benchmark(inducing.run_cluster),
    "rivals": Benchmark(rivals.run, rivals.ROWS),
}
REPEAT: Final = 5
RESULTS: Final = Path(__file__).resolve().parent / "results"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "--dry",
        action="store_true",
        help="tiny sizes, nothing is judged or written: does everything still run?",
    )
    parser.add_argument(
        "--only",
        action="append",
        type=_choice,
        metavar="NAME[/ROW]",
        help=f"one of {', '.join(BENCHMARKS)}, or one row of its table, as methods/ep-probit; may "
        "be given several times",
    )
    parser.add_argument("--repeat", type=_positive, help=f"repetitions (default: {REPEAT}; dry: 1)")
    parser.add_argument(
        "--name", type=_file_name, help="name of the JSON file (default: date and time)"
    )
    return parser.parse_args(arguments)


def _choice(text: str) -> Choice:
    name, slash, row = text.partition("/")
    if name not in BENCHMARKS:
        raise argparse.ArgumentTypeError(f"one of {', '.join(BENCHMARKS)}, got {name!r}")
    rows = BENCHMARKS[name].rows
    if slash and row not in rows:
        known = f"the rows of {name} are {', '.join(rows)}" if rows else f"{name} has one row only"
        raise argparse.ArgumentTypeError(f"{known}, got {row!r}")
    return Choice(name, row if slash else None)


def _rows(name: str, only: list[Choice] | None) -> tuple[str, ...] | None:
    """Rows of a benchmark that were asked for, in the order of its table; None: not asked for."""
    every = BENCHMARKS[name].rows
    if only is None:
        return every
    asked = [choice.row for choice in only if choice.name == name]
    if not asked:
        return None
    return every if None in asked else tuple(row for row in every if row in asked)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _file_name(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+", text):
        raise argparse.ArgumentTypeError(f"letters, digits, '.', '-' and '_' only, got {text!r}")
    return text


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    plan = {name: _rows(name, options.only) for name in BENCHMARKS}
    names = [name for name, rows in plan.items() if rows is not None]
    repeat = options.repeat or (1 if options.dry else REPEAT)
    machine = describe()
    print(
        f"gpclass {machine['gpclass']} on {machine['processor']}, {machine['cores']} cores, "
        f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}; numpy "
        f"{machine['numpy']}, scipy {machine['scipy']}, scikit-learn {machine['scikit-learn']}\n"
    )
    begun = time.perf_counter()
    results: dict[str, dict[str, Any]] = {}
    path = RESULTS / f"{options.name or datetime.now(UTC).strftime('%Y%m%d-%H%M')}.json"
    for name in names:
        start = time.perf_counter()
        chosen = {"rows": plan[name]} if plan[name] else {}
        figures = BENCHMARKS[name].run(repeat, options.dry, **chosen)
        show(figures, judged=not options.dry)
        print(f"  {name} took {time.perf_counter() - start:.1f} s\n", flush=True)
        results[name] = figures.to_dict()
        if not options.dry:
            # a run that is cut off leaves what it has
            RESULTS.mkdir(exist_ok=True)
            record = {
                "machine": machine,
                "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
                "repeat": repeat,
                "benchmarks": results,
            }
            path.write_text(json.dumps(record, indent=1) + "\n")
    limits = [limit for result in results.values() for limit in result["limits"]]
    spent = time.perf_counter() - begun
    if options.dry:
        print(f"dry run: {len(names)} benchmarks ran in {spent:.1f} s, nothing was written")
        return
    kept = sum(limit["kept"] for limit in limits)
    print(f"{kept} of {len(limits)} limits kept, in {spent:.0f} s")
    print(f"written: {path.relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    main()
