"""Pictures of docs/displays.md: every display on the pima table, and the page of the model.

    GPCLASS_DATA=... python docs/generate/displays.py

Takes about a minute. The page's pictures need Chromium.
"""

import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpclass import GaussianProcessClassifier
from gpclass.app.datasets import load_dataset
from gpclass.app.picture import new_figure
from gpclass.app.report import report_page
from gpclass.displays import (
    DecisionSurfaceDisplay,
    EffectDisplay,
    EvidenceSurfaceDisplay,
    OutlierDisplay,
    RelevanceDisplay,
)

PICTURES = Path(__file__).resolve().parents[1] / "pictures"


def save(name: str, draw: Any, height: float = 3.6) -> None:
    """Draw on new axes, and save the figure."""
    figure, ax = new_figure(height)
    draw(ax)
    figure.savefig(PICTURES / f"{name}.png", dpi=110)


def screenshot(page: str, name: str, width: int, height: int) -> None:
    """Show a page in Chromium; narrow ones inside another, since its windows are not so narrow."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        frame = f'<body style="margin:0"><iframe srcdoc="{escape(page)}" style="border:0;'
        path.write_text(f'{frame}width:{width}px;height:{height}px"></iframe>', encoding="utf-8")
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={folder}/profile", f"--window-size={max(width, 500)},{height}",
             f"--screenshot={PICTURES / name}.png", path.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    data = load_dataset("pima")
    X, y = data.X, data.y
    model = GaussianProcessClassifier(random_state=0).fit(X, y)
    save("effect", lambda ax: EffectDisplay.from_estimator(model, X, "glu", ax=ax))
    save("effect_age", lambda ax: EffectDisplay.from_estimator(model, X, "age", ax=ax))
    save(
        "decision_surface",
        lambda ax: DecisionSurfaceDisplay.from_estimator(model, X, ("glu", "age"), y=y, ax=ax),
        4.2,
    )
    save("relevance", lambda ax: RelevanceDisplay.from_estimator(model, ax=ax), 2.8)
    save("outliers", lambda ax: OutlierDisplay.from_estimator(model, ax=ax))
    pair = ("k1__k1__k2__length_scale[1]", "k1__k1__k1__constant_value")
    save("evidence", lambda ax: EvidenceSurfaceDisplay.from_estimator(model, pair, ax=ax), 4.0)
    if shutil.which("chromium") is None:
        sys.exit("chromium is not installed: the pictures of the page are as they were")
    page = report_page(model, X, title="pima")
    screenshot(page, "page_phone", 390, 1500)
    screenshot(page, "page_desktop", 1100, 1500)


if __name__ == "__main__":
    main()
