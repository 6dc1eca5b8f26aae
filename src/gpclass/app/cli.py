"""The command line. Every user mistake ends with exit status 2 and one line on stderr."""

import sys
import warnings
from typing import TextIO


def main() -> None:
    """Run the command line; the entry point of ``gpclass`` and ``python -m gpclass``."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            _run()
        except (ValueError, OSError, ImportError, MemoryError) as error:
            print(f"gpclass: {_one_line(error)}", file=sys.stderr)
            raise SystemExit(2) from None
        except KeyboardInterrupt:  # before a command began
            raise SystemExit(130) from None


def _run() -> None:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the command line needs typer and rich; install them with: pip install 'gpclass[cli]'"
        ) from error
    from gpclass.app.commands import app

    app(prog_name="gpclass")


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without the file and the source line that raised it."""
    print(f"gpclass: {category.__name__}: {_one_line(message)}", file=sys.stderr)
