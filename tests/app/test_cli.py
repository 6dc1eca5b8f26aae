"""The command line, run as a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import gpclass
import gpclass.app.cli
from gpclass.app.commands import app
from gpclass.app.datasets import list_datasets
from gpclass.app.options import INFERENCES, LIKELIHOODS, MULTI_CLASS
from gpclass.estimator.decomposition import DECOMPOSITIONS
from gpclass.inference import METHODS
from gpclass.inference.joint import JOINT


def run(*args, **env):
    return subprocess.run(
        [sys.executable, "-m", "gpclass", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"} | env,
    )


def succeed(*args, **env):
    done = run(*args, **env)
    assert done.returncode == 0, done.stderr
    return done


def one_line(code, stdout, stderr):
    """Check how a mistake ends, and return the line that explains it."""
    assert code == 2, stderr
    assert stdout == ""
    assert stderr.startswith("gpclass: ")
    assert stderr.count("\n") == 1, stderr
    return stderr


@pytest.fixture
def fail(monkeypatch, capsys):
    """Run a command that must fail, in this process: a new one takes seconds, and there are many.

    That a real process ends in the same way is in `test_mistakes_of_a_real_process`.
    """

    def run_here(*args):
        monkeypatch.setattr(sys, "argv", ["gpclass", *map(str, args)])
        with pytest.raises(SystemExit) as exit_:
            gpclass.app.cli.main()
        return one_line(exit_.value.code, *capsys.readouterr())

    return run_here


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A small table of two flowers, with a column of text classes."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    frame = X.iloc[50:150, :2].assign(species=np.array(["s", "versicolor", "virginica"])[y[50:150]])
    frame.columns = ["length", "width", "species"]
    path = tmp_path_factory.mktemp("cli") / "iris.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(iris):
    path = iris.with_name("iris.skops")
    succeed("fit", iris, "--target", "species", "--out", path)
    return path


def test_help_and_version():
    done = succeed("--help")
    assert all(command in done.stdout for command in ("evaluate", "fit", "predict"))
    assert succeed("--version").stdout == f"gpclass {gpclass.__version__}\n"


def test_installed_script():
    script = os.path.join(os.path.dirname(sys.executable), "gpclass")
    if not os.path.exists(script):
        pytest.skip("the script gpclass is not installed beside this Python")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"gpclass {gpclass.__version__}\n"


@pytest.mark.slow
def test_evaluate_prints_a_table_and_saves_a_picture(iris, tmp_path):
    picture = tmp_path / "new folder" / "iris.png"
    done = succeed("evaluate", iris, "--target", "species", "--folds", 3, "--picture", picture)
    for word in ("log loss", "Brier", "error", "information", "log evidence", "seconds", "±"):
        assert word in done.stdout
    for name in ("gpclass", "scikit-learn GP", "logistic regression"):
        assert name in done.stdout
    assert f"picture: {picture}" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "cross-validation" in done.stderr
    assert "FutureWarning" not in done.stderr


@pytest.mark.slow
def test_evaluate_json_is_only_json_and_repeats(iris):
    args = ("evaluate", iris, "--target", "species", "--folds", 2, "--seed", 1, "--json")
    one, two = (json.loads(succeed(*args).stdout) for _ in range(2))
    assert one["n"] == 100
    assert one["classes"] == ["versicolor", "virginica"]
    for name, scores in one["models"].items():
        assert scores["log_loss"] == two["models"][name]["log_loss"]
    assert one["models"]["logistic regression"]["log_evidence"]["mean"] is None


@pytest.mark.slow
def test_options_reach_the_estimator(iris):
    args = ("evaluate", iris, "--target", "species", "--folds", 2, "--json")
    probit = json.loads(succeed(*args).stdout)["models"]
    logit = json.loads(succeed(*args, "--likelihood", "logit", "--restarts", 1).stdout)["models"]
    assert logit["gpclass"]["log_loss"] != probit["gpclass"]["log_loss"]
    assert logit["scikit-learn GP"]["log_loss"] == probit["scikit-learn GP"]["log_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["evaluate", "fit", "predict"])
def test_mistakes_of_a_real_process(command, tmp_path):
    outs = {"evaluate": (), "fit": ("--out", tmp_path / "m.skops")}
    out = outs.get(command, ("--out", tmp_path / "p.csv"))
    args = ("none.skops", "none.csv") if command == "predict" else ("none.csv", "--target", "kind")
    done = run(command, *args, *out)
    assert "none." in one_line(done.returncode, done.stdout, done.stderr)


def test_wrong_option_value_is_one_line(fail, iris, tmp_path):
    out = tmp_path / "m.skops"
    line = fail("fit", iris, "--target", "species", "--out", out, "--likelihood", "gauss")
    assert "likelihood" in line
    assert "probit" in line
    assert not out.exists()


@pytest.mark.slow
def test_fit_and_predict(iris, model, tmp_path):
    out = tmp_path / "predictions.csv"
    done = succeed("predict", model, iris, "--out", out)
    assert f"predictions: {out}" in done.stdout
    predictions = pd.read_csv(out)
    assert list(predictions) == ["probability_versicolor", "probability_virginica", "predicted"]
    np.testing.assert_allclose(predictions.iloc[:, :2].sum(axis=1), 1)
    observed = pd.read_csv(iris)["species"]
    assert (predictions["predicted"] == observed).mean() > 0.6


@pytest.mark.slow
def test_predictions_are_those_of_the_library(iris, model, tmp_path):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    out = tmp_path / "predictions.parquet"
    succeed("predict", model, iris, "--out", out)
    frame = pd.read_csv(iris)
    X = frame[["length", "width"]]
    pipeline = make_pipeline(StandardScaler(), gpclass.GaussianProcessClassifier(random_state=0))
    expected = pipeline.fit(X, frame["species"]).predict_proba(X)
    np.testing.assert_allclose(pd.read_parquet(out).iloc[:, :2], expected, rtol=1e-6)


@pytest.mark.slow
def test_columns_are_found_by_name(iris, model, tmp_path):
    frame = pd.read_csv(iris)
    shuffled = tmp_path / "shuffled.parquet"
    frame[["width", "length"]].assign(note="text is ignored here").to_parquet(shuffled)
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    succeed("predict", model, iris, "--out", one)
    succeed("predict", model, shuffled, "--out", two)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.slow
def test_json_of_fit_and_predict(iris, tmp_path):
    path, out = tmp_path / "m.skops", tmp_path / "p.csv"
    fitted = json.loads(succeed("fit", iris, "--target", "species", "--out", path, "--json").stdout)
    assert fitted["features"] == ["length", "width"]
    assert np.isfinite(fitted["log_evidence"])
    predicted = json.loads(succeed("predict", path, iris, "--out", out, "--json").stdout)
    assert predicted["rows"] == 100
    assert sum(predicted["predicted_counts"].values()) == 100


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A pattern of three Parquet files of one table."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(150, 2)), columns=["a", "b"])
    table["kind"] = np.where(table.a + 0.3 * rng.normal(size=150) > 0, "up", "down")
    folder = tmp_path_factory.mktemp("rows")
    for k in range(3):
        table[50 * k : 50 * k + 50].to_parquet(folder / f"{k}.parquet")
    return folder / "*.parquet"


@pytest.mark.slow
def test_a_fit_to_parquet_files_by_parts(rows, tmp_path):
    path, out, notes = tmp_path / "m.skops", tmp_path / "p.csv", tmp_path / "c.json"
    options = ("--target", "kind", "--inducing", 12, "--out", path, "--checkpoint", notes)
    done = succeed("fit", "--data", rows, *options, "--json")
    fitted = json.loads(done.stdout)
    assert (fitted["rows"], fitted["inducing"], fitted["features"]) == (150, 12, ["a", "b"])
    assert "passes over the rows" in done.stderr
    assert json.loads(notes.read_text())["log_evidence"] == pytest.approx(fitted["log_evidence"])
    one = rows.with_name("1.parquet")
    predicted = json.loads(succeed("predict", path, one, "--out", out, "--json").stdout)
    assert predicted["rows"] == 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:Port .* is already in use")
def test_a_fit_on_a_cluster_that_runs_elsewhere(rows, tmp_path):
    distributed = pytest.importorskip("distributed")
    path = tmp_path / "m.skops"
    fit = ("fit", "--data", rows, "--target", "kind", "--inducing", 12, "--out", path, "--json")
    here = json.loads(succeed(*fit).stdout)
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as cluster:
        there = json.loads(succeed(*fit, "--scheduler", cluster.scheduler_address).stdout)
        assert len(cluster.scheduler_info["workers"]) == 2
    assert there["log_evidence"] == here["log_evidence"]


def test_mistakes_of_a_fit_by_parts(fail, rows, iris, tmp_path):
    out = ("--out", tmp_path / "m.skops")
    assert "--target" in fail("fit", "--data", rows, *out)
    assert "no column flower; it has a, b, kind" in fail(
        "fit", "--data", rows, "--target", "flower", *out
    )
    assert "--inducing takes a number" in fail("fit", "--data", rows, "--inducing", "many", *out)
    assert "--data with a pattern" in fail("fit", iris, "--data", rows, *out)
    assert "--data with a pattern" in fail("fit", *out)
    assert "--scheduler goes with --data" in fail("fit", iris, "--scheduler", "tcp://x:1", *out)


@pytest.mark.slow
def test_three_classes_in_a_model_file(tmp_path):
    path, out = tmp_path / "m.skops", tmp_path / "p.csv"
    X, y = load_iris(return_X_y=True, as_frame=True)
    table = tmp_path / "iris.parquet"
    X.assign(kind=y)[::3].to_parquet(table)
    for value in ("one_vs_rest", "one_vs_one"):
        succeed("fit", table, "--target", "kind", "--out", path, "--multi-class", value)
        succeed("predict", path, table, "--out", out)
        predictions = pd.read_csv(out)
        assert list(predictions)[:3] == ["probability_0", "probability_1", "probability_2"]
        assert (predictions["predicted"] == y[::3].to_numpy()).mean() > 0.9


@pytest.mark.slow
def test_missing_feature_columns_are_named(fail, iris, model, tmp_path):
    table = tmp_path / "t.csv"
    pd.read_csv(iris)[["length"]].to_csv(table, index=False)
    line = fail("predict", model, table, "--out", tmp_path / "p.csv")
    assert "lacks columns that the model was fitted to: width." in line


@pytest.mark.parametrize("command", ["evaluate", "fit"])
def test_bad_tables(fail, monkeypatch, command, iris, tmp_path):
    def mistake(table, *args):
        out = ("--out", tmp_path / "m.skops") if command == "fit" else ()
        return fail(command, table, *args, *out)

    frame = pd.read_csv(iris)
    table = tmp_path / "t.csv"
    assert "no column 'kind'" in mistake(iris, "--target", "kind")
    assert "needs a target" in mistake(iris)
    assert "no file" in mistake(tmp_path / "none.csv", "--target", "species")
    assert "neither a file" in mistake("irsi")
    table.write_bytes(b"\x00\xff\xfe")
    assert "cannot be read as CSV" in mistake(table, "--target", "species")
    frame.assign(species="one").to_csv(table, index=False)
    assert "one class only (one)" in mistake(table, "--target", "species")
    frame.to_csv(table, index=False, sep=";")
    line = mistake(table, "--target", "species", "--sep", ",")
    assert "no column 'species'" in line
    assert "with the separator ','" in line
    frame.assign(name=[f"flower {i}" for i in range(100)]).to_csv(table, index=False)
    assert "the text column 'name' with" in mistake(table, "--target", "species")
    frame.assign(width=np.inf).to_csv(table, index=False)
    assert "infinite values in the columns width" in mistake(table, "--target", "species")
    frame.drop(columns="species").to_csv(table, index=False)
    assert "continuous" in mistake(table, "--target", "length")
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    assert "set the environment variable GPCLASS_DATA" in mistake("crabs_sex")


@pytest.mark.slow
def test_outputs_are_checked_before_the_work(fail, iris, model, tmp_path):
    line = fail("evaluate", iris, "--target", "species", "--picture", tmp_path / "p.gif2")
    assert "must end in one of" in line
    assert ".skops" in fail("fit", iris, "--target", "species", "--out", tmp_path / "m.pkl")
    assert "not a file that ends in" in fail("predict", model, iris, "--out", tmp_path / "p.txt")
    taken = tmp_path / "folder.skops"
    taken.mkdir()
    assert "cannot be written" in fail("fit", iris, "--target", "species", "--out", taken)
    line = fail("evaluate", iris, "--target", "species", "--picture", iris / "p.png")
    assert "cannot be written: Not a directory" in line
    assert "would be overwritten" in fail("predict", model, iris, "--out", iris)
    line = fail("evaluate", iris, "--target", "species", "--folds", 51)
    assert "has 50 rows, but 51 are needed" in line


@pytest.mark.slow
def test_a_file_as_people_have_it(tmp_path):
    """Semicolons, decimal commas, an old encoding, text, gaps, ids, and losses of decisions."""
    rng = np.random.default_rng(0)
    lines, labels = ["nr;größe;stadt;krank"], []
    for i in range(60):
        height, town = rng.uniform(1.5, 2), rng.choice(["Köln", "Ulm", "?"])
        labels.append("ja" if height + 0.2 * (town == "Ulm") > 1.8 else "nein")
        height = "" if i % 9 == 0 else f"{height:.2f}".replace(".", ",")
        lines.append(f"{i:03d};{height};{town};{labels[-1]}")
    table, model, out = tmp_path / "t.csv", tmp_path / "m.skops", tmp_path / "p.tsv"
    table.write_text("\n".join(lines), encoding="cp1252")
    done = succeed("fit", table, "--target", "krank", "--id", "nr", "--out", model)
    assert "60 rows, 2 features, classes ja, nein" in done.stdout
    assert "was read as cp1252" in done.stderr
    loss = tmp_path / "loss.csv"
    loss.write_text("class,ja,nein\nja,0,100\nnein,1,0\n")
    lines[1:] = [line.replace("Ulm", "Hof") for line in lines[1:]]
    table.write_text("\n".join(lines), encoding="utf-8")
    args = ("predict", model, table, "--id", "nr", "--out", out, "--loss", loss)
    done = succeed(*args, "--reject-cost", 0.5)
    found = pd.read_csv(out, sep="\t", dtype=str)
    assert list(found) == ["nr", "probability_ja", "probability_nein", "predicted", "decision"]
    assert found["nr"].tolist() == [f"{i:03d}" for i in range(60)]
    p = found["probability_ja"].astype(float)
    # 100 p for "nein", 1 - p for "ja", 0.5 for neither
    expected = np.select([100 * p < 0.5, 1 - p <= 0.5], ["nein", "ja"], "reject")
    assert (found["decision"] == expected).all()
    assert f"{(expected == 'reject').sum()} reject" in done.stdout


@pytest.mark.slow
def test_mistakes_of_ids_and_losses(fail, iris, model, tmp_path):
    def mistake(*args):
        return fail("predict", model, iris, "--out", tmp_path / "p.csv", *args)

    assert "no column 'nr'; its columns are length" in mistake("--id", "nr")
    loss = tmp_path / "loss.csv"
    assert "no file" in mistake("--loss", loss)
    loss.write_text("class,versicolor,setosa\nversicolor,0,1\nsetosa,1,0\n")
    assert "lack class virginica; the model has the classes versicolor" in mistake("--loss", loss)
    assert "reject_cost must be a finite number" in mistake("--reject-cost", "inf")
    loss.write_text("x,versicolor,virginica,reject\nversicolor,0,1,1\nvirginica,1,0,1\n")
    assert "not both" in mistake("--loss", loss, "--reject-cost", 1)
    line = fail("fit", iris, "--out", tmp_path / "m.skops", "--inference", "mcmc")
    assert "--inference mcmc samples for a kernel that is known" in line


@pytest.mark.slow
def test_an_interruption_says_what_is_left(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2000, 5)), columns=list("abcde"))
    frame["kind"] = np.where(frame["a"] + rng.normal(size=2000) > 0, "größer", "kleiner")
    frame.to_csv(table, index=False, encoding="cp1252")
    command = [sys.executable, "-m", "gpclass", "fit", table, "--target", "kind"]
    with subprocess.Popen([*command, "--out", out], stderr=subprocess.PIPE, text=True) as process:
        # the file is read, and the fit of at least ten seconds is next
        assert "read as cp1252" in process.stderr.readline()
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert re.search(
        r"^gpclass: interrupted after \d+ evaluations?.*; nothing was written", said, re.M
    )
    assert not out.exists()


def test_an_interrupted_comparison_says_how_far_it_was(monkeypatch, iris, capsys):
    def interrupt(*args, progress, **options):
        progress("gpclass", 3, 40)
        raise KeyboardInterrupt

    monkeypatch.setattr("gpclass.app.evaluation.compare", interrupt)
    monkeypatch.setattr(sys, "argv", ["gpclass", "evaluate", str(iris), "--target", "species"])
    with pytest.raises(SystemExit) as stopped:
        gpclass.app.cli.main()
    assert stopped.value.code == 130
    said = capsys.readouterr().err
    assert "cross-validation: 3 of 40 fits (0 s" in said
    assert said.endswith("gpclass: interrupted after 3 of 40 fits; nothing was written.\n")


def test_what_memory_cannot_hold_is_one_line(fail, monkeypatch, iris, tmp_path):
    monkeypatch.setattr("gpclass.estimator.cost.FEW_BYTES", 0.0)
    monkeypatch.setattr("gpclass.estimator.cost.free_memory", lambda: 1e4)
    line = fail("fit", iris, "--target", "species", "--out", tmp_path / "m.skops")
    assert "n = 100 needs" in line


def test_help_lists_the_values_and_the_data_sets(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert tuple(sorted(METHODS, key=INFERENCES.index)) == INFERENCES
    assert set(LIKELIHOODS) == set(gpclass.likelihoods.LIKELIHOODS)
    assert set(MULTI_CLASS) == {*JOINT, *DECOMPOSITIONS}
    for command in ("evaluate", "fit"):
        text = CliRunner().invoke(app, [command, "--help"]).stdout
        for values in (LIKELIHOODS, INFERENCES, MULTI_CLASS):
            assert ", ".join(values) in text
        assert all(name in text for name in list_datasets())


def test_model_files_that_are_not_ours(fail, iris, model, tmp_path):
    path, out = tmp_path / "m.skops", tmp_path / "p.csv"

    def mistake():
        return fail("predict", path, iris, "--out", out)

    assert "no file" in mistake()
    path.write_bytes(b"not a zip file")
    assert "not a model file of gpclass, or is damaged" in mistake()
    path.write_bytes(model.read_bytes()[:-200])
    assert "damaged" in mistake()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "{}")
    assert "damaged" in mistake()
    skops.io.dump(LogisticRegression(), path)
    assert "not one that `gpclass fit` wrote" in mistake()
    skops.io.dump({"format": "gpclass model", "format_version": 99}, path)
    assert "in a format that" in mistake()
    assert not out.exists()


def test_untrusted_types_are_not_built(fail, iris, tmp_path):
    path = tmp_path / "m.skops"
    skops.io.dump({"format": "gpclass model", "pipeline": os.system}, path)
    line = fail("predict", path, iris, "--out", tmp_path / "p.csv")
    assert "types that are not trusted" in line
    assert "system" in line


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_missing_extra_says_what_to_type(module):
    code = f"import sys; sys.modules[{module!r}] = None; from gpclass.app import cli; cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "pip install 'gpclass[cli]'" in done.stderr
    assert done.stderr.count("\n") == 1
