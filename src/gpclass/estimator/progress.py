"""The progress of long work, as a line on stderr."""

import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Final, Self, final

# Seconds between two looks at the text: on a terminal, and in a file or a pipe.
ON_TERMINAL: Final = 1.0
ELSEWHERE: Final = 10.0


@final
class LiveLine:
    """Shows a changing text on stderr while work goes on, and leaves its last state standing.

    On a terminal it is one line, by rich where that is installed; elsewhere a line every ten
    seconds. A thread looks at the text, so that a step of minutes shows its time too. Work inside
    of other work adds its text to that line, and leaves nothing there.
    """

    def __init__(self, text: Callable[[], str], *, shown: bool = True) -> None:
        self._text, self._shown = text, shown
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._status: Any = None
        self._inner: list[LiveLine] = []
        self._outer: LiveLine | None = None
        self._token: Token[LiveLine | None] | None = None

    def __enter__(self) -> Self:
        """Start to show the text."""
        self._outer = _OUTERMOST.get() if self._shown else None
        if self._outer is not None:
            self._outer._inner.append(self)
        elif self._shown:
            self._token = _OUTERMOST.set(self)
            terminal = sys.stderr.isatty()
            if terminal and importlib.util.find_spec("rich") is not None:
                from rich.console import Console

                self._status = Console(stderr=True).status(self._now())
                self._status.start()
            self._thread = threading.Thread(target=self._look, args=(terminal,), daemon=True)
            self._thread.start()
        return self

    def _now(self) -> str:
        return "; ".join(line._text() for line in (self, *self._inner))

    def _look(self, terminal: bool) -> None:
        while not self._done.wait(ON_TERMINAL if terminal else ELSEWHERE):
            if self._status is not None:
                self._status.update(self._now())
            else:
                start, end = ("\r", "") if terminal else ("", "\n")
                print(f"{start}{self._now()}", end=end, file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        """Leave the last text standing, whatever happened."""
        if self._outer is not None:
            self._outer._inner.remove(self)
        if self._token is None or self._thread is None:
            return
        _OUTERMOST.reset(self._token)
        self._done.set()
        self._thread.join()
        if self._status is not None:
            self._status.stop()
        # on a terminal without rich, over the line that stands there
        start = "\r" if sys.stderr.isatty() and self._status is None else ""
        print(f"{start}{self._text()}", file=sys.stderr, flush=True)


# The line that is shown now, to which work inside of it adds its own.
_OUTERMOST: Final[ContextVar[LiveLine | None]] = ContextVar("outermost", default=None)


@final
class EvidenceProgress:
    """Counts the evaluations of the evidence; shown unless ``verbose`` is 0.

    ``expected`` is the usual number of evaluations, from which the time that is left is estimated.
    ``passes`` answers how many passes over the rows there were, where these lie on a cluster. An
    interrupted fit says how many evaluations it has made.
    """

    def __init__(
        self, verbose: int, expected: int = 0, passes: Callable[[], int] | None = None
    ) -> None:
        self.count = 0
        self.best = -float("inf")
        self._expected, self._passes = expected, passes
        self._start = self._last = time.perf_counter()
        self._line = LiveLine(self._text, shown=bool(verbose))

    def __enter__(self) -> Self:
        """Start the line."""
        self._line.__enter__()
        return self

    def update(self, log_evidence: float, theta: object = None) -> None:
        """Count one evaluation; theta is not looked at."""
        self.count += 1
        self._last = time.perf_counter()
        self.best = max(self.best, log_evidence)

    def forget_best(self) -> None:
        """From here on evidences are of other rows, and not to be compared with those before."""
        self.best = -float("inf")

    def _text(self) -> str:
        seconds = time.perf_counter() - self._start
        if self.count == 0:
            return f"learning by the evidence ({duration(seconds)}){self._passes_text()}"
        rest = left(self._last - self._start, self.count, self._expected)
        best = f": best log evidence {self.best:.6g}" if self.best > -float("inf") else ""
        done = f"evidence evaluation {self.count} ({duration(seconds)}{rest})"
        return f"{done}{best}{self._passes_text()}"

    def _passes_text(self) -> str:
        return "" if self._passes is None else f", {self._passes()} passes over the rows"

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Leave the last line standing."""
        self._expected = 0
        self._line.__exit__()
        if isinstance(error, KeyboardInterrupt):
            plural = "" if self.count == 1 else "s"
            error.add_note(f"interrupted after {self.count} evaluation{plural} of the evidence")


def left(seconds: float, done: float, expected: float) -> str:
    """Text of the seconds that are expected to be left; empty where that is unknown."""
    if not 0 < done < expected:
        return ""
    return f", about {duration(seconds * (expected - done) / done)} left"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, rounded for people.

    >>> [duration(seconds) for seconds in (3.2, 100, 5000, 200_000)]
    ['3 s', '100 s', '83 min', '56 h']
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
