"""The options of the commands, and what they mean to the parts; nothing heavy is imported."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpclass.app._recipes import FOLDER_TABLES, OPENML_TABLES, SKLEARN_TABLES

if TYPE_CHECKING:
    from gpclass.app.tables import Reading

# The values of the estimator's arguments, without its import; tests compare the two.
LIKELIHOODS = ("probit", "logit", "threshold")
INFERENCES = ("ep", "laplace", "pl", "vi", "bound")
MULTI_CLASS = ("joint", "differences", "one_vs_rest", "one_vs_one")

DATA_SETS = (
    f"Data sets: of scikit-learn {', '.join(SKLEARN_TABLES)}; of the folder that the environment "
    f"variable GPCLASS_DATA names {', '.join(FOLDER_TABLES)}; of OpenML "
    f"{', '.join(OPENML_TABLES)}, and any other of its tables as openml:ID."
)

Data = Annotated[
    str,
    typer.Argument(metavar="NAME|FILE", help="A data set's name, or a CSV, TSV or Parquet file."),
]
Target = Annotated[str | None, typer.Option(help="The class column of a file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on stdout.")]
Seed = Annotated[int, typer.Option(help="Seed of folds and restarts.")]
Sep = Annotated[
    str | None,
    typer.Option(help="What separates the fields of a text file; found by itself if not given."),
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a text file; if not given, UTF-8, then cp1252.")
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="COLUMN", help="A column that is no feature; may be repeated."),
]
Likelihood = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"What a label says about the latent: {', '.join(LIKELIHOODS)} (default: probit).",
    ),
]
Inference = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"How the posterior is approximated: {', '.join(INFERENCES)} (default: ep).",
    ),
]
MultiClass = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"What more than two classes are: {', '.join(MULTI_CLASS)} (default: joint).",
    ),
]
Restarts = Annotated[
    int | None, typer.Option(min=0, help="Further starts of the learning of the kernel.")
]
Jobs = Annotated[int | None, typer.Option(help="Processes; -1 for one a core.")]


def given(*values: Any) -> dict[str, Any]:
    """Return the estimator's arguments that were given; the others keep its defaults."""
    names = ("likelihood", "inference", "multi_class", "n_restarts_optimizer", "n_jobs")
    chosen = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    if chosen.get("inference") == "mcmc":
        raise ValueError(
            "--inference mcmc samples for a kernel that is known, and the command line learns one: "
            f"take one of {', '.join(INFERENCES)}, or sample in Python (docs/troubleshooting.md)."
        )
    return chosen


def print_json(content: dict[str, Any]) -> None:
    """Print a result for programs."""
    print(json.dumps(content, indent=2, allow_nan=False))


def reading(sep: str | None, encoding: str | None, ids: list[str] | None = None) -> "Reading":
    """How files are read."""
    from gpclass.app.tables import Reading

    return Reading(sep, encoding, tuple(ids or ()))
