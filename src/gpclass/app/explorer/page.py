"""The page: its layout, and what happens when something on it is moved."""

from importlib import import_module
from typing import Any, Final

import numpy as np

from gpclass.app.explorer import figures
from gpclass.app.explorer.state import PLACES, Explorer, Setting, Shown, Surface
from gpclass.app.explorer.subjects import Subject, families
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.joint import LatentDifferences, MultinomialProbit, Softmax
from gpclass.learning import JointProblem
from gpclass.likelihoods import LIKELIHOODS

STEP: Final = 0.05
METHOD_NAMES: Final = {
    "laplace": "Laplace",
    "ep": "EP",
    "pl": "posterior linearisation",
    "vi": "variational",
    "bound": "tangent bound",
}
JOINT_NAMES: Final = {
    Softmax: "softmax",
    MultinomialProbit: "multinomial probit",
    LatentDifferences: "latent differences",
}
# Sliders of the likelihoods that are not chosen.
NOT_CHOSEN: Final = ", ".join(
    f"main:not(:has(#likelihood input[value={name}]:checked)) .of-{name}" for name in LIKELIHOODS
)
STYLE: Final = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: .8rem;
  color: #1b1b1b; background: #fff }
h1 { font-size: 1.5rem; margin: .2rem 0 } h2 { font-size: 1.05rem; margin: .6rem 0 .2rem }
fieldset { border: 1px solid #bbb; border-radius: 6px; margin: .5rem 0; min-width: 0 }
.choices label { margin-right: 1rem; white-space: nowrap }
.slider { padding: .3rem .7rem; min-width: 0 }
.sliders, .grid { display: grid; gap: .3rem 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, var(--least)), 1fr)) }
.sliders { --least: 21rem; max-height: 26rem; overflow-y: auto } .grid { --least: 28rem }
.grid > section { min-width: 0 }
dl { display: flex; flex-wrap: wrap; gap: .4rem 2rem; margin: .6rem 0 }
dt { color: #555; font-size: .85rem } dd { margin: 0; font-size: 1.3rem;
  font-variant-numeric: tabular-nums }
