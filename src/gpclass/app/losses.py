"""Losses of decisions in a file, and decisions by them."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpclass.app.tables import FOUND, Reading, read_table, require_pandas
from gpclass.decision import REJECT, decide
from gpclass.estimator.inputs import listed

# The decision for a rejected case, and the name of the column of its losses.
REJECTED: Final = "reject"


def read_loss(path: Path, classes: NDArray[Any], reading: Reading = FOUND) -> NDArray[np.float64]:
    """Read a table of losses, shape (C, C), or (C, C + 1) where it has a column ``reject``.

    The first column has the class that a case is of, the header what is decided, both in any order.
    ValueError where a class is missing, unknown or twice, or a loss is no number.
    """
    frame = read_table(path, reading).frame
    frame = frame.set_index(frame.columns[0])
    names = [str(c) for c in classes]
    frame.index = [str(name).strip() for name in frame.index]
    frame.columns = [str(name).strip() for name in frame.columns]
    columns = [*names, REJECTED] if REJECTED in frame.columns.difference(names) else names
    _check_names(path, "rows", list(frame.index), names)
    _check_names(path, "columns", list(frame.columns), columns)
    numbers = frame.loc[names, columns].apply(require_pandas().to_numeric, errors="coerce")
    losses: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64)
    bad = np.argwhere(~np.isfinite(losses))
    if len(bad):
        k, j = bad[0]
        raise ValueError(
            f"{path.name}: the loss of deciding {columns[j]!r} for the class {names[k]!r} is "
            f"{frame.loc[names[k], columns[j]]}, which is no finite number."
        )
    return losses


def _check_names(path: Path, what: str, found: list[str], expected: list[str]) -> None:
    for wrong, names in (
        ("lack", [name for name in expected if name not in found]),
        ("have an unknown", [name for name in found if name not in expected]),
        ("repeat", [name for name in dict.fromkeys(found) if found.count(name) > 1]),
    ):
        if names:
            raise ValueError(
                f"the {what} of the losses in {path.name} {wrong} class {listed(names)}; the "
                f"model has the classes {listed(expected)}."
            )


def decisions(
    proba: NDArray[np.float64],
    classes: NDArray[Any],
    loss: NDArray[np.float64] | None,
    reject_cost: float | None,
) -> NDArray[np.str_]:
    """Names of the classes decided for, or ``reject``, of least expected loss, shape (m,).

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.app.losses import decisions
    >>> P = np.array([[0.9, 0.1], [0.55, 0.45], [0.3, 0.7]])
    >>> decisions(P, np.array(["ill", "well"]), np.array([[0, 10], [1, 0]]), 0.5).tolist()
    ['ill', 'ill', 'reject']
    """
    decided = decide(proba, loss, reject_cost)
    names = np.asarray(classes).astype(str)
    if (decided == REJECT).any() and REJECTED in names:
        raise ValueError(f"a class is called {REJECTED!r}, as a case is that no class is given.")
    return np.where(decided == REJECT, REJECTED, names[decided])
