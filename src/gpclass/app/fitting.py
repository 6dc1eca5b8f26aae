"""The command ``gpclass fit``: a table in memory, or Parquet files that Dask reads in parts."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from gpclass.app.options import (
    Encoding,
    Ids,
    Inference,
    Jobs,
    Json,
    Likelihood,
    MultiClass,
    Restarts,
    Seed,
    Sep,
    Target,
    given,
    print_json,
    reading,
)


def fit(
    out: Annotated[Path, typer.Option(help="The model file to write, ending in .skops.")],
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FILE]", help="A data set's name, or a CSV, TSV or Parquet file."
        ),
    ] = None,
    target: Target = None,
    ids: Ids = None,
    sep: Sep = None,
    encoding: Encoding = None,
    as_json: Json = False,
    seed: Seed = 0,
    likelihood: Likelihood = None,
    inference: Inference = None,
    multi_class: MultiClass = None,
    restarts: Restarts = None,
    n_jobs: Jobs = None,
    inducing: Annotated[
        str | None,
        typer.Option(metavar="NUMBER|auto", help="Inducing points, for many rows."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Note the best hyperparameters here, and begin at those that are there."),
    ] = None,
    parquet: Annotated[
        str | None,
        typer.Option("--data", metavar="PATTERN", help="Parquet files, read by Dask in parts."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The Dask cluster that reads --data; else threads."),
    ] = None,
) -> None:
    """Fit the classifier to a table and save it."""
    from gpclass.app.datasets import load_dataset
    from gpclass.app.evaluation import check_classes
    from gpclass.app.model_file import require_skops
    from gpclass.app.tables import check_output

    options = given(likelihood, inference, multi_class, restarts, n_jobs)
    if inducing is not None:
        options["inducing"] = inducing if inducing == "auto" else _number(inducing)
    if checkpoint is not None:
        options |= {"checkpoint": str(checkpoint), "warm_start": True}
    if (data is None) == (parquet is None):
        raise ValueError("give a data set's name or a file, or --data with a pattern of files.")
    if scheduler is not None and parquet is None:
        raise ValueError("--scheduler goes with --data 'rows/*.parquet'.")
    require_skops()
    if out.suffix != ".skops":
        raise ValueError(f"the model file {out} must end in .skops.")
    check_output(out, Path(parquet or data or ""))
    if parquet is not None:
        _fit_parts(parquet, scheduler, target, ids or [], options, seed, out, as_json)
        return
    dataset = load_dataset(str(data), target, reading(sep, encoding, ids))
    check_classes(dataset.y, name=dataset.target)
    found = _fit_and_save(dataset.X, dataset.y, dataset.target, options, seed, out)
    _report({**found, "data": dataset.name}, as_json)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"--inducing takes a number or 'auto', got {text!r}.") from error


def _fit_parts(
    pattern: str,
    scheduler: str | None,
    target: str | None,
    ids: list[str],
    options: dict[str, Any],
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Fit Parquet files by parts, on a cluster or on threads, and save the model."""
    from gpclass.app.tables import require

    frames = require("dask.dataframe", "--data needs dask", "gpclass[dask]")
    if target is None:
        raise ValueError("--data needs --target, the class column.")
    client: Any = nullcontext()
    if scheduler is not None:
        distributed = require("distributed", "--scheduler needs dask", "gpclass[dask]")
        try:
            client = distributed.Client(scheduler, timeout=30)
        except (OSError, ValueError) as error:
            raise OSError(f"--scheduler {scheduler} does not answer: {error}") from error
    with client:
        table = frames.read_parquet(pattern)
        if not len(table.columns):
            raise FileNotFoundError(f"no Parquet file matches {pattern}.")
        missing = [name for name in (target, *ids) if name not in table.columns]
        if missing:
            known = ", ".join(map(str, table.columns))
            raise ValueError(f"{pattern} has no column {', '.join(missing)}; it has {known}.")
        settings = {"inference": "vi", "inducing": "auto", **options}
        X, y = table.drop(columns=[target, *ids]), table[target]
        found = _fit_and_save(X, y, target, settings, seed, out)
    _report({**found, "data": pattern}, as_json)


def _fit_and_save(
    X: Any, y: Any, target: str, settings: dict[str, Any], seed: int, out: Path
) -> dict[str, Any]:
    """Fit, save, and say what was learnt."""
    from gpclass.app.model_file import save_model
    from gpclass.estimator.classifier import GaussianProcessClassifier
    from gpclass.learning import InducingProblem

    classifier = GaussianProcessClassifier(random_state=seed, verbose=1).set_params(**settings)
    start = time.perf_counter()
    classifier.fit(X, y)
    seconds = time.perf_counter() - start
    save_model(classifier, target, out)
    problem = classifier.models_[0].problem
    found = {
        "model": str(out),
        "bytes": out.stat().st_size,
        "target": target,
        "rows": len(y),
        "features": list(map(str, X.columns)),
        "classes": classifier.classes_.tolist(),
        "kernel": str(classifier.kernel_),
        "log_evidence": float(classifier.log_marginal_likelihood_value_),
        "seconds": seconds,
    }
    return found | ({"inducing": len(problem.Z)} if isinstance(problem, InducingProblem) else {})


def _report(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    points = f"{found['inducing']} inducing points, " if "inducing" in found else ""
    classes = ", ".join(map(str, found["classes"]))
    print(f"{found['rows']} rows, {len(found['features'])} features, {points}classes {classes}")
    print(f"kernel on the encoded columns: {found['kernel']}")
    evidence = "log evidence bound" if points else "log evidence"
    print(f"{evidence} {found['log_evidence']:.2f} nats, {found['seconds']:.1f} s")
    print(f"model: {found['model']} ({found['bytes'] / 1000:.0f} kB)")
