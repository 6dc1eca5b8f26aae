"""Saved models: small, the same in another process bit for bit, and of types that can be named."""

import copy
import hashlib
import json
import os
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import gpclass
from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace, TangentBound, Variational
from gpclass.learning import ExpectationMaximisation, KeepFixed, MaximiseEvidence
from gpclass.likelihoods import NoisyThreshold, Probit
from gpclass.montecarlo import MonteCarlo
from helpers import slow

LIMIT = 500_000
# too few to say that they are enough, which costs a warning; few enough for a short file
SAMPLES = MonteCarlo(n_samples=60, n_burn=20, n_chains=6, thin=2, n_temperatures=20, n_annealed=10)

PREDICT = """
import hashlib, json, sys, warnings
import numpy as np
warnings.simplefilter("error")
digests = {}
for path in sys.argv[2:]:
    if path.endswith(".skops"):
        import skops.io
        import gpclass
        model = skops.io.load(path, trusted=gpclass.trusted_types())
    elif path.endswith(".joblib"):
        import joblib
        model = joblib.load(path)
    else:
        import pickle
        with open(path, "rb") as file:
            model = pickle.load(file)
    P = model.predict_proba(np.load(sys.argv[1]))
    digests[path] = hashlib.sha256(P.tobytes()).hexdigest()
print(json.dumps(digests))
"""


def digests_of_new_process(X, paths, folder):
    np.save(folder / "new.npy", X)
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, str(folder / "new.npy"), *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def digest(P):
    return hashlib.sha256(P.tobytes()).hexdigest()


def dump_everywhere(model, folder, name="model"):
    """Files of pickle, joblib and, where it is installed, skops."""
    paths = [folder / f"{name}.pickle", folder / f"{name}.joblib"]
    paths[0].write_bytes(pickle.dumps(model))
    joblib.dump(model, paths[1])
    try:
        import skops.io
    except ImportError:
        return paths
    paths.append(folder / f"{name}.skops")
    skops.io.dump(model, paths[2])
    return paths


def large_table(n_classes=2):
    return make_classification(
        1000, 20, n_informative=8, n_classes=n_classes, flip_y=0.1, random_state=0
    )


FEW = make_classification(120, 20, n_informative=8, n_classes=3, flip_y=0.1, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [True, False], ids=["learnt", "fixed"])
def test_a_thousand_rows_of_twenty_columns(tmp_path, learnt):
    X, y = large_table()
    model = GaussianProcessClassifier() if learnt else GaussianProcessClassifier(optimizer=None)
    model.fit(X, y)
    before = dump_everywhere(model, tmp_path, "before")
    P = model.predict_proba(X[:100])
    after = dump_everywhere(model, tmp_path, "after")
    for path in before + after:
        assert path.stat().st_size < LIMIT, path.name
    # predicting builds the factor, which is not saved
    for one, other in zip(before, after, strict=True):
        assert abs(one.stat().st_size - other.stat().st_size) < 2000
    found = digests_of_new_process(X[:100], before + after, tmp_path)
    assert set(found.values()) == {digest(P)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"multi_class": "one_vs_one"},
        {"kernel": 1.0 * RBF(np.ones(20)) + WhiteKernel(0.1)},
    ],
    ids=["one_vs_rest", "one_vs_one", "ard"],
)
def test_three_classes_of_a_thousand_rows(tmp_path, settings):
    X, y = large_table(3)
    model = GaussianProcessClassifier(optimizer=None, **settings).fit(X, y)
    P = model.predict_proba(X[:50])
    paths = dump_everywhere(model, tmp_path)
    for path in paths:
        # joblib writes an array once for each reference to it, here one for each binary problem
        assert path.suffix == ".joblib" or path.stat().st_size < LIMIT, path.name
    assert set(digests_of_new_process(X[:50], paths, tmp_path).values()) == {digest(P)}


