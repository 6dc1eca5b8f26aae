"""Settings of the parts as parameters of the estimator: `likelihood__epsilon`, `inference__tol`."""

import numbers
import os
from abc import ABC
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Self

from sklearn.base import BaseEstimator

from gpclass.inference import METHODS
from gpclass.kernels import from_recipe, to_recipe
from gpclass.likelihoods import LIKELIHOODS
from gpclass.montecarlo import MonteCarlo

NAMED: Final[dict[str, dict[str, type[Any]]]] = {
    "likelihood": {**LIKELIHOODS},
    "inference": {**METHODS, "mcmc": MonteCarlo},
}


class PartSettings(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator whose arguments ``likelihood`` and ``inference`` are names or frozen objects.

    To change a setting replaces the object by another. A name becomes an object.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments by name, and with ``deep`` the settings of their values.

        All of them can be set and searched: ``likelihood__epsilon``, ``inference__schedule``,
        ``kernel__k1__constant_value``.
        """
        params: dict[str, Any] = super().get_params(deep)
        if deep:
            for name in NAMED:
                settings = _settings(self, name)
                params.update((f"{name}__{key}", value) for key, value in settings.items())
        return params

    def set_params(self, **params: Any) -> Self:
        """Set arguments and settings by name; ValueError for a name that does not exist."""
        given: dict[str, dict[str, Any]] = {name: {} for name in NAMED}
        own = {}
        for key, value in params.items():
            name, nested, setting = key.partition("__")
            if nested and name in NAMED:
                given[name][setting] = value
            else:
                own[key] = value
        super().set_params(**own)
        for name, changes in given.items():
            if changes:
                setattr(self, name, _changed(self, name, changes))
        return self

    def __getstate__(self) -> dict[str, Any]:
        """What is saved: the arguments as plain data, where they are other objects."""
        state: dict[str, Any] = dict(super().__getstate__())
        state["kernel"] = to_recipe(self.kernel)
        if isinstance(self.checkpoint, os.PathLike):
            state["checkpoint"] = os.fspath(self.checkpoint)
        if hasattr(self.inducing, "columns"):
            state["inducing"] = self.inducing.to_dict("split")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was saved."""
        restored = state | {"kernel": from_recipe(state["kernel"])}
        if isinstance(restored["inducing"], dict):
            from pandas import DataFrame

            restored["inducing"] = DataFrame(**restored["inducing"])
        super().__setstate__(restored)


def _settings(estimator: BaseEstimator, name: str) -> dict[str, Any]:
    """Settings of a part; none where its name does not exist, or it is no dataclass."""
    part = getattr(estimator, name)
    if not isinstance(part, str):
        return _fields(part)
    kind = NAMED[name].get(part)
    if kind is None:
        return {}
    settings = _fields(kind())
    # what the estimator gives to a method that is named
    if kind is MonteCarlo:
        seed = estimator.random_state
        settings["random_state"] = int(seed) if isinstance(seed, numbers.Integral) else 0
    elif name == "inference":
        settings["max_iter"] = estimator.max_iter_predict
    return settings


def _fields(part: object) -> dict[str, Any]:
    if isinstance(part, type):
        return {}
    if hasattr(part, "get_params"):
        return dict(part.get_params())
    if not is_dataclass(part):
        return {}
    return {field.name: getattr(part, field.name) for field in fields(part) if field.init}


def _changed(estimator: BaseEstimator, name: str, changes: dict[str, Any]) -> Any:
    """Part with other settings. A name remains where they are its defaults."""
    part, known = getattr(estimator, name), _settings(estimator, name)
    if isinstance(part, str) and part not in NAMED[name]:
        raise ValueError(
            f"{name}={part!r} does not exist; the values that do are: "
            + ", ".join(map(repr, NAMED[name]))
        )
    unknown = sorted(changes.keys() - known.keys())
    if unknown:
        shown = NAMED[name][part]() if isinstance(part, str) else part
        raise ValueError(f"the {name} {shown!r} has no settings {unknown}; it has {sorted(known)}")
    if not isinstance(part, str):
        return replace(part, **changes)
    return part if known | changes == known else NAMED[name][part](**known | changes)
