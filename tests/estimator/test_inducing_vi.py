"""inference="vi" with inducing points, through the estimator."""

import io
import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import gpclass
from gpclass import GaussianProcessClassifier
from gpclass.estimator.export import to_onnx
from gpclass.exceptions import NotEnoughMemoryError
from gpclass.inference import Variational
from gpclass.learning import InducingProblem

KERNEL = 2.0 * RBF([1.0, 2.0, 2.0])


def table(n=400, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    latent = 2 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
    return X, np.digitize(latent, [0.0] if classes == 2 else [-0.8, 0.8])


def make(kernel=KERNEL, **settings):
    return GaussianProcessClassifier(
        kernel, **({"inference": "vi", "inducing": 20, "optimizer": None} | settings)
    )


@pytest.fixture(scope="module")
def learnt():
    X, y = table()
    return make(optimizer="fmin_l_bfgs_b").fit(X, y)


@pytest.fixture(scope="module")
def three():
    return make(inducing=30, likelihood="logit").fit(*table(classes=3))


@pytest.fixture(scope="module")
def three_probit():
    return make(inducing=30, likelihood="probit").fit(*table(classes=3))


def test_all_rows_as_points_give_the_exact_classifier():
    X, y = table(80)
    exact = make(inducing=None, inference=Variational(tol=1e-10)).fit(X, y)
    found = make(inducing=X).fit(X, y)
    assert found.log_marginal_likelihood_value_ == pytest.approx(
        exact.log_marginal_likelihood_value_, abs=1e-6
    )
    new = table(50, seed=1)[0]
    np.testing.assert_allclose(found.predict_proba(new), exact.predict_proba(new), atol=1e-6)
    for a, b in zip(
        found.latent_mean_and_variance(new), exact.latent_mean_and_variance(new), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(found.loo_proba_, exact.loo_proba_, atol=1e-5)
    theta = KERNEL.theta + 0.1
    for a, b in zip(
        found.log_marginal_likelihood(theta, eval_gradient=True),
        exact.log_marginal_likelihood(theta, eval_gradient=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_it_learns_and_says_what_it_has_learnt(learnt):
    X, y = table(1000, seed=3)
    assert learnt.score(X, y) > 0.85
    assert learnt.converged_
    assert learnt.log_marginal_likelihood() > make().fit(*table()).log_marginal_likelihood()
    (model,) = learnt.models_
    assert isinstance(model.problem, InducingProblem)
    assert "20 inducing points, which leave 0." in learnt.summary()
    theta = learnt.kernel_.theta
    value, slope = learnt.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(learnt.log_marginal_likelihood_value_, abs=1e-6)
    np.testing.assert_allclose(slope, 0.0, atol=0.02)


def test_draws_have_the_posterior_moments(learnt, three):
    new = table(6, seed=1)[0]
    for model in (learnt, three):
        mean, covariance = model.predict_latent(new)
        drawn = model.sample_latent(new, 20_000, random_state=0)
        assert drawn.shape == (*mean.shape, 20_000)
        spread = np.sqrt(np.einsum("icc->ic", covariance))
        np.testing.assert_allclose(drawn.mean(axis=2), mean, atol=0.05 * spread.max())
        np.testing.assert_allclose(drawn.std(axis=2), spread, rtol=0.05)


def test_a_row_is_predicted_alike_in_any_batch(learnt, three):
    new = table(40, seed=1)[0]
    for model in (learnt, three):
        whole = model.predict_proba(new)
        np.testing.assert_array_equal(whole[7:8], model.predict_proba(new[7:8]))


@pytest.mark.parametrize("name", ["learnt", "three", "three_probit"])
def test_gradients_by_the_rows_are_differences(name, request):
    model, new = request.getfixturevalue(name), table(4, seed=1)[0]
    found, h = model.predict_proba_gradient(new), 1e-4
    for j, unit in enumerate(np.eye(3)):
        up, down = (model.predict_proba(new + s * h * unit) for s in (1, -1))
        np.testing.assert_allclose(found[..., j], (up - down) / (2 * h), atol=1e-6)


@pytest.mark.parametrize("name", ["learnt", "three", "three_probit"])
def test_it_can_be_exported(name, request):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model, new = request.getfixturevalue(name), table(20, seed=1)[0]
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    (P,) = session.run(["probabilities"], {"X": new})
    np.testing.assert_allclose(P, model.predict_proba(new), atol=2e-3)


@pytest.mark.parametrize("name", ["learnt", "three", "three_probit"])
def test_it_can_be_saved(name, request):
    model, new = request.getfixturevalue(name), table(9, seed=1)[0]
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(new), model.predict_proba(new))
    skops = pytest.importorskip("skops.io")
    file = io.BytesIO(skops.dumps(model))
    copy = skops.load(file, trusted=gpclass.trusted_types())
    np.testing.assert_array_equal(copy.predict_proba(new), model.predict_proba(new))


@pytest.mark.parametrize("name", ["three", "three_probit"])
def test_three_classes(name, request):
    three = request.getfixturevalue(name)
    X, y = table(1000, seed=3, classes=3)
    assert three.score(X, y) > 0.75
    P = three.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    loo = three.loo_proba_
    own = np.log(loo[np.arange(400), table(classes=3)[1]]).mean()
    assert own == pytest.approx(np.log(P[np.arange(1000), y]).mean(), abs=0.1)
    # names of the classes in another order
    X, y = table(classes=3)
    other = make(inducing=30, likelihood=three.likelihood).fit(X, np.array(["b", "c", "a"])[y])
    np.testing.assert_allclose(
        other.predict_proba(X)[:, [1, 2, 0]], three.predict_proba(X), atol=1e-6
    )


def test_weights_are_repetition_and_order_does_not_matter():
    X, y = table(150)
    weight = np.random.default_rng(0).integers(0, 3, 150)
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(150), weight))
    for points in (X[:15], 15, "auto"):
        weighted = make(inducing=points).fit(X, y, sample_weight=weight)
        repeated = make(inducing=points).fit(X[rows], y[rows])
        assert weighted.log_marginal_likelihood_value_ == pytest.approx(
            repeated.log_marginal_likelihood_value_, abs=1e-7
        )
        np.testing.assert_allclose(
            weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-6
        )
        assert weighted.loo_proba_.shape == (150, 2)


@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
def test_several_binary_problems(multi_class):
    X, y = table(200, classes=3)
    model = make(multi_class=multi_class).fit(X, y)
    assert model.score(X, y) > 0.75
    assert np.isfinite(model.loo_log_loss_)


def test_a_warm_start_keeps_the_points_and_saves_passes():
    X, y = table(300)
    model = make(warm_start=True).fit(X[:250], y[:250])
    cold = make(inducing=model.models_[0].problem.Z).fit(X, y)
    model.fit(X, y)
    np.testing.assert_array_equal(model.models_[0].problem.Z, cold.models_[0].problem.Z)
    assert model.models_[0].n_iter < cold.models_[0].n_iter
    assert model.log_marginal_likelihood_value_ == pytest.approx(
        cold.log_marginal_likelihood_value_, abs=1e-8
    )


def test_a_warm_start_on_other_rows_chooses_other_points():
    X, y = table(200)
    model = make(warm_start=True).fit(X, y).fit(X + 20.0, y)
    anew = make().fit(X + 20.0, y)
    np.testing.assert_allclose(model.models_[0].problem.Z, anew.models_[0].problem.Z)
    wider = np.column_stack([X, X[:, 0] ** 2])
    kernel = 2.0 * RBF(1.0)
    model = make(kernel, warm_start=True).fit(X, y).fit(wider, y)
    assert model.models_[0].problem.Z.shape == (20, 4)


def test_auto_takes_more_points_for_a_rougher_kernel():
    X, y = table(400)
    counts = [
        len(make(scale * RBF(length), inducing="auto").fit(X, y).models_[0].problem.Z)
        for scale, length in ((2.0, 20.0), (2.0, 0.7))
    ]
    assert counts[0] < counts[1] == 256


def test_points_are_drawn_by_the_random_state_alone():
    X, y = table(200)
    models = [make(random_state=3).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(*(one.models_[0].problem.Z for one in models))


def test_averages_over_hyperparameters():
    X, y = table(150)
    model = make(1.0 * RBF(1.0), learning="ccd", optimizer="fmin_l_bfgs_b").fit(X, y)
    assert len(model.models_[0].learned.nodes) > 3
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inducing": 0}, "inducing=0 must be at least 1"),
        ({"inducing": -3}, "must be at least 1"),
        ({"inducing": 2.5}, "a number of inducing points"),
        ({"inducing": "many"}, "'auto', a number of inducing points"),
        ({"inducing": 31}, "31 points, and X has 30 rows"),
        ({"inducing": np.zeros((2, 3))}, "equal rows, 0 and 1"),
        ({"inducing": np.zeros((2, 5))}, "inducing cannot be used as rows of X"),
        ({"learning": "loo", "optimizer": "fmin_l_bfgs_b"}, "keeps no site of each row"),
        ({"learning": "em", "optimizer": "fmin_l_bfgs_b"}, "keeps no site of each row"),
        ({"inference": Variational(evidence="ep")}, "whose evidence needs the rows' sites"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**settings).fit(*table(30))


def test_bad_input_of_three_classes():
    X, y = table(60, classes=3)
    with pytest.raises(ValueError, match="the joint models of inducing points are the multinomial"):
        make(likelihood="threshold").fit(X, y)
    with pytest.raises(ValueError, match="one kernel that all classes share"):
        make([KERNEL] * 3, likelihood="logit").fit(X, y)
    with pytest.raises(ValueError, match="take inference='vi' with multi_class='joint'"):
        make(multi_class="differences").fit(X, y)


def test_what_does_not_fit_says_so_before_it_starts(monkeypatch):
    X, y = table(20_000)
    monkeypatch.setattr("gpclass.estimator.cost.free_memory", lambda: 1e8)
    with pytest.raises(NotEnoughMemoryError, match="n = 20000 needs"):
        make(inducing=2000).fit(X, y)


@pytest.mark.slow
def test_many_rows_begin_with_some_of_them():
    X, y = table(12_000)
    model = make(optimizer="fmin_l_bfgs_b", hyperprior="weak").fit(X, y)
    assert model.score(*table(1000, seed=3)) > 0.85
    assert "it began where 5000 rows led" in model.optimizer_report_.runs[-1].run.message
