"""The table of ``kernel=None``: columns of any type, as one matrix without units."""

from typing import Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from gpclass.estimator.inputs.base import Inputs, Labels
from gpclass.estimator.inputs.columns import (
    Array,
    Column,
    as_numbers,
    as_table,
    as_texts,
    columns_of,
    is_frame,
    listed,
    some_numbers,
)

# Two different levels have distance 1.
LEVEL: Final = np.sqrt(0.5)
# Text with this many levels, more than this share of its known entries, names rows.
FEWEST_NAMES: Final = 10
SHARE_OF_NAMES: Final = 0.9
# New rows farther from the centre than this many standard deviations are put here: squares stay
# finite.
FARTHEST: Final = 1e100


@final
class MixedTable(Inputs):
    """Columns of numbers, dates, truth values and text, with missing entries, as one matrix.

    Its columns are, in this order:

    - Each column of numbers, standardised. Centre and scale are those of the *distinct* training
      rows of positive weight, so that a weight of two is the same as the row given twice. A
      missing entry is at the centre. A constant column is left out.
    - For each column of numbers with missing entries in these rows, 1 where the entry is missing,
      else 0. A column without any entry is left out.
    - For each column of levels and each level that training has ("missing" is one of them),
      ``sqrt(1/2)`` in rows of that level, else 0: two levels have the distance 1. A level that
      training lacks has the distance 1 from all of them. One level alone is left out.
    """

    @classmethod
    def takes(cls, kernel: object, X: Any) -> bool:
        """Whether the kernel is the default."""
        return kernel is None

    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Read the table; return what `read` does, and y."""
        raw = self.read(estimator, X)
        return check_X_y(raw, y, ensure_all_finite="allow-nan", estimator=estimator)  # type: ignore[no-any-return]

    def read(self, estimator: BaseEstimator, X: Any) -> Array:
        """Find the kinds of the columns; return numbers, NaN where missing, and codes of levels."""
        table = as_table(X, estimator)
        validate_data(estimator, table, skip_check_array=True)
        columns = columns_of(table)
        chosen = _chosen(getattr(estimator, "categorical_features", "from_dtype"), columns)
        found = [_learnt(column, has) for column, has in zip(columns, chosen, strict=True)]
        self.names: list[Any] = [column.name for column in columns]
        self.kinds = [kind for kind, _, _ in found]
        self.levels = [levels for _, _, levels in found]
        return self._stacked([values for _, values, _ in found], len(table))

    def rescale(self, X: Any, used: NDArray[np.intp] | None) -> Any:
        """Learn centres, scales and levels of distinct rows; return the matrix of all rows."""
        # numbers are finite, so infinity can stand for "missing", and is equal to itself
        missing = np.isnan(X)
        marked = np.where(missing, np.inf, X) if missing.any() else X
        self._learn(np.unique(marked if used is None else marked[used], axis=0))
        del marked
        return self._matrix(X)

    def _learn(self, rows: Array) -> None:
        """Centres, scales and levels of distinct rows, infinite where an entry is missing."""
        known = np.isfinite(rows)
        low = rows.min(axis=0, where=known, initial=np.inf)
        high = rows.max(axis=0, where=known, initial=-np.inf)
        gaps = np.asarray(~known.all(axis=0))
        self.arrange(low, high, gaps, [np.unique(column) for column in rows.T])
        centres, scales = [], []
        for j, exponent in zip(self.numeric, self.exponents, strict=True):
            unit = np.ldexp(rows[known[:, j], j], exponent)
            centre = unit.mean()
            centre += (unit - centre).mean()
            centres.append(centre)
            scales.append(np.sqrt(np.mean((unit - centre) ** 2)))
        self.centres, self.scales = np.array(centres), np.array(scales)

    def arrange(self, low: Array, high: Array, gaps: NDArray[np.bool_], codes: list[Array]) -> None:
        """Which columns the matrix has, by extremes, gaps and codes of the raw ones, (d,) each.

        Of a column without any entry ``low`` is infinite.
        """
        levels = [kind == "levels" for kind in self.kinds]
        self.codes: list[Array] = [
            one if is_level and len(one) > 1 else np.empty(0)
            for one, is_level in zip(codes, levels, strict=True)
        ]
        numbers = [j for j, is_level in enumerate(levels) if not is_level and low[j] <= high[j]]
        self.gaps: list[int] = [j for j in numbers if gaps[j]]
        self.numeric: list[int] = [j for j in numbers if low[j] < high[j]]
        # by powers of two nothing is rounded, and no sum or square overflows
        largest = np.maximum(np.abs(low[self.numeric]), np.abs(high[self.numeric]))
        self.exponents = -np.frexp(largest)[1].astype(np.int64)

    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Rows of the matrix for a new table.

        Columns of a frame are found by their names, in any order and among others. A missing entry
        of a column that had none in training is at the centre.
        """
        table = as_table(X, estimator)
        names = list(getattr(estimator, "feature_names_in_", ()))
        if names and is_frame(table) and set(names) <= set(table.columns):
            table = table[names]
        validate_data(estimator, table, skip_check_array=True, reset=False)
        raw = self.read_known(table)
        check_array(raw, ensure_all_finite="allow-nan", estimator=estimator, input_name="X")
        return self._matrix(raw)

    def read_known(self, table: Any) -> Array:
        """Numbers, NaN where missing, and codes of levels, of columns whose kinds are known."""
        columns = zip(self.kinds, columns_of(table), self.levels, strict=True)
        return self._stacked([_read_as(*one) for one in columns], len(table))

    def survey(
        self, estimator: BaseEstimator, X: Any, forced: list[int]
    ) -> list[tuple[Any, set[str], set[str], int]]:
        """Name, kind, levels and number of known entries of each column of a part of a table.

        Columns that are ``forced`` have levels.
        """
        table = as_table(X, estimator)
        validate_data(estimator, table, skip_check_array=True)
        columns = columns_of(table)
        chosen = _chosen(getattr(estimator, "categorical_features", "from_dtype"), columns)
        found = []
        for j, (column, has) in enumerate(zip(columns, chosen, strict=True)):
            kind, values, levels = _kind_of(column, True if j in forced else has)
            named = has is None  # text that names rows is refused, unless it was asked for
            known = int(np.sum(values < len(levels))) if kind == "levels" and named else -1
            found.append((column.name, {kind}, set(levels), known))
        return found

    @staticmethod
    def check_names_of_rows(name: Any, n_levels: int, n_known: int) -> None:
        """Refuse text that has another value in nearly every row; ``n_known`` < 0: it may."""
        if n_known >= 0 and n_levels >= max(FEWEST_NAMES, SHARE_OF_NAMES * n_known):
            raise ValueError(
                f"X has the text column {name!r} with {n_levels} different values in "
                f"{n_known} rows: it seems to name the rows, which says nothing of new ones. Leave "
                "it out, make numbers or dates of it, or name it in categorical_features."
            )

    def column_names(self, levels: bool = True) -> list[str]:
        """Names of the columns of the matrix; x0, x1 and so on where the table has none.

        Without ``levels`` a level's column has the name of its column in the table.
        """
        names = [f"x{name}" if isinstance(name, int) else str(name) for name in self.names]
        found = [names[j] for j in self.numeric] + [f"{names[j]}_missing" for j in self.gaps]
        for name, known, codes in zip(names, self.levels, self.codes, strict=True):
            each = [f"{name}_{[*known, 'missing'][int(code)]}" for code in codes]
            found += each if levels else [name] * len(each)
        return found or ["nothing"]

    def original(self, matrix: Array) -> dict[str, NDArray[Any]]:
        """Columns of the table again, by name, from rows of the matrix (n, k).

        A column that the matrix leaves out has its one level, or no entry; dates are points in
        time.
        """
        found: dict[str, NDArray[Any]] = {}
        gaps = {j: matrix[:, len(self.numeric) + g] > 0.5 for g, j in enumerate(self.gaps)}
        column = len(self.numeric) + len(self.gaps)
        for j, name in enumerate(self.names):
            values = np.full(len(matrix), np.nan)
            if j in self.numeric:
                k = self.numeric.index(j)
                unit = matrix[:, k] * self.scales[k] + self.centres[k]
                values = np.where(gaps.get(j, False), np.nan, np.ldexp(unit, -self.exponents[k]))
            if self.kinds[j] == "dates":
                values = np.round(values * 1e6).astype("datetime64[us]")
            elif self.kinds[j] == "levels":
                texts = np.array([*self.levels[j], None], dtype=object)
                block = matrix[:, column : column + len(self.codes[j])]
                column += block.shape[1]
                values = np.full(len(matrix), texts[0])
                if block.shape[1]:
                    values = texts[self.codes[j][block.argmax(axis=1)].astype(np.intp)]
            found[str(name)] = values
        return found

    @property
    def shared(self) -> list[int]:
        """Which length-scale a column of the matrix has: the levels of a column have one."""
        sizes = [1] * (len(self.numeric) + len(self.gaps)) + [len(c) for c in self.codes if c.size]
        return np.repeat(np.arange(len(sizes)), sizes).tolist() or [0]

    def _matrix(self, raw: Array) -> Array:
        """Rows of the matrix, a column of the table at a time: a large table has no copies."""
        matrix = np.empty((len(raw), len(self.shared)))
        places = iter(range(matrix.shape[1]))
        settings = zip(self.numeric, self.exponents, self.centres, self.scales, strict=True)
        with np.errstate(over="ignore"):  # infinity becomes FARTHEST
            for j, exponent, centre, scale in settings:
                unit = (np.ldexp(raw[:, j], exponent) - centre) / scale
                unit[np.isnan(unit)] = 0.0
                matrix[:, next(places)] = np.clip(unit, -FARTHEST, FARTHEST)
        for j in self.gaps:
            matrix[:, next(places)] = np.isnan(raw[:, j])
        for j, codes in enumerate(self.codes):
            if not codes.size:
                continue
            is_level = raw[:, [j]] == codes
            # x = c (1, .., 1) with |x - e_k / sqrt(2)| = 1
            n = len(codes)
            elsewhere = (np.sqrt(2.0) - np.sqrt(2.0 + 2.0 * n)) / (2.0 * n)
            unknown = ~is_level.any(axis=1, keepdims=True)
            matrix[:, [next(places) for _ in codes]] = np.where(
                unknown, elsewhere, LEVEL * is_level
            )
        matrix[:, list(places)] = 0.0  # the one column of a table that says nothing
        return matrix

    def _stacked(self, read: list[Array], n: int) -> Array:
        infinite = [name for name, x in zip(self.names, read, strict=True) if np.isinf(x).any()]
        if infinite:
            raise ValueError(f"X has infinite values in the columns {listed(infinite)}.")
        return np.column_stack(read) if read else np.empty((n, 0))


