"""Pictures of docs/index.md and docs/tutorial.md, on the breast-cancer table of scikit-learn.

python docs/generate/start.py
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from gpclass import GaussianProcessClassifier
from gpclass.displays import (
    DecisionSurfaceDisplay,
    EffectDisplay,
    ErrorRejectDisplay,
    ReliabilityDisplay,
)
from gpclass.displays.drawing import COLOURS
from gpclass.estimator.intervals import probability_intervals

PICTURES = Path(__file__).resolve().parents[1] / "pictures"


def figure(columns: int, width: float, height: float, **ratios):
    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(1, columns, **ratios)


def start() -> None:
    """A map of two columns, and new rows with their intervals."""
    frame = load_breast_cancer(as_frame=True)
    X = frame.data[["mean radius", "mean texture"]]
    y = frame.target.map({0: "malignant", 1: "benign"})
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    model = GaussianProcessClassifier().fit(X, y)
    made, (left, right) = figure(2, 10.0, 3.9, gridspec_kw={"width_ratios": [1.15, 1]})
    DecisionSurfaceDisplay.from_estimator(model, X, ("mean radius", "mean texture"), y=y, ax=left)

    rows = X_new.iloc[:60]
    p = model.predict_proba(rows)[:, 1]
    # twenty of the first sixty new rows, evenly spaced by their probability
    order = np.argsort(p)[np.linspace(0, len(p) - 1, 20).round().astype(int)]
    found = probability_intervals(model, rows.iloc[order])
    for c, colour, marker in ((0, COLOURS[0], "o"), (1, COLOURS[1], "s")):
        mine = np.flatnonzero(y_new.to_numpy()[order] == model.classes_[c])
        right.hlines(
            mine, found.lower[mine, 1], found.upper[mine, 1], color=colour, alpha=0.5, lw=3
        )
        right.plot(p[order][mine], mine, marker, color=colour, label=f"was {model.classes_[c]}")
    right.axvline(0.5, color="0.6", lw=1, ls=":")
    right.set(
        xlabel="Probability of malignant, with its 95 % interval", yticks=[], xlim=(-0.02, 1.02)
    )
    right.set_title("Twenty new patients", fontsize=10)
    right.legend(frameon=False, loc="lower right")
    made.savefig(PICTURES / "start.png", dpi=110)


def tutorial() -> None:
    """The pictures of the tutorial, of the model that its code makes."""
    frame = load_breast_cancer(as_frame=True)
    X = frame.data.iloc[:, :10]
    y = frame.target.map({0: "malignant", 1: "benign"})
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    model = GaussianProcessClassifier().fit(X, y)
    made, axes = figure(2, 8.4, 3.5)
    ReliabilityDisplay.from_estimator(model, X_test, y_test, n_bins=5, name=None, ax=axes[0])
    ErrorRejectDisplay.from_estimator(model, X_test, y_test, name=None, ax=axes[1])
    made.savefig(PICTURES / "tutorial_test.png", dpi=110)
    made, axes = figure(2, 8.4, 3.5, sharey=True)
    for column, ax in zip(("mean concave points", "mean area"), axes, strict=True):
        EffectDisplay.from_estimator(model, X, column, ax=ax)
    made.savefig(PICTURES / "tutorial_effects.png", dpi=110)


if __name__ == "__main__":
    start()
    tutorial()
