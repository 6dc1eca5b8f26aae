"""Joint models of many classes: an evidence and gradient, probabilities, and whole fits."""

import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from benchmarks.evidence import COLUMNS, DISTANCE
from benchmarks.figures import Figures, Limit, seconds, times
from benchmarks.floor import PARTS, floor_contestants
from benchmarks.problems import Array, Problem, learnt_kernel, make_problem, nearby
from benchmarks.turns import Contestant, median, ratio, take_turns
from gpclass import GaussianProcessClassifier as Ours
from gpclass.inference import EP, Laplace
from gpclass.inference.joint import MultinomialProbit, Softmax
from gpclass.learning import JointProblem, SearchSettings
from gpclass.likelihoods import Logit, Probit

N, DRY_N = 1000, 40
CLASSES: Final = (3, 10, 30)
# floors for each class, and one more for what the classes share
LIMITS: Final = {
    ("softmax", 10): 2.5,
    ("nested", 3): 8.0,
    ("nested", 10): 8.0,
    ("nested", 30): 12.0,
}
MODELS: Final = ("softmax", "nested", "nested to 1e-8")
JUDGED: Final = 10
ROWS: Final = tuple(f"{model}-{C}" for model in MODELS for C in CLASSES)[:-1]
NEW_ROWS: Final = 10_000
PROBABILITY_LIMIT: Final = 10.0
TRAIN: Final = 1000


def labels_of(X: Array, n_classes: int) -> NDArray[np.intp]:
    """Classes by the largest of smooth functions with noise, each function random but fixed."""
    random = np.random.default_rng([7, n_classes])
    directions = random.standard_normal((4, n_classes))
    bends = random.standard_normal((4, n_classes))
    latent = X[:, :4] @ directions + np.sin(1.5 * X[:, :4]) @ bends
    latent += random.gumbel(size=latent.shape)
    codes = latent.argmax(axis=1)
    codes[:n_classes] = np.arange(n_classes)  # every class has a row
    return codes


def joint_problem(problem: Problem, model: str, n_classes: int) -> JointProblem:
    """Return the problem as this library's learners see it."""
    softmax = model == "softmax"
    found = JointProblem(
        learnt_kernel(problem.X.shape[1]),
        problem.X,
        labels_of(problem.X, n_classes),
        n_classes,
        Softmax() if softmax else MultinomialProbit(),
        Logit() if softmax else Probit(),
        Laplace() if softmax else EP(),
    )
    # as a learner evaluates it, or as the end of a fit is
    return found if model == "nested to 1e-8" else found.loosened(SearchSettings().searching_tol)


def run_evidence(repeat: int, dry: bool, rows: Sequence[str] = ROWS) -> Figures:
    """One evidence and gradient of the joint models, each beside a floor of its own."""
    figures = Figures(
        f"One evidence and gradient of many classes, {COLUMNS} columns, ARD, one kernel for all",
        (
            "model",
            "classes",
            "n",
            "floor",
            "warm",
            "/ floor",
            "/ ((C + 1) floor)",
            "factors",
            "sklearn / warm",
        ),
        notes=[
            "floor: of one binary problem, as for Laplace's evidence; warm: started from the sites "
            "of hyperparameters 0.02 away in every component",
            "factors: factorisations of all classes in one evaluation",
            "sklearn: its C evidences of one class against the rest, each with its gradient (it "
            f"has none of their mean), once, and for at most {JUDGED} classes",
            "nested: sites matched to 1e-4, as in a learner's search (evidence right to 1e-8 of it "
            "or better, gradient to 1e-3 of its largest entry); to 1e-8: as at the end of a fit",
        ],
    )
    for row in rows:
        model, _, count = row.rpartition("-")
        n_classes, n = int(count), DRY_N if dry else N
        problem = make_problem(n, COLUMNS)
        ours = joint_problem(problem, model, n_classes)
        theta = ours.theta
        start = ours.evaluate(nearby(theta, DISTANCE), gradient=False).approximation.sites
        found: dict[str, Any] = {}

        def evaluate(ours: Any = ours, start: Any = start, found: Any = found) -> None:
            q = ours.evaluate(ours.theta, init=start).approximation
            found.update(factorisations=q.n_factorisations, outcome=q.outcome.name)

        contestants = [
            *floor_contestants(problem),
            Contestant("warm", lambda _, e=evaluate: e()),
        ]
        if with_theirs := n_classes <= JUDGED and model != "nested to 1e-8":
            theirs = Theirs(learnt_kernel(problem.X.shape[1]), optimizer=None)
            theirs.fit(problem.X, ours.codes)

            def one_against_the_rest(_: Any, theirs: Any = theirs, theta: Array = theta) -> None:
                for binary in theirs.base_estimator_.estimators_:
                    binary.log_marginal_likelihood(theta, eval_gradient=True)

            contestants.append(Contestant("scikit-learn", one_against_the_rest, repeat=1))
        spent = take_turns(contestants, min(repeat, 3) if n_classes > JUDGED else 2 * repeat)
        by_floor = ratio(spent, "warm", *PARTS)
        figures.records.append(
            {"model": model, "classes": n_classes, "n": n, "seconds": spent, "ratio": by_floor}
            | found
        )
        figures.rows.append(
            (
                model,
                count,
                str(n),
                seconds(sum(median(spent, part) for part in PARTS)),
                seconds(median(spent, "warm")),
                times(by_floor),
                times(by_floor / (n_classes + 1)),
                str(found["factorisations"]),
                times(ratio(spent, "scikit-learn", "warm")) if with_theirs else "",
            )
        )
    figures.limits.extend(limits_of(figures.records))
    return figures


