"""The tables of the documentation are what the code does."""

import ast
import importlib
import json
import re
import sys
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"

pytestmark = pytest.mark.skipif(
    not (DOCS / "generate").is_dir(), reason="this copy has no docs folder"
)


@pytest.fixture
def generate(monkeypatch):
    """Import a module beside the pages."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(DOCS / "generate"))
    monkeypatch.syspath_prepend(str(DOCS / "parts"))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(DOCS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


# Monte Carlo, and what takes seconds to learn, are left to docs/generate/methods.py.
QUICK = [
    '`"laplace"`',
    pytest.param('`"ep"`, parallel', marks=pytest.mark.slow),
    '`"bound"`, lower',
    "`TangentBound`, upper",
]


@pytest.mark.slow
@pytest.mark.parametrize("label", QUICK)
def test_pairs_are_as_the_table_says(generate, label):
    methods, blocks = generate("methods"), generate("blocks")
    written = methods.parsed(blocks.read_block(methods.PAGE, methods.BLOCK))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = list(methods.rows({label: methods.METHODS[label]}))
    assert found == [row for row in written if row[0] == label]


def test_every_pair_has_a_row(generate):
    methods, blocks = generate("methods"), generate("blocks")
    written = methods.parsed(blocks.read_block(methods.PAGE, methods.BLOCK))
    expected = [
        [label, likelihood]
        for label in methods.METHODS
        for likelihood in methods.ONLY.get(label, methods.LIKELIHOODS)
    ]
    assert [row[:2] for row in written] == expected


def test_the_table_can_be_read_back(generate):
    methods = generate("methods")
    rows = [["`a`", "probit", "yes", "no_way [1] <2>", "yes", "other"]]
    assert methods.parsed(methods.rendered(rows)) == rows


def test_what_learning_without_a_gradient_says(generate):
    methods, blocks = generate("methods"), generate("blocks")
    written = methods.parsed(blocks.read_block(methods.PAGE, methods.BLOCK))
    row = next(row for row in written if row[0] == '`"mcmc"`')
    cells = dict(zip(methods.COLUMNS, row[2:], strict=True))
    for column in ('learning="evidence"', 'learning="em"'):
        assert methods.CELLS[column]("mcmc", "probit") == cells[column]


def test_truth_is_as_it_was_measured(generate):
    truth, blocks = generate("truth"), generate("blocks")
    results = json.loads(truth.RESULTS.read_text())
    for name, text in truth.tables(results).items():
        assert blocks.read_block(truth.PAGE, name) == text
    assert blocks.read_block("methods.md", "choose") == truth.choose_table(results)


def test_the_truth_is_known_well_enough(generate):
    truth = generate("truth")
    for label, found in json.loads(truth.RESULTS.read_text()).items():
        estimate = found["truth"]
        assert estimate["standard_error"] < 0.05, label
        assert estimate["effective_chains"] > 50, label
        if "sampling" in found:
            assert found["sampling"]["outcome"] == "CONVERGED", label
        # the bounds are bounds, within three standard errors
        slack = 3 * estimate["standard_error"]
        methods = {m: q["log_evidence"] for m, q in found["methods"].items()}
        assert methods["VI"] < estimate["log_evidence"] + slack, label
        if "bound, lower" in methods:
            assert methods["bound, lower"] < estimate["log_evidence"] + slack, label
            assert methods["bound, upper"] > estimate["log_evidence"] - slack, label


def test_laplace_refuses_the_likelihood_of_the_page(generate):
    lapses = generate("lapses").Lapses()
    from gpclass.inference import Laplace

    with pytest.raises(ValueError, match="log-concave"):
        Laplace()([[1.0]], [1], lapses)


def test_settings_of_the_likelihood_of_the_page(generate):
    with pytest.raises(ValueError, match="guess and lapse"):
        generate("lapses").Lapses(guess=0.0)


def test_every_outcome_is_explained():
    from gpclass.inference import Outcome

    for page in ("methods.md", "troubleshooting.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        missing = [
            o.name for o in Outcome if o.name not in text and (page[0] == "m" or not o.converged)
        ]
        assert not missing, page
    table = (DOCS / "methods.md").read_text(encoding="utf-8")
    for outcome in Outcome:
        assert re.search(rf"^\| `{outcome.name}` \| {outcome.converged} \|", table, re.M), outcome


def test_architecture_names_every_room_once():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^## The rooms\n(.*?)^## ", text, re.S | re.M)
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.M)
    named = re.findall(r"`([\w.]+)/?`", " ".join(first_cells))
    source = DOCS.parent / "src" / "gpclass"
    rooms = {path.name for path in source.iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert sorted(named) == sorted(rooms)


def strings_of(path):
    """Every string constant of a file; of an f-string, its constant pieces."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is str]


def test_every_message_that_troubleshooting_quotes_exists():
    source = DOCS.parent / "src" / "gpclass"
    strings = [text for path in source.rglob("*.py") for text in strings_of(path)]
    headings = re.findall(
        r"^##? (.*)", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.M
    )
    quotes = [quote for heading in headings for quote in re.findall(r'"([^"]+)"', heading)]
    assert len(quotes) > 8
    for quote in quotes:
        pieces = [piece.strip() for piece in quote.split("...") if len(piece.strip()) > 3]
        for piece in pieces:
            assert any(piece in text for text in strings), quote
