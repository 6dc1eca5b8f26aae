"""How far each method of two classes is from Monte Carlo, in evidence and probabilities."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpclass.displays.drawing import COLOURS, MARKERS
from gpclass.experiments.form import (
    Experiment,
    Found,
    Piece,
    Place,
    Published,
    Results,
    Size,
    Table,
    panels,
)
from gpclass.experiments.truth import estimate_text, from_prior_cells, gap_in_errors, signed
from gpclass.experiments.truth_problem import LIKELIHOODS, METHODS, measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS: Final = {
    "pima_tr": ("pima_tr", "pima_te"),
    "ionosphere": ("ionosphere",),
    "crabs_sex": ("crabs_sex",),
}
LINE_SET: Final = "pima_tr"
# Signal deviations along a line, without predictions, and those on every set.
LINE: Final = (0.3, 1.0, 3.0, 10.0, 30.0)
DEVIATIONS: Final = LINE[1:4]
STRONGEST: Final = DEVIATIONS[-1]
# These share a posterior with another: VI, and Laplace's method.
SAME_POSTERIOR: Final = ("VI, EP energy", "bound, upper")
MOST_TEMPERATURES: Final = 16000
SAMPLES: Final = {1.0: 4000, 3.0: 8000, 10.0: 16000}


def pieces(size: Size) -> Iterator[Piece]:
    """Each set, likelihood and signal deviation."""
    quick = size == "quick"
    for name in ["crabs_sex"] if quick else SETS:
        for likelihood in LIKELIHOODS:
            wanted = LINE if name == LINE_SET else DEVIATIONS
            for deviation in wanted[:1] if quick else wanted:
                arguments = {
                    "likelihood": likelihood,
                    "deviation": deviation,
                    "n_samples": 400 if quick else SAMPLES.get(deviation, 0),
                    "most_temperatures": 1 if quick else MOST_TEMPERATURES,
                    "from_prior": deviation == STRONGEST,
                }
                key = f"{name} {likelihood} {deviation:g}"
                yield Piece(key, measure, arguments, SETS[name], 20.0 + 4.0 * deviation)


class Problem(NamedTuple):
    """A piece that was run."""

    name: str
    likelihood: str
    deviation: float
    found: Mapping[str, Any]

    def error(self, method: str) -> float:
        """Log evidence of a method less the true one."""
        return float(self.found["methods"][method]["error"])

    def has(self, method: str) -> bool:
        """Whether the method takes the likelihood."""
        return method in self.found["methods"]


def problems(results: Results, deviations: Iterable[float] = DEVIATIONS) -> list[Problem]:
    """Those that were run, of some signal deviations."""
    keys = ((n, k, d, f"{n} {k} {d:g}") for n in SETS for k in LIKELIHOODS for d in deviations)
    return [Problem(n, k, d, results[key]) for n, k, d, key in keys if key in results]


HOLDS, VALUE = "holds", "value"
SUPERIOR: Final = "EP is nearer than Laplace's method, in evidence and probabilities"
GOOD_AND_POOR: Final = (
    "a method predicts well although its evidence is poor (VI, the strongest signal)"
)
LOWER: Final = "VI's evidence and the lower tangent bound are below the true one"
UPPER: Final = "the upper tangent bound is above it"
# Standard errors that a bound may seem to be broken by.
SLACK: Final = 3.0


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """Claims, and a few numbers on how the methods do and how well the truth is known."""
    every, three = problems(results, LINE), problems(results)
    if not three:
        return {}

    def holds(method: str, sign: float) -> bool:
        slack = [SLACK * one.found["truth"]["standard_error"] for one in every]
        pairs = zip(every, slack, strict=True)
        return all(sign * one.error(method) > -gap for one, gap in pairs if one.has(method))

    def mean(one: Problem, method: str) -> float:
        return float(one.found["methods"][method]["mean"])

    strong = [one for one in three if one.deviation == STRONGEST]
    closest = [_closest(one) for one in three]
    resolved = [mean(one, "EP") > 2.0 * one.found["sampling"]["mean_error"] for one in three]
    cells: dict[Place, Found | float | bool] = {
        (SUPERIOR, HOLDS): all(
            abs(one.error("EP")) < abs(one.error("Laplace"))
            and mean(one, "EP") < mean(one, "Laplace")
            for one in three
        ),
        (LOWER, HOLDS): holds("VI", -1.0) and holds("bound, lower", -1.0),
        (UPPER, HOLDS): holds("bound, upper", 1.0),
        ("problems", VALUE): len(three),
        ("the closest evidence is an EP energy, at EP's sites or at VI's", VALUE): sum(
            "EP" in method for method in closest
        ),
        ("EP's evidence is below the truth", VALUE): sum(one.error("EP") < 0 for one in three),
        ("EP's mean error of probabilities is above twice the sampling's", VALUE): sum(resolved),
        ("largest standard error of the true evidence, nats", VALUE): max(
            one.found["truth"]["standard_error"] for one in every
        ),
        ("fewest chains that bear the weight, of 100", VALUE): min(
            one.found["truth"]["effective_chains"] for one in every
        ),
    }
    if strong:
        nats = [one.error("VI") < -1.0 and mean(one, "VI") < 0.01 for one in strong]
        cells[GOOD_AND_POOR, HOLDS] = any(nats)
        cells["largest gap of annealing from the prior, standard errors", VALUE] = max(
            abs(gap_in_errors(one.found)) for one in strong
        )
    return cells


def _closest(one: Problem) -> str:
    others = [method for method in METHODS if not method.startswith("bound")]
    return min(others, key=lambda method: abs(one.error(method)))


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Errors of the evidence over the signal deviation."""
    every = problems(results, LINE)
    ran = [name for name in SETS if any(one.name == name for one in every)]
    figure, axes = panels(2, len(ran))
    for row, likelihood in zip(axes, LIKELIHOODS, strict=True):
        for ax, name in zip(row, ran, strict=True):
            mine = [one for one in every if (one.name, one.likelihood) == (name, likelihood)]
            mine.sort(key=lambda one: one.deviation)
            for label, colour, marker in zip(METHODS, COLOURS, MARKERS, strict=True):
                with_it = [one for one in mine if one.has(label)]
                x, y = [o.deviation for o in with_it], [abs(o.error(label)) for o in with_it]
                ax.plot(x, y, marker=marker, color=colour, ms=4, lw=0.8, label=label)
            ax.set(xscale="log", yscale="log", title=f"{name}, {likelihood}")
            ax.set(xlabel="$\\sigma_f$")
        row[0].set(ylabel="error of log evidence, nats")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return {"Distance of each log evidence from the true one": figure}


