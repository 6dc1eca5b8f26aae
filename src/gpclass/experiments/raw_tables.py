"""Tables as they came, with text, codes and missing entries."""

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np


@final
@dataclass(frozen=True)
class RawTable:
    """Which column of a file is the class, which are left out, and which numbers are codes."""

    file: str
    target: str
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def data(self) -> str:
        """Name of the data for a `Piece`."""
        return f"csv:{self.file}"

    def read(self, frame: Any) -> tuple[Any, Any]:
        """Columns and classes of the file's frame."""
        # a code is no number: 3.0 becomes the level "3"
        levels = {
            column: frame[column].map("{:.0f}".format, na_action="ignore").astype("category")
            for column in self.categories
        }
        columns = frame.assign(**levels).drop(columns=[self.target, *self.drop])
        return columns, frame[self.target].to_numpy()


RAW: Final = {
    "crabs_sex": RawTable("crabs", "sex", ("index",)),
    "crabs_species": RawTable("crabs", "sp", ("index",)),
    "heart_hungarian": RawTable(
        "heart_hungarian", "num", categories=("cp", "restecg", "slope", "thal")
    ),
}


def data_of(name: str) -> tuple[str, ...]:
    """Name of the data of a table for a `Piece`."""
    return (RAW[name].data if name in RAW else name,)


def columns_and_classes(table: Any, name: str) -> tuple[Any, Any]:
    """Columns as a frame and classes, of what a `Piece` is given for the name."""
    X, y = RAW[name].read(table) if name in RAW else (table.X, table.y)
    return X, np.asarray(y)