MODELS = {
    "binary": ({}, lambda y: y > 0),
    "one_vs_rest": ({}, lambda y: y),
    "one_vs_one": ({"multi_class": "one_vs_one"}, lambda y: np.array(["a", "b", "c"])[y]),
    "labels of object": ({}, lambda y: np.array(["a", "b", "c"], dtype=object)[y]),
    "laplace, logit": ({"likelihood": "logit", "inference": "laplace"}, lambda y: y > 0),
    "ep, logit": ({"likelihood": "logit"}, lambda y: y > 0),
    "noisy threshold": (
        {
            "likelihood": NoisyThreshold(0.1),
            "kernel": 1.0 * RBF(4.0),
            "optimizer": None,
            "multi_class": "one_vs_rest",
        },
        lambda y: y,
    ),
    "noisy threshold, learnt": (
        {"likelihood": "threshold", "kernel": ConstantKernel(2.0, "fixed") * RBF(4.0)},
        lambda y: y > 0,
    ),
    "sequential ep": (
        {"inference": EP(schedule="sequential"), "optimizer": None, "kernel": 1.0 * RBF(4.0)},
        lambda y: y,
    ),
    "pl": ({"inference": "pl"}, lambda y: y > 0),
    "vi": ({"inference": "vi", "kernel": 1.0 * RBF(4.0), "optimizer": None}, lambda y: y > 0),
    "softmax": ({"inference": "laplace"}, lambda y: y),
    "nested ep, one kernel a class": ({"kernel": [1.0 * RBF(4.0)] * 3}, lambda y: y),
    "differences": (
        {"inference": "pl", "multi_class": "differences", "optimizer": None},
        lambda y: y,
    ),
    "vi by the ep energy": (
        {"inference": Variational(evidence="ep"), "kernel": 1.0 * RBF(4.0), "optimizer": None},
        lambda y: y > 0,
    ),
    "bound": ({"inference": "bound", "likelihood": "logit"}, lambda y: y > 0),
    "upper bound": (
        {"inference": TangentBound(side="upper"), "likelihood": "logit", "optimizer": None},
        lambda y: y > 0,
    ),
    "mcmc": (
        {"inference": SAMPLES, "kernel": 1.0 * RBF(4.0), "optimizer": None},
        lambda y: y > 0,
    ),
    "mcmc of pairs": (
        {
            "inference": SAMPLES,
            "kernel": 1.0 * RBF(4.0),
            "optimizer": None,
            "multi_class": "one_vs_one",
        },
        lambda y: y,
    ),
    "em": ({"learning": "em"}, lambda y: y > 0),
    "em learner": (
        {"learning": ExpectationMaximisation(max_iter=20), "kernel": 1.0 * RBF(4.0)},
        lambda y: y > 0,
    ),
    "ard": ({"kernel": 1.0 * RBF(np.ones(20)) + WhiteKernel(0.1)}, lambda y: y),
    "matern": ({"kernel": ConstantKernel(2.0, "fixed") * Matern(4.0, nu=2.5)}, lambda y: y),
    "restarts": (
        {"kernel": 1.0 * RBF(4.0), "n_restarts_optimizer": 2, "random_state": 0},
        lambda y: y > 0,
    ),
    "random state": (
        {
            "kernel": 1.0 * RBF(4.0),
            "n_restarts_optimizer": 1,
            "random_state": np.random.RandomState(0),
        },
        lambda y: y > 0,
    ),
    "no optimizer": ({"kernel": 1.0 * RBF(4.0), "optimizer": None}, lambda y: y),
    "objects": (
        {"inference": Laplace(tol=1e-8), "likelihood": Probit(), "learning": KeepFixed()},
        lambda y: y,
    ),
    "learner": ({"learning": MaximiseEvidence()}, lambda y: y > 0),
    "class weights": ({"class_weight": "balanced"}, lambda y: y),
    "class weights of a dict": ({"class_weight": {0: 1.0, 1: 2.0, 2: 3.0}}, lambda y: y),
    "precomputed": ({"kernel": "precomputed"}, lambda y: y > 0),
    "precomputed one_vs_one": (
        {"kernel": "precomputed", "multi_class": "one_vs_one"},
        lambda y: y,
    ),
}


@pytest.fixture(
    scope="module",
    params=slow(MODELS, "class weights", "class weights of a dict", "em", "ard", "ep, logit"),
)
def fitted(request):
    settings, relabel = MODELS[request.param]
    X, y = FEW
    if settings.get("kernel") == "precomputed":
        X = RBF(4.0)(X)
    with warnings.catch_warnings():
        # length-scales of columns without information end on their bounds, as they should
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianProcessClassifier(**settings).fit(X, relabel(y))


@pytest.mark.slow
def test_copies_predict_the_same_bits(fitted, tmp_path):
    X = fitted.X_train_[:17]
    before = pickle.dumps(fitted)
    P = fitted.predict_proba(X)
    after = pickle.dumps(fitted)
    assert abs(len(after) - len(before)) < 100
    joblib.dump(fitted, tmp_path / "model.joblib")
    for other in (
        pickle.loads(before),
        pickle.loads(after),
        copy.deepcopy(fitted),
        copy.copy(fitted),
        joblib.load(tmp_path / "model.joblib"),
    ):
        assert other.predict_proba(X).tobytes() == P.tobytes()
        np.testing.assert_array_equal(other.classes_, fitted.classes_)
        assert other.kernel_ == fitted.kernel_
        assert other.log_marginal_likelihood_value_ == fitted.log_marginal_likelihood_value_
        assert other.optimizer_report_.to_rows() == fitted.optimizer_report_.to_rows()
        assert other.n_iter_ == fitted.n_iter_
        assert other.converged_ == fitted.converged_
        assert other.get_params().keys() == fitted.get_params().keys()