USES: Final = {
    "EP": "the default: the closest, with an evidence to learn by",
    "PL": "site precisions that are never negative; an evidence about as close as EP's",
    "VI": "where the evidence must be a lower bound",
    "VI, EP energy": "the predictions of VI, with a better evidence to learn by",
    "Laplace": "speed",
    "bound, lower": "a lower bound for the logit by simple sites; comparison",
    "bound, upper": "an upper bound for the logit; comparison",
}


# Of probabilities: its key, that of the sampling's own, how it is written, and what it is.
MEASURES: Final[dict[str, tuple[str, str, Callable[[float], str], str]]] = {
    "largest": ("largest", "largest_error", "{:.4f}".format, "largest errors of probabilities"),
    "mean": ("mean", "mean_error", "{:.4f}".format, "mean errors of probabilities"),
    "KL": (
        "kl",
        "kl_of_noise",
        lambda kl: f"{1e3 * kl:.3f}",
        "mean KL divergences of probabilities, in thousandths of a nat",
    ),
}


def tables(results: Results) -> Mapping[str, Table]:
    """Errors of evidences and probabilities, and for each method the largest."""
    three, strong = problems(results), problems(results, [STRONGEST])
    made: dict[str, Table] = {}
    for likelihood in LIKELIHOODS:
        mine = [one for one in three if one.likelihood == likelihood]
        labels = [m for m in METHODS if mine[0].has(m)]
        own = [m for m in labels if m not in SAME_POSTERIOR]
        made[f"evidence {likelihood}"] = (
            f"Errors of the log evidence with the {likelihood}, in nats:",
            ("rows", "σ_f", "log evidence", *labels),
            [[f"{one.name}, {one.found['n']}", *_evidence(one, labels)] for one in mine],
        )
        for error, (key, sampled, form, caption) in MEASURES.items():
            made[f"{error} {likelihood}"] = (
                f"With the {likelihood}, {caption}:",
                ("new rows", "σ_f", "of the sampling", *own),
                [_predictions(one, own, key, sampled, form) for one in mine],
            )
    on_line = [one for one in problems(results, LINE) if one.name == LINE_SET]
    on_line.sort(key=lambda one: list(LIKELIHOODS).index(one.likelihood))
    made["line"] = (
        "Along a line of signal deviations, on pima_tr:",
        ("likelihood", "σ_f", "log evidence", *METHODS),
        [[one.likelihood, *_evidence(one, list(METHODS))] for one in on_line],
    )
    made["from the prior"] = (
        "Annealing from the prior and from EP, at the strongest signal:",
        ("rows", "likelihood", "from EP", "from the prior", "effective chains", "gap / error"),
        [[one.name, one.likelihood, *from_prior_cells(one.found)] for one in strong],
    )
    made["choose"] = (
        "The largest errors of each method over all problems: of the log evidence, and the mean "
        "over the rows of those of the probabilities:",
        (
            "method",
            "take it for",
            "evidence, probit",
            "evidence, logit",
            "probabilities, probit",
            "probabilities, logit",
        ),
        [[method, use, *_worst(three, method)] for method, use in USES.items()],
    )
    return made