@final
class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The matrix of `MixedTable` as a transformer, for kernels of one's own and other models.

    Parameters
    ----------
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        As of `GaussianProcessClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.estimator.inputs import TableEncoder
    >>> X = np.array([[3, "red"], [None, "blue"], [5, "red"]], dtype=object)
    >>> encoder = TableEncoder().fit(X)
    >>> encoder.transform(X).round(2)
    array([[-1.  ,  0.  ,  0.  ,  0.71],
           [ 0.  ,  1.  ,  0.71,  0.  ],
           [ 1.  ,  0.  ,  0.  ,  0.71]])
    >>> encoder.get_feature_names_out().tolist()
    ['x0', 'x0_missing', 'x1_blue', 'x1_red']
    """

    def __init__(self, categorical_features: Any = "from_dtype") -> None:
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn kinds, centres, scales and levels; raises as `MixedTable`."""
        self.table_ = MixedTable()
        self.table_.rescale(self.table_.read(self, X), None)
        return self

    def transform(self, X: Any) -> Any:
        """Rows of the matrix; raises as `MixedTable`."""
        check_is_fitted(self, "table_")
        return self.table_.transform(self, X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of the matrix."""
        check_is_fitted(self, "table_")
        return np.array(self.table_.column_names(), dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Say what it takes."""
        return with_any_table(super().__sklearn_tags__())


def with_any_table(tags: Any) -> Any:
    """Tags of an estimator that takes a `MixedTable`."""
    given = tags.input_tags
    given.allow_nan = given.categorical = given.string = given.sparse = True
    return tags


def _chosen(asked: Any, columns: list[Column]) -> list[bool | None]:
    """Which columns ``categorical_features`` says to have levels; None: their values decide.

    As in scikit-learn's ``HistGradientBoostingClassifier``; ValueError for anything else.
    """
    if isinstance(asked, str) and asked == "from_dtype":
        return [True if column.has_levels else None for column in columns]
    names = [column.name for column in columns]
    given = np.ravel([] if asked is None else asked).tolist()
    types = {type(one) for one in given}
    if types == {bool} and len(given) == len(columns):
        return list(given)
    options: list[Any] = names if types == {str} else list(range(len(columns)))
    if not types <= {int} and types != {str}:
        raise ValueError(
            "categorical_features must be 'from_dtype', None, or a list of names or numbers of "
            f"columns, or of {len(columns)} truth values, one a column; got {asked!r}"
        )
    wrong = [one for one in given if one not in options]
    if wrong:
        raise ValueError(
            f"categorical_features has {listed(wrong)}, but the columns of X are {listed(options)}"
        )
    return [option in given for option in options]


def _learnt(column: Column, has_levels: bool | None) -> tuple[str, Array, list[str]]:
    """Kind of a training column, its numbers or codes, and its levels."""
    kind, values, levels = _kind_of(column, has_levels)
    if kind == "levels" and has_levels is None:
        known = int(np.sum(values < len(levels)))
        MixedTable.check_names_of_rows(column.name, len(levels), known)
    return kind, values, levels


def _kind_of(column: Column, has_levels: bool | None) -> tuple[str, Array, list[str]]:
    found = None if has_levels else as_numbers(column)
    if found is not None:
        kind, values = found
        return ("nothing" if np.isnan(values).all() else kind), values, []
    texts = as_texts(column)
    levels = sorted({text for text in texts if text is not None})
    if has_levels is False:
        raise ValueError(
            f"X has text in the column {column.name!r} (such as {levels[0]!r}), which is none of "
            "those that categorical_features names."
        )
    return "levels", _codes(texts, levels), levels


def _codes(texts: list[str | None], levels: list[str]) -> Array:
    """Numbers of levels; the number of levels where it is missing, -1 for a level not known."""
    places: dict[str | None, int] = {level: k for k, level in enumerate(levels)}
    places[None] = len(levels)
    return np.array([places.get(text, -1) for text in texts], dtype=np.float64)


def _read_as(kind: str, column: Column, levels: list[str]) -> Array:
    """Numbers or codes of a new column of a known kind."""
    if kind == "levels":
        return _codes(as_texts(column), levels)
    if kind == "nothing":
        return np.full(len(column.values), np.nan)
    found = as_numbers(column)
    if found is None and kind == "numerals":
        found = kind, some_numbers(column)
    if found is None:
        found = "text", np.zeros(1)
    same = (found[0] == "dates") == (kind == "dates") and found[0] != "text"
    if not same and not np.isnan(found[1]).all():
        raise ValueError(
            f"X has {found[0]} in the column {column.name!r}, which had {kind} in training."
        )
    return found[1]
