"""Tables and picture of ``docs/quality.md``: ``python -m benchmarks.quality.page``."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.quality import summary
from benchmarks.quality.models import MODELS
from benchmarks.quality.run import RESULTS, read
from benchmarks.quality.tables import LARGEST, SUBSAMPLE_SEED

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGE: Final = DOCS / "quality.md"
CHOICE: Final = RESULTS.with_name("choice_ep.jsonl")
OURS: Final = "gpclass"
# The default was chosen on folds of smaller number.
SEEN: Final = 3
BEFORE: Final = "gpclass, one RBF"
LINEAR: Final = "logistic regression"
TREES: Final = ("random forest", "histogram boosting", "CatBoost")


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def overall(frame: pd.DataFrame) -> str:
    """One row a model, the best mean log loss first."""
    tables = {score: summary.by_table(frame, score) for score in summary.SCORES}
    losses = tables["log_loss"]
    ranks, calibration = summary.mean_ranks(losses), summary.calibration_errors(frame).mean()
    rows = [
        [
            model,
            f"{losses[model].mean():.3f}",
            f"{ranks[model]:.2f}",
            f"{tables['brier'][model].mean():.3f}",
            f"{tables['error'][model].mean():.3f}",
            f"{calibration[model]:.3f}",
            f"{tables['seconds'][model].mean():.2f}",
        ]
        for model in losses.mean().sort_values().index
    ]
    distance = summary.critical_difference(len(ranks), len(losses))
    folds = frame.groupby("table").fold.nunique()
    n = f"{folds.min()}" if folds.min() == folds.max() else f"{folds.min()} to {folds.max()}"
    return "\n\n".join(
        [
            f"{len(losses)} tables of at most {LARGEST} rows (drawn with seed {SUBSAMPLE_SEED}), "
            f"{n} folds each (seed 0), {len(frame)} fits. Means over the tables.",
            markdown(
                ["model", "log loss", "rank", "Brier", "error", "calibration error", "seconds"],
                rows,
            ),
            "Critical difference of two mean ranks (Nemenyi, 5 %): "
            f"{distance:.2f}; Friedman's test: p = {summary.friedman(losses):.1e}.",
        ]
    )


def of_each_table(frame: pd.DataFrame, score: str) -> str:
    """A row a table; log losses with their standard errors over the folds."""
    values = summary.by_table(frame, score)
    errors = summary.by_table(frame, score, "sem") if score == "log_loss" else None
    return _grid(values, errors)


def _grid(values: pd.DataFrame, errors: pd.DataFrame | None = None, digits: int = 3) -> str:
    models = [model for model in MODELS if model in values]
    rows = []
    for table in sorted(values.index):
        best = values.loc[table].min()
        cells = []
        for model in models:
            value = values.loc[table, model]
            text = f"{value:.{digits}f}".removeprefix("0") if digits == 3 else f"{value:.2f}"
            text = f"**{text}**" if value == best and digits == 3 else text
            if errors is not None:
                text += f" ± {errors.loc[table, model]:.3f}".replace("0.", ".")
            cells.append(text)
        rows.append([table, *cells])
    return markdown(["table", *models], rows)


def goals(frame: pd.DataFrame) -> str:
    """The aims that were set, and where they are missed."""
    losses = summary.by_table(frame, "log_loss")
    change = summary.differences(frame, OURS, LINEAR)
    worse = change[change["mean"] > 2.0 * change["error"]]
    trees = losses[[model for model in TREES if model in losses]].min(axis=1)
    behind = (losses[OURS] - trees)[losses[OURS] - trees > 0.01]
    others = losses[[model for model in losses if not model.startswith(OURS)]]
    learnt, before = (frame[frame.model == model] for model in (OURS, BEFORE))
    ended = [int(one.on_bounds.map(bool).sum()) for one in (learnt, before)]
    evaluations = [one.evaluations.mean() for one in (learnt, before)]
    seconds = [one.seconds.sum() for one in (learnt, before)]
    times = summary.by_table(frame, "seconds")
    slower = (times[OURS] / times[BEFORE]).sort_values(ascending=False)
    unseen = summary.by_table(frame[frame.fold >= SEEN], "log_loss").mean()
    return "\n".join(
        [
            f"- Rank {losses.rank(axis=1)[OURS].mean():.2f} and mean log loss "
            f"{losses[OURS].mean():.3f}; the best mean of a model that is not ours is "
            f"{others.mean().min():.3f} ({others.mean().idxmin()}).",
            f"- Worse than {LINEAR} by more than two standard errors on "
            + _listed(
                f"{t} ({row['mean']:.3f} ± {row['error']:.3f})" for t, row in worse.iterrows()
            ),
            "- Behind the best of the trees by more than .01 on "
            + _listed(f"{t} ({gap:.3f})" for t, gap in behind.items()),
            f"- On the folds that the choice of the default did not see, mean log loss "
            f"{unseen[OURS]:.3f} against {unseen[BEFORE]:.3f} with the kernel before and "
            f"{unseen[LINEAR]:.3f} by {LINEAR}.",
            f"- Hyperparameters on a bound in {ended[0]} of {len(learnt)} fits ({ended[1]} with "
            "the kernel before).",
            f"- {evaluations[0]:.0f} evaluations of the evidence a fit ({evaluations[1]:.0f} "
            f"before), {seconds[0]:.0f} seconds in all ({seconds[1]:.0f} before), fold by fold in "
            f"turns; {slower.median():.1f} times as long on the median table, more than 2.2 on "
            + _listed(f"{t} ({ratio:.1f})" for t, ratio in slower[slower > 2.2].items()),
        ]
    )


def trees(frame: pd.DataFrame) -> str:
    """Ours less each of the trees, on the tables where one of them is ahead by more than .01."""
    changes = {m: summary.differences(frame, OURS, m) for m in TREES if m in set(frame.model)}
    ahead = pd.DataFrame({model: change["mean"] for model, change in changes.items()})
    rows = [
        [
            table,
            *(
                f"{change.loc[table, 'mean']:+.3f} ± {change.loc[table, 'error']:.3f}"
                for change in changes.values()
            ),
        ]
        for table in sorted(ahead.index[ahead.max(axis=1) > 0.01])
    ]
    return markdown(["table", *changes], rows)


def temperatures(frame: pd.DataFrame) -> str:
    """Our models with and without their temperature, by table where one is not 1."""
    ours = frame[frame.log_loss_without.notna() & (frame.model != BEFORE)]
    ours = ours.assign(change=ours.log_loss - ours.log_loss_without)
    models = [model for model in MODELS if model in set(ours.model)]
    change, error, power = (
        ours.pivot_table(index="table", columns="model", values=name, aggfunc=how, sort=False)
        for name, how in (("change", "mean"), ("change", "sem"), ("temperature", "median"))
    )
    moved = (change.abs() > 0.0005).any(axis=1)
    rows = [
        [
            table,
            *(
                f"{change.loc[table, m]:+.3f} ± {error.loc[table, m]:.3f}"
                f" ({power.loc[table, m]:.2f})"
                for m in models
            ),
        ]
        for table in sorted(change.index[moved])
    ]
    rows.append(["all, mean", *(f"{change[m].mean():+.4f}" for m in models)])
    alone = ours[ours.model == OURS]
    return (
        f"Change of the log loss by the temperature (its median over the folds in brackets); for "
        f"{OURS} it is 1 in {int((alone.temperature == 1.0).sum())} of {len(alone)} fits. Tables "
        "that change by less than .0005 are left out, but not from the mean.\n\n"
        + markdown(["table", *models], rows)
    )


def _listed(named: Iterable[str]) -> str:
    found = list(named)
    return f"{len(found)} tables: {', '.join(found)}." if found else "no table."


def choice() -> str:
    """Candidates for the default: of three folds, of the first one, and starts and deviations."""
    records = [r for r in read(CHOICE) if r["fold"] < 3]
    every = pd.DataFrame(records)
    later = [model for model in every.model.unique() if "S8" in model]
    fits = every[~every.model.isin(later)].groupby("model").size()
    groups = (
        (list(fits[fits >= 45].index), 3),
        (list(fits[fits >= 14].index), 1),
        (["g.5/1", *later], 3),
    )
    parts = []
    for models, folds in groups:
        frame = summary.frame_of([r for r in records if r["fold"] < folds], models)
        losses = summary.by_table(frame, "log_loss")
        ranks = summary.mean_ranks(losses)
        rows = [
            [
                model,
                f"{losses[model].mean():.3f}",
                f"{ranks[model]:.1f}",
                f"{frame[frame.model == model].evaluations.mean():.0f}",
                f"{frame[frame.model == model].seconds.mean():.1f}",
            ]
            for model in losses.mean().sort_values().index
        ]
        n = frame.groupby(["table", "fold"]).ngroups
        head = ["candidate", "log loss", "rank", "evaluations", "seconds"]
        parts.append(f"{len(losses)} tables, {n} folds in all:\n\n" + markdown(head, rows))
    return "\n\n".join(parts)


def picture(frame: pd.DataFrame) -> None:
    """Mean ranks with the critical difference, as PNG and SVG."""
    losses = summary.by_table(frame, "log_loss")
    ranks = summary.mean_ranks(losses).sort_values(ascending=False)
    distance = summary.critical_difference(len(ranks), len(losses))
    figure = Figure(figsize=(7.5, 0.42 * len(ranks) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    best = ranks.min()
    axes.axvspan(best, best + distance, color="#56B4E9", alpha=0.25, lw=0)
    colours = ["#0072B2" if model.startswith(OURS) else "#000000" for model in ranks.index]
    axes.scatter(ranks, range(len(ranks)), c=colours, zorder=3)
    for i, (model, rank) in enumerate(ranks.items()):
        axes.annotate(
            f"{rank:.2f}, log loss {losses[model].mean():.3f}",
            (rank, i),
            xytext=(7, -3),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_yticks(range(len(ranks)), ranks.index)
    axes.set_xlim(1.0, len(ranks) + 0.9)
    axes.set_xlabel(
        f"mean rank of the log loss on {len(losses)} tables (shaded: not significantly worse than "
        "the first)"
    )
    axes.spines[["top", "right"]].set_visible(False)
    for kind in ("png", "svg"):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(DOCS / f"quality.{kind}", dpi=150, metadata=metadata)


def write(blocks: dict[str, str], path: Path = PAGE) -> None:
    """Put each block between the comments that name it."""
    text = path.read_text(encoding="utf-8")
    for name, block in blocks.items():
        pattern = re.compile(rf"(<!-- begin {name}: [^>]* -->\n).*?(<!-- end {name} -->)", re.S)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"{path} must have one block {name!r}")
        text = pattern.sub(lambda found, block=block: f"{found[1]}\n{block}\n\n{found[2]}", text)
    path.write_text(text, encoding="utf-8")


def blocks_of(frame: pd.DataFrame) -> dict[str, str]:
    """Text of each block of the page but that of the choice."""
    found = {
        "overall": overall(frame),
        "goals": goals(frame),
        "trees": trees(frame),
        "temperatures": temperatures(frame),
        "calibration": _grid(summary.calibration_errors(frame)),
        "seconds": _grid(summary.by_table(frame, "seconds"), digits=2),
    }
    return found | {score: of_each_table(frame, score) for score in ("log_loss", "brier", "error")}


def main() -> None:
    """Write the page and the picture."""
    records = read(RESULTS)
    seen = {record["model"] for record in records}
    frame = summary.frame_of(records, [model for model in MODELS if model in seen])
    write(blocks_of(frame) | {"choice": choice()})
    picture(frame)


if __name__ == "__main__":
    main()