def _evidence(one: Problem, labels: Iterable[str]) -> list[str]:
    errors = [signed(one.error(label)) if one.has(label) else "" for label in labels]
    return [f"{one.deviation:g}", estimate_text(one.found["truth"]), *errors]


def _predictions(
    one: Problem, labels: Iterable[str], key: str, sampled: str, form: Callable[[float], str]
) -> list[str]:
    noise, methods = one.found["sampling"], one.found["methods"]
    return [
        f"{one.name}, {one.found['n_new']}",
        f"{one.deviation:g}",
        form(noise[sampled]),
        *(form(methods[label][key]) for label in labels),
    ]


def _worst(three: list[Problem], method: str) -> list[str]:
    errors: tuple[Callable[[Problem], float], ...] = (
        lambda one: abs(one.error(method)),
        lambda one: float(one.found["methods"][method]["mean"]),
    )
    cells = []
    for error in errors:
        for likelihood in LIKELIHOODS:
            mine = [one for one in three if one.likelihood == likelihood and one.has(method)]
            value = max(map(error, mine), default=None)
            cells.append("" if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}")
    return cells


SETTINGS: Final = """\
- *Tables.* `pima_tr` (200 rows; predictions at the 332 of `pima_te`), `ionosphere` (the first 200
  rows; predictions at the other 151) and `crabs_sex` (150 rows; predictions at every fourth, 50).
  Columns are standardised by the training rows.
- *Kernel.* $\\sigma_f^2$ times an RBF with one length-scale $\\sqrt d$, fixed: this is about the
  approximation, not about learning. The larger $\\sigma_f$, the farther the posterior is from a
  Gaussian.
- *True evidence.* `annealed_importance_sampling`, 100 chains that start from EP's Gaussian, with
  as many temperatures as a standard error of 0.02 takes (at most 16000). The ± is that standard
  error.
- *True probabilities.* Elliptical slice sampling, 40 chains, 4000 draws at $\\sigma_f = 1$, 8000 at
  3 and 16000 at 10; given a draw, the average over the new latent value is exact. "Of the
  sampling" is the standard error that the spread of the chains shows: its largest value, its mean
  over the rows, and the KL that noise of this size would cause. **An error that is not above it
  has not been resolved.**
- *Errors.* Of the evidence: the method's less the truth, in nats. Of the probabilities: the largest
  absolute difference over the new rows, the mean, and the mean $\\mathrm{KL}(p \\| q)$ of the
  Bernoulli distributions in thousandths of a nat. VI has the same posterior whichever its evidence,
  and the upper bound has Laplace's.
- *Claims.* EP against Laplace's method is judged in every problem at deviations 1, 3 and 10, a
  bound in all problems within three standard errors. A poor evidence is one nat off, a good
  prediction 0.01 on average.
"""


EXPERIMENT = Experiment(
    name="truth-binary",
    title="How far each method is from the truth, two classes",
    source="Claims of Kuss & Rasmussen 2005, Nickisch & Rasmussen 2008, Gibbs & MacKay 2000",
    settings=SETTINGS,
    published=(
        Published(SUPERIOR, HOLDS, True, where="Kuss & Rasmussen 2005, abstract"),
        Published(GOOD_AND_POOR, HOLDS, True, where="Nickisch & Rasmussen 2008, abstract"),
        Published(LOWER, HOLDS, True, where="Gibbs & MacKay 2000"),
        Published(UPPER, HOLDS, True, where="Gibbs & MacKay 2000"),
    ),
    pieces=pieces,
    found=found,
    figures=figures,
    tables=tables,
)
