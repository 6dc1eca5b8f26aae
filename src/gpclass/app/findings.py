"""What a fitted model learnt of its columns, in words: each sentence is computed from the model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.displays import EffectDisplay, OutlierDisplay
from gpclass.displays.tables import text_of
from gpclass.estimator.inputs import listed

# A column that changes the probability of a row by less (as `EffectDisplay.influence` has it) does
# not matter, or matters little.
NO_INFLUENCE: Final = 0.01
LITTLE_INFLUENCE: Final = 0.03
# Share of a column's values at either end of which no direction is told.
TAIL: Final = 0.025
# Where the interval of a row's probability is so wide, and so many times as wide as it is at the
# column's own values, the model does not know.
UNSURE: Final = 0.5
UNUSUAL: Final = 1.5


@final
@dataclass(frozen=True, eq=False)
class ColumnFinding:
    """The effect of one column, and the class whose probability it changes most."""

    effect: EffectDisplay
    influence: float
    code: int

    @classmethod
    def of(cls, effect: EffectDisplay) -> "ColumnFinding":
        """Of two classes the second is told; both change alike."""
        code = 1 if len(effect.classes) == 2 else int(effect.influence.argmax())
        return cls(effect, float(effect.influence[code]), code)

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.effect.column

    @property
    def curve(self) -> NDArray[np.float64]:
        """Average probability of the class at each value."""
        return self.effect.probability[:, self.code]

    def direction(self) -> str:
        """What the average probability does over the middle 95 % of the column's values."""
        values, curve = self.effect.values, self.curve
        if values.dtype != object:
            below = np.cumsum(self.effect.shares)
            middle = (below >= TAIL) & (below - self.effect.shares <= 1.0 - TAIL)
            values, curve = values[middle], curve[middle]
        low, high = int(curve.argmin()), int(curve.argmax())
        said = f"the average probability of {self.effect.classes[self.code]!s}"
        if values.dtype == object:
            return (
                f"{said} is {curve[low]:.2f} at {values[low]} and {curve[high]:.2f} at "
                f"{values[high]}"
            )
        steps = np.diff(curve)
        rises = steps[steps > 0].sum() / (np.abs(steps).sum() or 1.0)
        first, last = text_of(values[0]), text_of(values[-1])
        ends = f"from {curve[0]:.2f} at {first} to {curve[-1]:.2f} at {last}"
        if rises > 0.9:
            return f"{said} rises with it, {ends}"
        if rises < 0.1:
            return f"{said} falls with it, {ends}"
        return (
            f"{said} is lowest at {text_of(values[low])} ({curve[low]:.2f}) and highest at "
            f"{text_of(values[high])} ({curve[high]:.2f})"
        )

    def unknown(self) -> list[str]:
        """Ranges of the column, or levels, of which the model does not know."""
        effect = self.effect
        width = (effect.upper - effect.lower).max(axis=1)
        unsure = (width > UNSURE) & (width > UNUSUAL * (effect.shares @ width))
        if effect.as_points:
            return [f"{self.name} = {text_of(v)}" for v in effect.values[unsure]]
        ends = np.flatnonzero(np.diff(np.r_[False, unsure, False].astype(int)))
        return [
            self._range(int(first), int(last) - 1)
            for first, last in zip(ends[::2], ends[1::2], strict=True)
        ]

    def _range(self, first: int, last: int) -> str:
        values = self.effect.values
        if last == len(values) - 1:
            return f"{self.name} above {text_of(values[first])}"
        if first == 0:
            return f"{self.name} below {text_of(values[last])}"
        if first == last:
            return f"{self.name} near {text_of(values[first])}"
        return f"{self.name} from {text_of(values[first])} to {text_of(values[last])}"


def of_columns(effects: Sequence[EffectDisplay]) -> list[ColumnFinding]:
    """Findings, the column that changes probabilities most first."""
    found = [ColumnFinding.of(effect) for effect in effects]
    return sorted(found, key=lambda one: -one.influence)


def column_sentences(found: Sequence[ColumnFinding], constant: Sequence[str]) -> Iterator[str]:
    """Which columns matter, how, and of which values the model does not know."""
    strong = [one for one in found if one.influence >= LITTLE_INFLUENCE]
    little = [one for one in found if NO_INFLUENCE <= one.influence < LITTLE_INFLUENCE]
    none = [one for one in found if one.influence < NO_INFLUENCE]
    if strong:
        first, *others = strong
        yield f"{first.name} matters most: {first.direction()}."
        for one in others[:2]:
            yield f"{one.name} matters too: {one.direction()}."
        if others[2:]:
            yield f"Then {_come(others[2:])} {listed(one.name for one in others[2:])}."
    else:
        yield f"No column changes the probability of a row by {LITTLE_INFLUENCE} or more."
    if little:
        yield f"{_counted(little, 'matters', 'matter')} little: {listed(o.name for o in little)}."
    if none:
        yield (
            f"{_counted(none, 'does', 'do')} not matter: {listed(one.name for one in none)} "
            f"(on average over the rows, the probability of a row changes by less than "
            f"{NO_INFLUENCE})."
        )
    if constant:
        yield f"{_counted(constant, 'has', 'have')} one value alone: {listed(constant)}."
    unknown = [text for one in found for text in one.unknown()]
    if unknown:
        confidence = found[0].effect.confidence
        yield (
            f"The model does not know about rows with {listed(unknown)}: there the "
            f"{confidence:.0%} interval of a row's probability is wider than {UNSURE} on average."
        )


def _come(others: Sequence[Any]) -> str:
    return "come" if len(others) > 1 else "comes"


_NUMBERS: Final = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def _counted(columns: Sequence[Any], one: str, several: str) -> str:
    k = len(columns)
    number = _NUMBERS[k] if k < len(_NUMBERS) else str(k)
    return f"{number} column{'s' if k > 1 else ''} {several if k > 1 else one}"


def outlier_sentence(found: OutlierDisplay, proba: NDArray[np.float64]) -> str:
    """How many rows have a class that the others make improbable, and how many are expected."""
    # by the model's own leave-one-out probabilities
    expected = float((proba * (proba < found.threshold)).sum())
    rows = found.outliers
    told = f": {listed(rows)}" if len(rows) else ""
    have = f"{len(rows)} have classes" if len(rows) > 1 else f"{len(rows) or 'none'} has a class"
    return (
        f"Of {len(found.own)} training rows, {have} with a probability below "
        f"{found.threshold:g} given all other rows (about {expected:.0f} would if the "
        f"probabilities were right){told}."
    )
