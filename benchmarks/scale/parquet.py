"""A generated table as a folder of Parquet files: ``python -m benchmarks.scale.parquet --out F``.

Columns are x1, x2, ... and y, a file has as many rows as are asked for; the test rows lie beside
the folder, in ``F-test.parquet``.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.scale.tables import sines, sines_large

GENERATED = {"sines": sines, "sines_large": sines_large}


def _frame(X: Any, y: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])]).assign(y=y)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.parquet", description=__doc__)
    parser.add_argument("--table", choices=GENERATED, default="sines_large")
    parser.add_argument("--rows", type=int, default=100_000, help="of a file")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    split = GENERATED[arguments.table]()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(split.y), arguments.rows):
        rows = slice(start, start + arguments.rows)
        file = arguments.out / f"{start // arguments.rows:05d}.parquet"
        _frame(split.X[rows], split.y[rows]).to_parquet(file)
    _frame(split.X_test, split.y_test).to_parquet(f"{arguments.out}-test.parquet")


if __name__ == "__main__":
    main()
