"""The page of a model: its words, its structure, and how a browser shows it."""

import os
import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gpclass import GaussianProcessClassifier
from gpclass.app.commands import app
from gpclass.app.findings import ColumnFinding, column_sentences, of_columns, outlier_sentence
from gpclass.app.model_file import save_model
from gpclass.app.report import report_page, training_table
from gpclass.displays import EffectDisplay, OutlierDisplay

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def table():
    """Glucose decides; noise, site and unit say nothing."""
    rng = np.random.default_rng(1)
    n = 90
    X = pd.DataFrame(
        {
            "glucose": rng.normal(120, 30, n),
            "noise": rng.normal(size=n),
            "site": rng.choice(["north", "south"], n),
            "unit": "mg",
        }
    )
    y = np.where(X.glucose + rng.normal(0, 10, n) > 120, "ill", "well")
    X.loc[:3, "glucose"] = np.nan
    X.loc[5, "site"] = None
    return X, y


@pytest.fixture(scope="module")
def model(table):
    return GaussianProcessClassifier().fit(*table)


@pytest.fixture(scope="module")
def page(model, table):
    return report_page(model, table[0], title="glucose & <more>")


class Page(HTMLParser):
    """What a screen reader goes by."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.images, self.cells, self.addresses, self.open = [], [], [], [], []
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append((tag, given))
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(given)
        if tag == "th":
            self.cells.append(given.get("scope"))
        self.addresses += [given[name] for name in ("src", "href", "srcset") if name in given]
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def effect(values, curve, *, width=0.1, by_row=None, shares=None):
    """An effect of two classes with these average probabilities of the second."""
    values, curve = np.asarray(values), np.asarray(curve, dtype=float)
    half = 0.5 * np.broadcast_to(width, curve.shape)
    both = np.stack([1 - curve, curve], axis=1)
    k = len(values)
    rows = both[:, None, :] if by_row is None else by_row
    shares = np.full(k, 1 / k) if shares is None else np.asarray(shares)
    as_points = values.dtype == object
    classes = np.array(["no", "yes"])
    low, high = both - half[:, None], both + half[:, None]
    return EffectDisplay(
        "dose", values, as_points, both, low, high, rows, shares, values, classes, (1,)
    )


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ([0.1, 0.2, 0.4], "rises with it, from 0.10 at 0 to 0.40 at 2"),
        ([0.4, 0.2, 0.1], "falls with it, from 0.40 at 0 to 0.10 at 2"),
        ([0.1, 0.4, 0.2], "is lowest at 0 (0.10) and highest at 1 (0.40)"),
    ],
)
def test_directions(curve, said):
    found = ColumnFinding.of(effect([0.0, 1.0, 2.0], curve))
    assert found.direction() == f"the average probability of yes {said}"


def test_no_direction_is_told_of_the_tails():
    shares = [0.01, 0.49, 0.49, 0.01]
    found = ColumnFinding.of(effect([0.0, 1.0, 2.0, 9.0], [0.9, 0.2, 0.3, 0.0], shares=shares))
    assert found.direction().endswith("rises with it, from 0.20 at 1 to 0.30 at 2")


def test_direction_of_levels():
    found = ColumnFinding.of(effect(np.array(["a", "b"], dtype=object), [0.7, 0.2]))
    assert found.direction() == "the average probability of yes is 0.20 at b and 0.70 at a"


@pytest.mark.parametrize(
    ("width", "ranges"),
    [
        ([0.1, 0.1, 0.1, 0.8, 0.9], ["dose above 30"]),
        ([0.8, 0.8, 0.1, 0.1, 0.1], ["dose below 10"]),
        ([0.1, 0.1, 0.9, 0.1, 0.8], ["dose near 20", "dose above 40"]),
        ([0.1, 0.1, 0.1, 0.1, 0.4], []),
        # nothing is known anywhere: that is no matter of this column
        ([0.8, 0.8, 0.8, 0.8, 0.8], []),
    ],
)
def test_where_the_model_does_not_know(width, ranges):
    values = np.arange(5) * 10.0
    shares = [0.3, 0.3, 0.3, 0.05, 0.05]
    found = ColumnFinding.of(effect(values, np.full(5, 0.5), width=width, shares=shares))
    assert found.unknown() == ranges


def test_sentences_rank_by_influence():
    rng = np.random.default_rng(0)

    def one(name, size):
        p = np.clip(
            0.5 + size * np.array([-1.0, 1.0])[:, None] * rng.choice([1, -1], (1, 40)), 0, 1
        )
        shown = effect([0.0, 1.0], p.mean(axis=1), by_row=np.stack([1 - p, p], axis=2))
        shown.column = name
        return shown

    # the rows move in opposite directions: the average hides it, the influence does not
    found = of_columns([one("a", 0.005), one("b", 0.02), one("c", 0.3), one("d", 0.1)])
    np.testing.assert_allclose([f.influence for f in found], [0.3, 0.1, 0.02, 0.005])
    said = list(column_sentences(found, ["unit"]))
    assert said[0].startswith("c matters most: the average probability of yes")
    assert said[1].startswith("d matters too")
    assert said[2] == "One column matters little: b."
    assert said[3].startswith("One column does not matter: a (on average over the rows")
    assert said[4] == "One column has one value alone: unit."


def test_outliers_in_words():
    P = np.array([[0.96, 0.04], [0.99, 0.01], [0.5, 0.5]])
    found = OutlierDisplay.compute([1, 0, 1], P)
    assert outlier_sentence(found, P) == (
        "Of 3 training rows, 1 has a class with a probability below 0.05 given all other rows "
        "(about 0 would if the probabilities were right): 0."
    )


def test_the_training_table_comes_back_from_the_model(model, table):
    X, _ = table
    back = training_table(model)
    np.testing.assert_allclose(back.glucose, X.glucose, rtol=1e-12)
    assert back.site.isna().tolist() == X.site.isna().tolist()
    assert back.site.dropna().tolist() == X.site.dropna().tolist()
    assert set(back.unit) == {"mg"}
    np.testing.assert_allclose(model.predict_proba(back), model.predict_proba(X), atol=1e-10)


def test_words_of_a_real_model(page):
    text = " ".join("".join(Page(page).text).split())
    assert "glucose matters most: the average probability of well falls with it" in text
    assert "One column has one value alone: unit." in text
    assert re.search(r"Of 90 training rows, (none|\d+) ha", text)


def test_structure_of_the_page(page):
    found = Page(page)
    assert found.open == []
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    # no level is left out on the way down
    assert all(b - a <= 1 for a, b in zip(found.headings, found.headings[1:], strict=False))
    assert len(found.images) >= 7
    assert all(len(image["alt"]) > 30 for image in found.images)
    assert all(image["width"] and image["height"] for image in found.images)
    assert found.cells
    assert set(found.cells) == {"col", "row"}
    html = next(given for tag, given in found.tags if tag == "html")
    assert html["lang"] == "en"
    assert escape("glucose & <more>") in page
    assert "<more>" not in page


def test_the_page_loads_nothing(page):
    found = Page(page)
    assert all(address.startswith("data:image/png;base64,") for address in found.addresses)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
    assert "url(" not in page
    assert "<script" not in page


def luminance(colour):
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("name", ["ink", "soft", "accent"])
def test_contrast_is_enough_for_small_text(page, name):
    # WCAG 2.2, success criterion 1.4.3: 4.5 against the background, also that of <pre>
    (colour,) = re.findall(rf"--{name}: (#[0-9a-f]{{6}})", page)
    for background in ("#ffffff", "#f4f6f8"):
        assert (luminance(background) + 0.05) / (luminance(colour) + 0.05) > 4.5


@pytest.mark.slow
def test_commands_write_pages(model, table, tmp_path):
    X, y = table
    path, saved = tmp_path / "rows.csv", tmp_path / "glucose.skops"
    X.assign(state=y).to_csv(path, index=False)
    save_model(model, "state", saved)
    out = tmp_path / "deep" / "page.html"
    done = CliRunner().invoke(app, ["report", str(saved), str(path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"report: {out} (")
    text = "".join(Page(out.read_text(encoding="utf-8")).text)
    assert "the model, on rows.csv (90 rows)" in text
    assert "glucose: state" in text


@pytest.mark.slow
def test_evaluate_writes_a_page(table, tmp_path):
    X, y = table
    path, out = tmp_path / "rows.csv", tmp_path / "page.html"
    X.assign(state=y).to_csv(path, index=False)
    arguments = ["evaluate", str(path), "--target", "state", "--folds", "2", "--report", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert f"report: {out}" in done.output
    text = "".join(Page(out.read_text(encoding="utf-8")).text)
    assert "Scores of 2-fold cross-validation" in text
    assert "logistic regression" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "{model}", "--out", "page.pdf"], "page.pdf must end in .html"),
        (["report", "{model}", "{rows}"], "classes in 'state' that the model lacks: odd"),
        (["report", "{model}", "{rows}", "--target", "age"], "rows.csv has no column 'age'"),
        (["report", "nothing.skops"], "there is no file nothing.skops"),
        (["evaluate", "iris", "--report", "page.txt"], "page.txt must end in .html"),
    ],
)
def test_mistakes(model, table, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    X, y = table
    save_model(model, "state", tmp_path / "m.skops")
    X.assign(state=np.where(y == "ill", "odd", y)).to_csv("rows.csv", index=False)
    given = [one.format(model="m.skops", rows="rows.csv") for one in arguments]
    done = CliRunner().invoke(app, given)
    assert isinstance(done.exception, ValueError | OSError)
    assert message in str(done.exception)
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"multi_class": "one_vs_one"}], ids=str)
def test_three_classes(settings):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    y = np.digitize(X.a, [-0.5, 0.5])
    text = report_page(GaussianProcessClassifier(**settings).fit(X, y), X, title="three")
    assert ("One against one has no latent function" in text) == bool(settings)
    assert ("a matters most" in text) != bool(settings)


# As a page inside another of the width wanted, which headless Chromium cannot be itself.
FRAME = """<!DOCTYPE html><title>-</title><body style="margin:0"><iframe id="f" srcdoc="{page}"
style="border:0;width:{width}px;height:900px"></iframe><p id="said"></p><script>
window.onload = () => {{
  const inside = document.getElementById("f").contentDocument, root = inside.documentElement;
  const images = [...inside.images];
  document.getElementById("said").textContent = [root.clientWidth, root.scrollWidth, images.length,
    images.filter(one => one.naturalWidth > 400 && one.clientWidth > 200).length,
    Math.max(...images.map(one => one.getBoundingClientRect().right))].join(" ");
}};</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (.ci/run installs it)")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(page, tmp_path, width):
    path = tmp_path / "frame.html"
    path.write_text(FRAME.format(page=escape(page), width=width), encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={max(width, 500)},900", "--virtual-time-budget=5000",
        f"--screenshot={tmp_path / 'page.png'}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert ":CONSOLE" not in done.stderr
    assert (tmp_path / "page.png").stat().st_size > 10_000
    (said,) = re.findall(r'<p id="said">([^<]*)</p>', done.stdout)
    inner, content, n_images, n_shown, right = (float(one) for one in said.split())
    assert inner <= width
    # nothing has to be scrolled sideways but wide tables in their own boxes
    assert content <= inner
    assert n_images >= 7
    assert n_shown == n_images
    assert right <= inner
