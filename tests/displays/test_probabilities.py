import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from gpclass.app.picture import probability_figure
from gpclass.displays import ErrorRejectDisplay, ReliabilityDisplay

matplotlib.use("agg")


@pytest.fixture
def ax():
    return Figure().subplots()


def calibrated(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return (rng.uniform(size=n) < p).astype(int), p


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_bins_by_hand(strategy):
    y, p = calibrated()
    bins = ReliabilityDisplay.bin_predictions(y, p, n_bins=5, strategy=strategy)
    edges = np.linspace(0, 1, 6) if strategy == "uniform" else np.quantile(p, np.linspace(0, 1, 6))
    for j in range(5):
        inside = (p >= edges[j]) & ((p < edges[j + 1]) | (j == 4))
        assert bins.counts[j] == inside.sum()
        assert bins.prob_true[j] == pytest.approx(y[inside].mean())
        assert bins.prob_pred[j] == pytest.approx(p[inside].mean())
        # Wilson's interval: the frequencies f with |f - observed| = z sqrt(f (1 - f) / n)
        n, z = inside.sum(), 1.959963984540054
        for end in (bins.lower[j], bins.upper[j]):
            gap = abs(end - bins.prob_true[j])
            assert gap == pytest.approx(z * np.sqrt(end * (1 - end) / n), abs=1e-12)
        assert bins.lower[j] < bins.prob_true[j] < bins.upper[j]


def test_interval_holds_the_frequency_at_the_ends():
    bins = ReliabilityDisplay.bin_predictions([0, 0, 1, 1], [0.1, 0.1, 0.9, 0.9], n_bins=2)
    assert (bins.lower <= bins.prob_true).all()
    assert (bins.upper >= bins.prob_true).all()
    assert (bins.upper - bins.lower > 0.5).all()


def test_tied_predictions_share_a_bin():
    bins = ReliabilityDisplay.bin_predictions([0, 1, 1, 1], [0.3, 0.3, 0.3, 0.3], n_bins=10)
    assert bins.counts.tolist() == [4]
    assert bins.prob_true.tolist() == [0.75]


def test_more_than_two_classes_are_judged_by_the_top_label():
    y = np.array([0, 1, 2, 0])
    p = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.5, 0.3, 0.2]])
    bins = ReliabilityDisplay.bin_predictions(y, p, n_bins=10, strategy="uniform")
    assert bins.event == "the most probable class"
    assert bins.counts.tolist() == [1, 1, 2]
    assert bins.prob_true.tolist() == [1, 0, 1]


@pytest.mark.parametrize("Display", [ReliabilityDisplay, ErrorRejectDisplay])
def test_from_estimator_and_predictions_draw_the_same(Display):
    X, y = load_iris(return_X_y=True)
    model = GaussianNB().fit(X[::2], y[::2])
    one = Display.from_estimator(model, X[1::2], y[1::2], ax=Figure().subplots())
    two = Display.from_predictions(y[1::2], model.predict_proba(X[1::2]), ax=Figure().subplots())
    np.testing.assert_array_equal(one.line_.get_xydata(), two.line_.get_xydata())
    assert one.ax_.get_legend().get_texts()[0].get_text() == "GaussianNB"
    assert two.ax_.get_legend() is None
    assert one.figure_ is one.ax_.figure
    assert one.ax_.get_xlabel()
    assert one.ax_.get_ylabel()


def test_plot_without_axes_makes_a_pyplot_figure():
    from matplotlib import pyplot as plt

    y, p = calibrated()
    display = ErrorRejectDisplay.from_predictions(y, p)
    assert plt.fignum_exists(display.figure_.number)
    plt.close(display.figure_)


def test_options_reach_the_line(ax):
    y, p = calibrated()
    display = ReliabilityDisplay.from_predictions(y, p, ax=ax, n_bins=3, name="GP")
    display.plot(ax, color="red", interval=False, ref_line=False, name="again")
    assert display.line_.get_color() == "red"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["GP", "again"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins"),
        ({"strategy": "log"}, "strategy"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_option_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.bin_predictions([0, 1], [0.2, 0.7], **options)


def test_estimator_without_probabilities():
    with pytest.raises(TypeError, match="predict_proba"):
        ReliabilityDisplay.from_estimator(object(), [[0]], [0])


def test_missing_matplotlib_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'gpclass\[cli\]'"):
        probability_figure([0, 1], {"GP": [0.2, 0.7]})


def test_picture_of_several_models(tmp_path):
    y, p = calibrated()
    figure = probability_figure(y, {"a": p, "b": p**2, "c": 0.5 + 0 * p}, title="three models")
    path = tmp_path / "picture.png"
    figure.savefig(path)
    assert path.stat().st_size > 10_000
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]
    reject = figure.axes[2]
    highest = max(line.get_ydata().max() for line in reject.get_lines())
    assert reject.get_ylim()[1] >= highest


def test_picture_leaves_no_pyplot_figure():
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    probability_figure([0, 1], {"GP": [0.2, 0.7]})
    assert plt.get_fignums() == before


def test_picture_of_nothing():
    with pytest.raises(ValueError, match="no model"):
        probability_figure([0, 1], {})
