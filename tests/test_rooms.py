"""The rooms: which imports which, where matrices are factorised, how long a file may be."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gpclass"

# Imports run down this list only: a room may import those after it.
ROOMS = (
    "app",
    "estimator",
    "learning",
    "montecarlo",
    "inference",
    "priors",
    "likelihoods",
    "kernels",
    "blocks",
    "linalg",
    "exceptions",
    "_version",
)
# Rooms beside the list, and what each may import.
BESIDE = {
    "testing": ROOMS[1:],
    "decision": ("metrics", "exceptions"),
    "displays": (*ROOMS[1:], "decision", "metrics"),
    "experiments": (*ROOMS[1:], "displays", "decision", "metrics"),
    "metrics": (),
    "app": (*ROOMS, "experiments", "decision", "displays", "metrics"),
    # the public names of the package, imported when they are first asked for
    "__init__": ("estimator", "_version"),
    "__main__": ("app",),
}
MOST_LINES = 400
# Of scipy.linalg and numpy.linalg; neither of these factorises.
HARMLESS = {"blas", "norm", "LinAlgError"}

FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def may_import(room: str) -> set[str]:
    return {room, *(BESIDE[room] if room in BESIDE else ROOMS[ROOMS.index(room) :])}


def imported_names(path: Path) -> Iterator[str]:
    """Full names of the modules, and of the names in them, that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a file imports from; the package's own names are the estimator's."""
    rooms = {room_of(file) for file in FILES}
    found = (name.split(".") for name in imported_names(path))
    inside = {(rest or ["estimator"])[0] for package, *rest in found if package == "gpclass"}
    return {name if name in rooms else "estimator" for name in inside}


def factorisations(path: Path) -> set[str]:
    """What a file takes of scipy.linalg and numpy.linalg that may factorise a matrix."""
    libraries = ("scipy.linalg", "numpy.linalg")
    found = {name for name in imported_names(path) if name.startswith(libraries)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            found |= {f"linalg.{node.attr}"} if node.value.attr == "linalg" else set()
    return {name for name in found if name.rpartition(".")[2] not in HARMLESS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_run_down_the_list_of_rooms(path):
    assert imported_rooms(path) <= may_import(room_of(path))


def test_only_linalg_factorises():
    found = {str(path.relative_to(SOURCE)): factorisations(path) for path in FILES}
    assert {name for name, taken in found.items() if taken} == {"linalg.py"}, found


def test_a_file_of_more_than_400_lines_says_why():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        reason = (ast.get_docstring(ast.parse(text)) or "").lower()
        assert text.count("\n") <= MOST_LINES or "lines" in reason, path