def limits_of(records: list[dict[str, Any]]) -> list[Limit]:
    """Judge the evaluations of `run_evidence` by the limits that hold today."""
    return [
        Limit(
            f"{record['model']}-{C}, warm, in (C + 1) floors, at n = {record['n']}",
            record["ratio"] / (C + 1),
            LIMITS[record["model"], C],
        )
        for record in records
        if (record["model"], C := record["classes"]) in LIMITS
    ]


def run_probabilities(repeat: int, dry: bool) -> Figures:
    """Class probabilities beside the latent means and variances that they average over."""
    n, rows = (DRY_N, 50) if dry else (N, NEW_ROWS)
    problem = make_problem(n, COLUMNS)
    X_new = make_problem(rows, COLUMNS, seed=1).X
    y = labels_of(problem.X, JUDGED)
    figures = Figures(
        f"predict_proba of {rows} rows, {JUDGED} classes, n = {n}, {COLUMNS} columns",
        ("model", "latents", "probabilities", "/ latents"),
        notes=["latents: predict_latent, means and covariances of the classes at each row"],
    )
    for name, inference in (("softmax", "laplace"), ("nested", "ep")):
        model = Ours(learnt_kernel(COLUMNS), inference=inference, optimizer=None)
        model.fit(problem.X, y)
        spent = take_turns(
            [
                Contestant("latents", lambda _, m=model: m.predict_latent(X_new)),
                Contestant("probabilities", lambda _, m=model: m.predict_proba(X_new)),
            ],
            min(repeat, 2),
        )
        cost = ratio(spent, "probabilities", "latents")
        figures.rows.append(
            (
                name,
                seconds(median(spent, "latents")),
                seconds(median(spent, "probabilities")),
                times(cost),
            )
        )
        figures.records.append({"model": name, "seconds": spent, "ratio": cost})
        figures.limits.append(Limit(f"{name}, in latents", cost, PROBABILITY_LIMIT))
    return figures


def run_digits(repeat: int, dry: bool) -> Figures:
    """Whole fits of scikit-learn's digits, ours joint and theirs one against the rest."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    train, test = (60, 60) if dry else (TRAIN, len(X) - TRAIN)
    kernel = ConstantKernel(1.0) * RBF(1.0)
    figures = Figures(
        f"Digits: {train} rows to train, {test} to test, X / 16, one length-scale, learnt",
        ("who", "time", "log loss", "errors, %", "log evidence"),
        notes=[
            "one run each, in turns; scikit-learn's evidence is the mean of ten binary ones",
            "nested EP is the default; the softmax is fast, and its log loss is that of Laplace's "
            "method, which docs/multiclass.md compares with the truth",
        ],
    )
    contestants = {
        "scikit-learn, one against the rest": Theirs(kernel),
        "ours, joint, softmax": Ours(kernel, inference="laplace"),
        "ours, joint, nested EP": Ours(kernel, inference="ep"),
    }
    spent, losses = {}, {}
    for who, model in contestants.items():
        begun = time.perf_counter()
        model.fit(X[:train], y[:train])
        spent[who] = time.perf_counter() - begun
        P = model.predict_proba(X[-test:])
        losses[who] = float(log_loss(y[-test:], P, labels=model.classes_))
        errors = 100.0 * float((model.predict(X[-test:]) != y[-test:]).mean())
        evidence = float(model.log_marginal_likelihood_value_)
        figures.rows.append(
            (who, seconds(spent[who]), f"{losses[who]:.3f}", f"{errors:.1f}", f"{evidence:.1f}")
        )
        figures.records.append(
            {
                "who": who,
                "seconds": spent[who],
                "log_loss": losses[who],
                "errors": errors,
                "log_evidence": evidence,
                "kernel": str(model.kernel_),
            }
        )
    theirs, softmax, default = contestants
    for who in (softmax, default):
        figures.limits.append(
            Limit(f"{who}, part of scikit-learn's time", spent[who] / spent[theirs], 0.2)
        )
    figures.limits.append(Limit(f"{default}, log loss", losses[default], 0.25))
    return figures