.message { color: #9a3b00; min-height: 1.4em; margin: .2rem 0 }
.pictures { display: flex; flex-wrap: wrap; gap: .6rem }
.pictures figure { margin: 0; width: 8.5rem; font-size: .8rem }
.pictures img { width: 6rem; height: 6rem; image-rendering: pixelated; border: 1px solid #bbb }
.columns { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem }
button { font: inherit; padding: .35rem .8rem }
"""
INDEX: Final = f"""<!DOCTYPE html>
<html lang="en"><head>{{%metas%}}<title>{{%title%}}</title>{{%favicon%}}{{%css%}}
<style>{STYLE}{NOT_CHOSEN} {{ display: none }}</style></head>
<body>{{%app_entry%}}<footer>{{%config%}}{{%scripts%}}{{%renderer%}}</footer></body></html>"""


def require_dash() -> Any:
    """Return the module dash, or raise an ImportError with the pip line to type."""
    try:
        return import_module("dash")
    except ImportError as error:
        raise ImportError(
            "the explorer needs dash; install it with: pip install 'gpclass[explorer]'"
        ) from error


def make_app(subject: Subject) -> Any:
    """The Dash application that shows a subject."""
    dash = require_dash()
    app = dash.Dash(
        "gpclass.app.explorer",
        title=f"gpclass explore: {subject.title}",
        update_title=None,
        index_string=INDEX,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = _layout(dash.html, dash.dcc, subject)
    _connect(dash, app, Explorer(subject))
    return app


def _layout(html: Any, dcc: Any, subject: Subject) -> Any:
    n, two = subject.problem.n_rows, len(subject.classes) == 2
    left_out = "each row left out in turn"
    scored = left_out if subject.X_new is None else f"{len(subject.X_new)} test rows"
    named = " against ".join(subject.classes[::-1]) if two else ", ".join(subject.classes)
    method, likelihood = families(subject.problem)
    sections = [
        _section(html, dcc, "Probabilities", "probabilities"),
        _section(html, dcc, "Error-reject curve", "error-reject"),
    ]
    if _has_surface(subject):
        button = html.Button("Compute the surface", id="compute")
        sections.append(
            _section(html, dcc, "Log evidence", "surface", button, html.Span(id="surface-note"))
        )
    if not _has_plane(subject):
        sections.append(_section(html, dcc, "Posterior means", "means"))
    else:
        options = [{"label": name, "value": j} for j, name in enumerate(subject.columns)]
        pickers = [
            dcc.Dropdown(options, start, id=f"column-{axis}", clearable=False)
            for start, axis in enumerate("xy")
        ]
        sections.append(
            _section(
                html,
                dcc,
                "Posterior mean, the other columns at their median",
                "plane",
                html.Div(pickers, className="columns"),
            )
        )
    below = [html.H2("The least certain predictions"), html.Div(id="pictures")]
    return html.Main(
        [
            html.H1(subject.title),
            html.P(f"{named}: {n} rows; scores of {scored}."),
            _choices(html, dcc, "Method", "method", METHOD_NAMES, method),
            _choices(html, dcc, "Likelihood", "likelihood", {k: k for k in LIKELIHOODS},
                     likelihood),
            html.Fieldset(
                [
                    html.Legend("Hyperparameters"),
                    html.Div([_slider(html, dcc, k, subject) for k in range(
                        len(subject.parameters))], className="sliders"),
                ]
            ),
            html.Dl(id="numbers", **{"aria-live": "polite"}),
            html.P(id="message", className="message", role="alert"),
            _choices(html, dcc, "Class that is drawn", "class",
                     {str(c): name for c, name in enumerate(subject.classes)}, "1", hidden=two),
            html.Div(sections, className="grid"),
            *(below if subject.picture else []),
            dcc.Store(id="found"),
        ]
    )  # fmt: skip


def _has_plane(subject: Subject) -> bool:
    return len(subject.columns) > 1 and subject.picture is None


def _has_surface(subject: Subject) -> bool:
    return sum(one.likelihood is None for one in subject.parameters) > 1


def _section(html: Any, dcc: Any, title: str, name: str, *above: Any) -> Any:
    graph = dcc.Graph(
        id=name,
        config={"displayModeBar": False, "responsive": True},
        style={"height": "20rem"},
    )
    return html.Section([html.H2(title), *above, graph])


def _choices(
    html: Any,
    dcc: Any,
    title: str,
    name: str,
    words: dict[str, str],
    start: str,
    hidden: bool = False,
) -> Any:
    options = [{"label": word, "value": value} for value, word in words.items()]
    radio = dcc.RadioItems(options, start, id=name, inline=True, className="choices")
    return html.Fieldset([html.Legend(title), radio], hidden=hidden)


def _slider(html: Any, dcc: Any, k: int, subject: Subject) -> Any:
    one = subject.parameters[k]
    said = html.Span(one.label, id=f"label-{k}")
    ends = {one.low: f"{one.low:.3g}", one.high: f"{one.high:.3g}"}
    bar = dcc.Slider(
        id=f"slider-{k}", min=one.low, max=one.high, step=STEP, value=one.start, marks=ends,
        updatemode="mouseup",
    )  # fmt: skip
    shown = "slider" if one.likelihood is None else f"slider of-{one.likelihood}"
    return html.Div([said, bar], className=shown, role="group", **{"aria-labelledby": f"label-{k}"})


def setting_of(values: list[Any], method: str, likelihood: str) -> Setting:
    """The setting of what the page sends."""
    return Setting(tuple(round(float(v), 6) for v in values), method, likelihood)


def _connect(dash: Any, app: Any, explorer: Explorer) -> None:
    Input, Output = dash.Input, dash.Output
    subject = explorer.subject
    sliders = [Input(f"slider-{k}", "value") for k in range(len(subject.parameters))]
    moved = {
        "values": sliders,
        "method": Input("method", "value"),
        "likelihood": Input("likelihood", "value"),
    }

    shown = [Output("numbers", "children"), Output("message", "children")]
    shown += [Output("probabilities", "figure"), Output("error-reject", "figure")]
    if not _has_plane(subject):
        shown.append(Output("means", "figure"))
    if subject.picture:
        shown.append(Output("pictures", "children"))

    drawn_class = {"c": Input("class", "value")}

    @app.callback(output=shown, inputs=moved | drawn_class)  # type: ignore[untyped-decorator]
    def answer(values: list[Any], method: str, likelihood: str, c: str) -> list[Any]:
        try:
            found = explorer.at(setting_of(values, method, likelihood))
        except (ValueError, ArithmeticError, NotPositiveDefiniteError) as error:
            return [[], str(error), *[dash.no_update] * (len(shown) - 2)]
        message = "" if found.outcome.converged else f"{method} {found.outcome.value}."
        drawn = [figures.probabilities(subject, found, int(c)), figures.error_reject(found)]
        if not _has_plane(subject):
            drawn.append(figures.means(subject, found, int(c)))
        if subject.picture:
            drawn.append(_pictures(dash.html, subject, found))
        return [_numbers(dash.html, found), message, *drawn]

    if _has_plane(subject):

        @app.callback(  # type: ignore[untyped-decorator]
            output=Output("plane", "figure"),
            inputs=moved
            | drawn_class
            | {"a": Input("column-x", "value"), "b": Input("column-y", "value")},
        )
        def draw_plane(
            values: list[Any], method: str, likelihood: str, c: str, a: int, b: int
        ) -> Any:
            try:
                found = explorer.at(setting_of(values, method, likelihood))
            except (ValueError, ArithmeticError, NotPositiveDefiniteError):
                return dash.no_update
            return figures.plane(subject, found, a, b, int(c))

    if _has_surface(subject):
        _connect_surface(dash, app, explorer, moved)


def _connect_surface(dash: Any, app: Any, explorer: Explorer, moved: dict[str, Any]) -> None:
    Input, Output, State = dash.Input, dash.Output, dash.State
    now = {
        "values": [State(one.component_id, "value") for one in moved["values"]],
        "method": State("method", "value"),
        "likelihood": State("likelihood", "value"),
    }

    @app.callback(  # type: ignore[untyped-decorator]
        output=Output("found", "data"),
        inputs={"clicks": Input("compute", "n_clicks")},
        state=now,
        running=[
            (Output("compute", "disabled"), True, False),
            (Output("compute", "children"), "Computing …", "Compute the surface"),
        ],
        prevent_initial_call=True,
    )
    def compute(clicks: int, values: list[Any], method: str, likelihood: str) -> Any:
        setting = setting_of(values, method, likelihood)
        try:
            found = explorer.surface(setting)
        except ValueError as error:
            return {"error": str(error)}
        return {
            "setting": list(setting),
            "x": found.x.tolist(),
            "y": found.y.tolist(),
            "values": figures.nulls(found.values),
        }

    @app.callback(  # type: ignore[untyped-decorator]
        output=[Output("surface", "figure"), Output("surface-note", "children")],
        inputs=moved | {"data": Input("found", "data")},
    )
    def draw(values: list[Any], method: str, likelihood: str, data: Any) -> Any:
        setting = setting_of(values, method, likelihood)
        if data is None or "error" in data:
            note = "" if data is None else f" {data['error']}"
            return figures.surface(explorer.subject, setting, None), note
        then = Setting(tuple(data["setting"][0]), *data["setting"][1:])
        arrays = (np.array(data[name], dtype=float) for name in ("x", "y", "values"))
        grid = Surface(PLACES, *arrays)
        there = [f"{METHOD_NAMES[then.method]}, {then.likelihood}"]
        if then.values[2:] != setting.values[2:]:
            there.append("at other values of the other sliders")
        return figures.surface(explorer.subject, setting, grid), f" of {', '.join(there)}"


def _numbers(html: Any, found: Shown) -> list[Any]:
    rows = len(found.codes)
    said = {
        "log evidence": (f"{found.log_evidence:.3f}", "evidence"),
        "log loss": (f"{found.log_loss:.4f}", "loss"),
        "errors": (f"{found.errors} of {rows}", "errors"),
        "milliseconds": (f"{1000 * found.seconds:.0f}", "time"),
    }
    if isinstance(found.problem, JointProblem):
        said["joint model"] = (JOINT_NAMES[type(found.problem.scheme)], "model")
    return [
        html.Div([html.Dt(name), html.Dd(text, id=f"number-{key}")])
        for name, (text, key) in said.items()
    ]


def _pictures(html: Any, subject: Subject, found: Shown) -> Any:
    return html.Div(
        [
            html.Figure([html.Img(src=address, alt=caption), html.Figcaption(caption)])
            for address, caption in figures.pictures(subject, found)
        ],
        className="pictures",
    )
