"""What learning has found so far, in a small file: the argument ``checkpoint``."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from gpclass.learning import Problem
from gpclass.linalg import Array


@final
@dataclass(frozen=True)
class Checkpoint:
    """A JSON file with names and values of the best hyperparameters that were found so far.

    The file is replaced in one step, so that it is whole whenever a fit ends.
    """

    path: Path
    names: tuple[str, ...]
    bounds: Array

    @classmethod
    def of(cls, estimator: Any, problems: Sequence[Problem]) -> "Checkpoint | None":
        """The estimator's, None where it has none; ValueError for several problems."""
        path = estimator.checkpoint
        if path is None:
            return None
        if len(problems) > 1:
            raise ValueError(
                f"checkpoint={os.fspath(path)!r} is of one problem, and there are {len(problems)} "
                "binary ones: take multi_class='joint'"
            )
        found = Path(path)
        if not found.parent.is_dir():
            raise ValueError(f"checkpoint={os.fspath(path)!r}: there is no folder {found.parent}")
        return cls(found, tuple(problems[0].hyperparameters.names), problems[0].bounds)

    def theta(self) -> Array | None:
        """Theta of the file within the bounds; None where there is no file yet.

        ValueError where the file is of other hyperparameters.
        """
        if not self.path.exists():
            return None
        try:
            held = json.loads(self.path.read_text(encoding="utf-8"))
            names, values = tuple(held["names"]), np.array(held["theta"], dtype=np.float64)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"checkpoint={str(self.path)!r} cannot be read: {error!r}") from error
        if names != self.names:
            raise ValueError(
                f"checkpoint={str(self.path)!r} has the hyperparameters {', '.join(names)}, and "
                f"this fit {', '.join(self.names)}: take another file"
            )
        return np.clip(values, *self.bounds.T)

    def after(self, progress: Callable[..., None]) -> Callable[..., None]:
        """``progress``, and write the file where theta is given."""

        def update(log_evidence: float, theta: Array | None = None) -> None:
            progress(log_evidence)
            if theta is not None:
                self._write(log_evidence, theta)

        return update

    def _write(self, log_evidence: float, theta: Array) -> None:
        held = {
            "names": list(self.names),
            "theta": [float(value) for value in theta],
            "log_evidence": float(log_evidence),
        }
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        beside.write_text(json.dumps(held, indent=1), encoding="utf-8")
        os.replace(beside, self.path)
