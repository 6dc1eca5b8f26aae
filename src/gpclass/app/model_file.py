"""A fitted pipeline in a file, with the columns that it expects.

The file is written by skops, so reading one runs no code of its own: only types that skops knows to
be harmless, and ours (:func:`gpclass.trusted_types`), are built.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gpclass._version import __version__

__all__ = ["SavedModel", "load_model", "save_model"]

_FORMAT = "gpclass model"
_FORMAT_VERSION = 1
_KEYS = frozenset({"format", "format_version", "written_by", "target", "columns", "pipeline"})


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted classifier and the table that it was fitted to, by name.

    Attributes
    ----------
    pipeline : Pipeline
        Fitted, with `predict_proba` and `classes_`.
    feature_names : tuple of str
        The feature columns in the order of the fit.
    target : str
        Name of the class column.
    """

    pipeline: Any
    feature_names: tuple[str, ...]
    target: str

    def select(self, frame: Any, name: str) -> Any:
        """Return the feature columns of a table, in the order of the fit.

        Parameters
        ----------
        frame : pandas.DataFrame of shape (m, p)
            A table with the feature columns in any order; others are ignored.
        name : str
            What the table is called in messages.

        Returns
        -------
        X : pandas.DataFrame of shape (m, d)
            The columns that the pipeline expects.

        Raises
        ------
        ValueError
            If columns are missing; the message names them.
        """
        missing = [column for column in self.feature_names if column not in frame.columns]
        if missing:
            raise ValueError(
                f"{name} lacks columns that the model was fitted to: {', '.join(missing)}."
            )
        return frame[list(self.feature_names)]


def require_skops() -> Any:
    """Return the module skops.io, or raise an ImportError with the pip line to type."""
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError(
            "model files need skops; install it with: pip install 'gpclass[cli]'"
        ) from error


def save_model(model: SavedModel, path: Path) -> None:
    """Write a model file.

    Parameters
    ----------
    model : SavedModel
        What to write.
    path : Path
        Where; its folder is made if need be.

    Raises
    ------
    ImportError
        If skops is missing.
    """
    skops_io = require_skops()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "written_by": __version__,
        "target": model.target,
        "columns": list(model.feature_names),
        "pipeline": model.pipeline,
    }
    skops_io.dump(content, path, compression=8)


def load_model(path: Path) -> SavedModel:
    """Read a model file.

    Parameters
    ----------
    path : Path
        A file of :func:`save_model`.

    Returns
    -------
    model : SavedModel
        The model.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not of ours, is damaged, or holds types that are not trusted.
    ImportError
        If skops is missing.
    """
    import gpclass

    skops_io = require_skops()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    trusted = gpclass.trusted_types()
    # A damaged or foreign archive fails in many ways (zip, JSON, missing keys, numpy headers, wrong
    # types), all of which mean the same to the user; the cause is kept.
    try:
        untrusted = sorted(set(skops_io.get_untrusted_types(file=path)) - set(trusted))
    except Exception as error:
        raise ValueError(f"{path} is not a model file of gpclass, or is damaged.") from error
    if untrusted:
        raise ValueError(
            f"{path} holds types that are not trusted, so it is not read: {', '.join(untrusted)}."
        )
    try:
        content = skops_io.load(path, trusted=trusted)
    except Exception as error:
        raise ValueError(f"{path} is not a model file of gpclass, or is damaged.") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{path} is a skops file, but not one that `gpclass fit` wrote.")
    if content.get("format_version") != _FORMAT_VERSION or not content.keys() >= _KEYS:
        raise ValueError(
            f"{path} was written by gpclass {content.get('written_by', '?')} in a format that "
            f"gpclass {__version__} does not read."
        )
    return SavedModel(
        pipeline=content["pipeline"],
        feature_names=tuple(content["columns"]),
        target=content["target"],
    )
