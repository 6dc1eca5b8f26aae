"""A progress line over evidence evaluations: by rich where it is installed, else plain text."""

import importlib.util
import sys
from typing import Any, Self, final


@final
class EvidenceProgress:
    """Shows, unless ``verbose`` is 0, how often the evidence was evaluated, and the best so far."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self.count = 0
        self.best = -float("inf")
        self._status: Any = None

    def __enter__(self) -> Self:
        """Start the line."""
        if self.verbose and importlib.util.find_spec("rich") is not None:
            from rich.console import Console

            self._status = Console(stderr=True).status("learning by the evidence")
            self._status.start()
        return self

    def update(self, log_evidence: float) -> None:
        """Count one evaluation."""
        self.count += 1
        self.best = max(self.best, log_evidence)
        if self._status is not None:
            self._status.update(self._line())
        elif self.verbose:
            print(f"\r{self._line()}", end="", file=sys.stderr, flush=True)

    def _line(self) -> str:
        return f"evidence evaluation {self.count}: best log evidence {self.best:.6g}"

    def __exit__(self, *_: object) -> None:
        """Leave the last line standing."""
        if self._status is not None:
            self._status.stop()
        if self.verbose and self.count:
            # rich has wiped its line; a plain one lacks its end
            print(self._line() if self._status is not None else "", file=sys.stderr)
