"""One JSON line a table and model: ``python -m benchmarks.scale.run --table sines --model ...``.

Each model runs in this process alone, so that its peak memory is its own; it may take so many
seconds, and a model that answers several times (after each epoch) gives a line each time.
"""

import argparse
import json
import resource
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.scale.models import MODELS
from benchmarks.scale.tables import TABLES
from experiments.quality.run import scores

RESULTS: Final = Path(__file__).resolve().parents[1] / "results" / "scale.jsonl"


def main() -> None:
    """Run one model on one table, and append what it gives."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.run", description=__doc__)
    parser.add_argument("--table", choices=TABLES, required=True)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=np.inf, help="of learning, at most")
    parser.add_argument("--rows", type=int, default=None, help="of the training rows")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    split = TABLES[arguments.table]()
    if arguments.rows is not None:
        split = split._replace(X=split.X[: arguments.rows], y=split.y[: arguments.rows])
    for seconds, cpu, P, classes in MODELS[arguments.model](split, arguments.inducing):
        found = scores(np.asarray(P, dtype=np.float64), np.asarray(classes), split.y_test)
        gaps = np.abs(found.pop("gaps")).sum() / len(split.y_test)
        line = {
            "table": arguments.table,
            "model": arguments.model,
            "inducing": arguments.inducing,
            "n": len(split.y),
            "n_test": len(split.y_test),
            "seconds": round(seconds, 2),
            "cpu_seconds": round(cpu, 2),
            "memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
            "calibration": round(float(gaps), 5),
            **{key: round(value, 5) for key, value in found.items()},
        }
        print(json.dumps(line), flush=True)
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if seconds > arguments.seconds:
            break


if __name__ == "__main__":
    main()
