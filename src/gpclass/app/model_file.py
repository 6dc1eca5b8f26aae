"""A fitted classifier in a file: skops builds only types that it knows, and `trusted_types`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpclass._version import __version__
from gpclass.app.tables import require, whole_file
from gpclass.estimator.saving import trusted_types

if TYPE_CHECKING:
    from gpclass import GaussianProcessClassifier

_FORMAT = {"format": "gpclass model", "format_version": 5}


def require_skops() -> Any:
    """Return the module skops.io, or raise an ImportError with the pip line to type."""
    return require("skops.io", "model files need skops")


def save_model(classifier: "GaussianProcessClassifier", target: str, path: Path) -> None:
    """Write a fitted classifier and the name of the class column; make the folder if need be."""
    skops_io = require_skops()
    content = _FORMAT | {"written_by": __version__, "target": target, "model": classifier}
    with whole_file(path) as part:
        skops_io.dump(content, part, compression=8)


class SavedModel(NamedTuple):
    """The classifier of a file, and the name of the class column."""

    classifier: "GaussianProcessClassifier"
    target: str


def load_model(path: Path) -> "GaussianProcessClassifier":
    """Read the classifier of a file that `save_model` wrote; raises as `read_model_file`."""
    return read_model_file(path).classifier


def read_model_file(path: Path) -> SavedModel:
    """Read a file that `save_model` wrote.

    FileNotFoundError or ValueError: not ours, damaged, or with types that are not trusted.
    """
    skops_io = require_skops()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    trusted = trusted_types()
    # A damaged or foreign archive fails in many ways (zip, JSON, missing keys, numpy headers, wrong
    # types), all of which mean the same to the user; the cause is kept.
    try:
        untrusted = sorted(set(skops_io.get_untrusted_types(file=path)) - set(trusted))
        content = None if untrusted else skops_io.load(path, trusted=trusted)
    except Exception as error:
        raise ValueError(f"{path} is not a model file of gpclass, or is damaged.") from error
    if untrusted and all(name.startswith("gpclass.") for name in untrusted):
        raise ValueError(f"{path} was written by another version of gpclass: fit it anew.")
    if untrusted:
        raise ValueError(
            f"{path} holds types that are not trusted, so it is not read: {', '.join(untrusted)}."
        )
    if not isinstance(content, dict) or content.get("format") != _FORMAT["format"]:
        raise ValueError(f"{path} is a skops file, but not one that `gpclass fit` wrote.")
    if content.get("format_version") != _FORMAT["format_version"] or "model" not in content:
        raise ValueError(
            f"{path} was written by gpclass {content.get('written_by', '?')} in a format that "
            f"gpclass {__version__} does not read."
        )
    return SavedModel(content["model"], str(content["target"]))
