"""Rows that a saved model does not have any more."""

from collections.abc import Callable
from typing import Any, NoReturn, final

from numpy.typing import NDArray

from gpclass.blocks.base import RowBlocks


@final
class AbsentBlocks(RowBlocks):
    """So many rows that are not there: every question raises a ValueError that says so.

    Examples
    --------
    >>> AbsentBlocks((4096, 4096)).n_rows
    8192
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes

    @property
    def held(self) -> bool:
        """False: the rows are gone."""
        return False

    def reduce(self, function: Callable[..., Any], *shared: Any) -> NoReturn:
        """Raise ValueError: the rows are gone."""
        self._refuse()

    def derive(self, function: Callable[..., Any], *shared: Any, n_bytes: float) -> NoReturn:
        """Raise ValueError: the rows are gone."""
        self._refuse()

    def take(self, rows: NDArray[Any]) -> NoReturn:
        """Raise ValueError: the rows are gone."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"the {self.n_rows} rows of this model were a Dask collection, which is not saved with "
            "it: predictions need none, and an evidence needs a fit to the collection"
        )