@pytest.mark.slow
def test_copies_are_whole(fitted):
    """The evidence, its gradient and another fit need what prediction does not."""
    other = pickle.loads(pickle.dumps(fitted))
    assert other.kernel == fitted.kernel
    assert other.likelihood_ == fitted.likelihood_
    theta = fitted.kernel_.theta
    if isinstance(fitted.inference, MonteCarlo):
        with pytest.raises(ValueError, match="no gradient"):
            other.log_marginal_likelihood(theta, eval_gradient=True)
        ours, theirs = (m.log_marginal_likelihood(theta) for m in (fitted, other))
        assert ours == theirs
        return
    ours = fitted.log_marginal_likelihood(theta, eval_gradient=True)
    theirs = other.log_marginal_likelihood(theta, eval_gradient=True)
    assert ours[0] == theirs[0]
    assert ours[1].tobytes() == theirs[1].tobytes()
    assert other.get_params().keys() == fitted.get_params().keys()


def test_only_our_types_need_trust(fitted, tmp_path):
    skops_io = pytest.importorskip("skops.io", reason="skops files need skops")
    path = tmp_path / "model.skops"
    skops_io.dump(fitted, path)
    untrusted = set(skops_io.get_untrusted_types(file=path))
    assert untrusted <= set(gpclass.trusted_types())
    assert all(name.startswith("gpclass.") for name in gpclass.trusted_types())
    loaded = skops_io.load(path, trusted=gpclass.trusted_types())
    X = fitted.X_train_[:17]
    assert loaded.predict_proba(X).tobytes() == fitted.predict_proba(X).tobytes()
    np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert loaded.kernel_ == fitted.kernel_
    assert loaded.get_params().keys() == fitted.get_params().keys()
    assert loaded.optimizer_report_.to_rows() == fitted.optimizer_report_.to_rows()


@pytest.mark.slow
def test_a_new_process_predicts_the_same_bits(tmp_path):
    X, y = FEW[0][:60], FEW[1][:60]
    expected, paths = {}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, (settings, relabel) in MODELS.items():
            if settings.get("kernel") == "precomputed":
                continue
            model = GaussianProcessClassifier(**settings).fit(X, relabel(y))
            for path in dump_everywhere(model, tmp_path, name):
                paths.append(path)
                expected[str(path)] = digest(model.predict_proba(X[:17]))
    assert digests_of_new_process(X[:17], paths, tmp_path) == expected


@pytest.mark.slow
def test_precomputed_in_a_new_process(tmp_path):
    X, y = FEW
    K = RBF(4.0)(X)
    model = GaussianProcessClassifier("precomputed", multi_class="one_vs_one").fit(K, y)
    new = np.hstack([K[:9], np.ones((9, 1))])
    paths = dump_everywhere(model, tmp_path)
    found = digests_of_new_process(new, paths, tmp_path)
    assert set(found.values()) == {digest(model.predict_proba(new))}


def test_frames_and_their_column_names_survive(tmp_path):
    pd = pytest.importorskip("pandas", reason="frames need pandas")
    X, y = FEW
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    model = GaussianProcessClassifier(optimizer=None).fit(frame, y)
    P = model.predict_proba(frame)
    for path in dump_everywhere(model, tmp_path):
        if path.suffix == ".skops":
            import skops.io

            other = skops.io.load(path, trusted=gpclass.trusted_types())
        else:
            other = (
                joblib.load(path) if path.suffix == ".joblib" else pickle.loads(path.read_bytes())
            )
        assert list(other.feature_names_in_) == ["a", "b", "c"]
        assert other.predict_proba(frame).tobytes() == P.tobytes()
        assert other.predict_proba(frame[["b", "a", "c"]]).tobytes() == P.tobytes()
        with pytest.raises(ValueError, match="feature names"):
            other.predict(frame[["b", "a"]])


def test_a_kernel_of_objects_can_be_pickled():
    pytest.importorskip(
        "sklearn.gaussian_process.tests._mini_sequence_kernel",
        reason="the installed scikit-learn comes without its tests",
    )
    from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

    words = ["A", "AB", "B", "BB", "ABA", "BAB"]
    model = GaussianProcessClassifier(
        MiniSeqKernel(baseline_similarity_bounds=(0.1, 0.9)), optimizer=None
    ).fit(words, [0, 0, 1, 1, 0, 1])
    other = pickle.loads(pickle.dumps(model))
    assert other.predict_proba(words).tobytes() == model.predict_proba(words).tobytes()


def test_an_estimator_that_is_not_fitted_can_be_saved(tmp_path):
    model = GaussianProcessClassifier(1.0 * RBF(2.0), inference=Laplace(tol=1e-9))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert repr(other) == repr(model)
        assert other.kernel == model.kernel


def test_a_users_own_kernel_keeps_its_class_and_state():
    model = GaussianProcessClassifier(2.0 * Scaled(3.0)).fit(FEW[0], FEW[1] > 0)
    other = copy.deepcopy(model)
    assert type(other.kernel.k2) is Scaled
    assert other.kernel_ == model.kernel_
    assert other.predict_proba(FEW[0]).tobytes() == model.predict_proba(FEW[0]).tobytes()


class Scaled(RBF):
    """What a user writes: a subclass with a value of its own."""

    def __call__(self, X, Y=None, eval_gradient=False):
        scaled = [None if Z is None else np.asarray(Z) * self.factor for Z in (X, Y)]
        return super().__call__(*scaled, eval_gradient=eval_gradient)

    @property
    def factor(self):
        return 0.5
