"""The drawings of the page: plain dictionaries, as plotly.js takes them, from what was computed."""

import base64
import io
from importlib import import_module
from typing import Any, Final

import numpy as np

from gpclass.app.explorer.state import PLACES, Setting, Shown, Surface
from gpclass.app.explorer.subjects import Subject
from gpclass.displays.drawing import COLOURS
from gpclass.linalg import Array

Drawing = dict[str, Any]
# Below the largest evidence by more than this, in nats, the surface has one colour.
DEPTH: Final = 30.0
# Pictures of the rows with the least certain predictions.
PICTURES: Final = 12


def _drawing(data: list[Drawing], x: str, y: str, **layout: Any) -> Drawing:
    given: Drawing = {
        "margin": {"l": 56, "r": 12, "t": 12, "b": 48},
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": {"title": {"text": x}, "zeroline": False},
        "yaxis": {"title": {"text": y}, "zeroline": False},
        # zoom stays while sliders move
        "uirevision": "stays",
    }
    for name, value in layout.items():
        given[name] = given.get(name, {}) | value if isinstance(value, dict) else value
    return {"data": data, "layout": given}


def probabilities(subject: Subject, shown: Shown, c: int = 1) -> Drawing:
    """Histograms of the probability of class c, for its rows and for the others."""
    bars = _bars(subject, shown, c, shown.P[:, c], np.linspace(0.0, 1.0, 21))
    return _drawing(
        bars, f"probability of {subject.classes[c]}", "rows", barmode="stack",
        xaxis={"range": [0, 1]},
    )  # fmt: skip


def means(subject: Subject, shown: Shown, c: int = 1) -> Drawing:
    """Histograms of the posterior mean of class c's latent, as RW06 Figure 3.7 (c) has them."""
    values = shown.means[:, c]
    bars = _bars(subject, shown, c, values, np.histogram_bin_edges(values, 30))
    return _drawing(bars, "posterior mean", "rows", barmode="stack")


def _bars(subject: Subject, shown: Shown, c: int, values: Array, edges: Array) -> list[Drawing]:
    """Counts of the values of class c's rows and of the others."""
    found, width = [], edges[1] - edges[0]
    for own, name, colour in zip((False, True), _against(subject, c), COLOURS, strict=False):
        counts = np.histogram(values[(shown.codes == c) == own], edges)[0]
        bar = {"x": (edges[:-1] + 0.5 * width).tolist(), "y": counts.tolist(), "width": width}
        found.append({"type": "bar", "name": name, "marker": {"color": colour}, **bar})
    return found


def _against(subject: Subject, c: int) -> tuple[str, str]:
    """What class c is set against, and its name."""
    two = len(subject.classes) == 2
    return subject.classes[1 - c] if two else "other classes", subject.classes[c]


def error_reject(shown: Shown) -> Drawing:
    """Error rate of the rows that are kept as the least certain are rejected."""
    curve = shown.curve
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": (100.0 * curve.reject_fraction).tolist(),
        "y": (100.0 * curve.error_rate).tolist(),
        "line": {"color": COLOURS[0]},
    }
    return _drawing([line], "rejected, %", "error of the others, %", yaxis={"rangemode": "tozero"})


def plane(subject: Subject, shown: Shown, a: int, b: int, c: int = 1) -> Drawing:
    """The posterior mean of class c's latent over two columns, and the training rows."""
    x, y, mean = shown.plane(a, b, c)
    X, of_class = shown.problem.inputs, subject.codes == c
    reach = float(np.abs(mean).max()) or 1.0
    data: list[Drawing] = [
        {
            "type": "contour",
            "x": x.tolist(),
            "y": y.tolist(),
            "z": mean.tolist(),
            "zmin": -reach,
            "zmax": reach,
            # from the colour of the other rows to that of the class
            "colorscale": [[0.0, COLOURS[0]], [0.5, "#ffffff"], [1.0, COLOURS[1]]],
            "opacity": 0.75,
            "colorbar": {"title": {"text": "mean"}, "thickness": 12},
        }
    ]
    for own, name, colour in zip((False, True), _against(subject, c), COLOURS, strict=False):
        rows = of_class == own
        marker = {"color": colour, "size": 5, "line": {"color": "#ffffff", "width": 0.7}}
        points = {"x": X[rows, a].tolist(), "y": X[rows, b].tolist(), "marker": marker}
        data.append({"type": "scatter", "mode": "markers", "name": name, **points})
    return _drawing(data, subject.columns[a], subject.columns[b])


def surface(subject: Subject, setting: Setting, found: Surface | None) -> Drawing:
    """The evidence over two sliders, if it was found, and the point where these are."""
    a, b = PLACES if found is None else found.places
    data: list[Drawing] = []
    if found is not None:
        top = float(np.nanmax(found.values))
        heights = np.maximum(found.values, top - DEPTH)
        data.append(
            {
                "type": "contour",
                "x": found.x.tolist(),
                "y": found.y.tolist(),
                "z": nulls(heights),
                "zmin": top - DEPTH,
                "zmax": top,
                "colorscale": [[0.0, "#ffffff"], [1.0, COLOURS[0]]],
                "ncontours": 12,
                "colorbar": {"title": {"text": "nats"}, "thickness": 12},
            }
        )
    here = {"x": [setting.values[a]], "y": [setting.values[b]]}
    marker = {"symbol": "star", "size": 16, "color": COLOURS[1], "line": {"color": "#ffffff"}}
    data.append({"type": "scatter", "mode": "markers", "name": "here", "marker": marker, **here})
    one, other = subject.parameters[a], subject.parameters[b]
    return _drawing(
        data, one.label, other.label, showlegend=False,
        xaxis={"range": [one.low, one.high]}, yaxis={"range": [other.low, other.high]},
    )  # fmt: skip


def nulls(values: Array) -> list[list[float | None]]:
    """Lists with None for NaN, which JSON does not have."""
    return [[float(v) if np.isfinite(v) else None for v in row] for row in values]


def pictures(subject: Subject, shown: Shown) -> list[tuple[str, str]]:
    """Addresses and captions of the pictures with the least certain predictions."""
    if subject.picture is None:
        return []
    image = import_module("matplotlib.image")
    X = subject.problem.inputs if subject.X_new is None else subject.X_new
    found = []
    for i in shown.least_certain(PICTURES):
        file = io.BytesIO()
        image.imsave(file, X[i].reshape(subject.picture), cmap="gray_r", format="png")
        address = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
        likeliest = int(shown.P[i].argmax())
        own, other = subject.classes[shown.codes[i]], subject.classes[likeliest]
        found.append((address, f"{own}: P({other}) = {shown.P[i, likeliest]:.2f}"))
    return found
