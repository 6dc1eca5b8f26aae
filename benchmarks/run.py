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
from typing import Final

from benchmarks import evidence, fit, memory, predict
from benchmarks.figures import Figures
from benchmarks.machine import describe
from benchmarks.tables import show

BENCHMARKS: Final[dict[str, Callable[[int, bool], Figures]]] = {
    "evidence": evidence.run,
    "memory": memory.run,
    "fit": fit.run,
    "predict": predict.run,
}
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
        choices=list(BENCHMARKS),
        metavar="NAME",
        help=f"one of {', '.join(BENCHMARKS)}; may be given several times",
    )
    parser.add_argument("--repeat", type=_positive, help="repetitions (default: 7; dry: 1)")
    parser.add_argument(
        "--name", type=_file_name, help="name of the JSON file (default: date and time)"
    )
    return parser.parse_args(arguments)


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
    names = [name for name in BENCHMARKS if options.only is None or name in options.only]
    repeat = options.repeat or (1 if options.dry else 7)
    machine = describe()
    print(
        f"gpclass {machine['gpclass']} on {machine['processor']}, {machine['cores']} cores, "
        f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}; numpy "
        f"{machine['numpy']}, scipy {machine['scipy']}, scikit-learn {machine['scikit-learn']}\n"
    )
    begun = time.perf_counter()
    results = {}
    for name in names:
        figures = BENCHMARKS[name](repeat, options.dry)
        show(figures, judged=not options.dry)
        results[name] = figures.to_dict()
    limits = [limit for result in results.values() for limit in result["limits"]]
    spent = time.perf_counter() - begun
    if options.dry:
        print(f"dry run: {len(names)} benchmarks ran in {spent:.1f} s, nothing was written")
        return
    kept = sum(limit["kept"] for limit in limits)
    print(f"{kept} of {len(limits)} limits kept, in {spent:.0f} s")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{options.name or datetime.now(UTC).strftime('%Y%m%d-%H%M')}.json"
    record = {
        "machine": machine,
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "repeat": repeat,
        "benchmarks": results,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {path.relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    main()
