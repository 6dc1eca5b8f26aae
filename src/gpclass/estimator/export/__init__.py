"""`predict_proba` as an ONNX graph of products and elementwise operators, without any solve."""

from importlib import import_module
from typing import Any, Final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpclass.estimator.decomposition import OneVsOne
from gpclass.estimator.export.graph import DOUBLE, FLOAT, Graph
from gpclass.estimator.export.integrals import (
    argmax_nodes,
    positive_nodes,
    softmax_nodes,
)
from gpclass.estimator.export.latents import binary_nodes, class_nodes
from gpclass.estimator.inputs import FloatTable, Inputs, MixedTable
from gpclass.estimator.joint_model import JointModel
from gpclass.estimator.slopes import refuse_columns
from gpclass.inference.joint import MultinomialProbit, Softmax
from gpclass.kernels import diagonal
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.differences import PROBIT_NOISE
from gpclass.montecarlo import SamplePosterior

# The operators that are used have not changed since; onnxruntime reads it from 1.10 on.
OPSET: Final = 15
IR_VERSION: Final = 8


def to_onnx(model: Any, n_points: int = 4096) -> Any:
    """Write `predict_proba` of a fitted classifier as an ONNX model.

    Its input "X" is (m, d) in float64, as the table that was fitted, with NaN for missing entries;
    its output "probabilities" is (m, C) in float32. It agrees with `predict_proba` to 1e-5 for up
    to three classes and for one against the rest (a softmax of latents with deviations above 13 to
    1e-4); for more classes in one model to about 2e-3 with 4096 points. A file has 8 n^2
    bytes for each binary model, and for each pair of a joint model's classes (32 n^2 with a kernel
    a class; 8 n^2 more for each of more than three classes); times the settings of the
    hyperparameters, if they are averaged over.

    Parameters
    ----------
    model : GaussianProcessClassifier
        Of any number of classes, joint or by one against the rest; with the probit, the logit or
        the noisy threshold; with a kernel of `RBF`, `Matern` (nu of 1/2, 3/2, 5/2 or infinity),
        `DotProduct`, `ConstantKernel`, `WhiteKernel`, `ColumnKernel` and their sums, products and
        powers; and a table of numbers.
    n_points : int, default=4096
        A power of two from 2 on: quasi-random points that the latents of more than three classes
        are averaged over; four times as many leave a third of the error.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(to_onnx(model), "model.onnx")`` writes it.

    Raises
    ------
    ImportError
        Without the package onnx, with the line to type.
    ValueError
        For a model that cannot be written, saying why and what to do.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GaussianProcessClassifier
    >>> from gpclass.estimator.export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> written = to_onnx(GaussianProcessClassifier().fit(X[::5], y[::5]))
    >>> [one.name for one in written.graph.output], written.ByteSize() < 100_000
    (['probabilities'], True)
    """
    check_is_fitted(model, "models_")
    try:
        helper, numpy_helper = import_module("onnx.helper"), import_module("onnx.numpy_helper")
    except ImportError as error:
        raise ImportError(
            "the export needs onnx; install it with: pip install 'gpclass[onnx]'"
        ) from error
    if n_points < 2 or n_points & (n_points - 1):
        raise ValueError(f"n_points must be a power of two from 2 on, got {n_points!r}")
    _refuse(model)
    graph = Graph(helper, numpy_helper)
    P = _probabilities(graph, model, _table(graph, model._inputs), n_points)
    total = graph.row_sum(P)
    single = graph.op("Cast", graph.op("Div", P, total), to=FLOAT)
    graph.nodes.append(helper.make_node("Identity", [single], ["probabilities"]))
    inputs = [helper.make_tensor_value_info("X", DOUBLE, [None, int(model.n_features_in_)])]
    shape = [None, int(model.n_classes_)]
    outputs = [helper.make_tensor_value_info("probabilities", FLOAT, shape)]
    made = helper.make_graph(graph.nodes, "gpclass", inputs, outputs, graph.constants)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opset, ir_version=IR_VERSION)


def _refuse(model: Any) -> None:
    """Raise the ValueError of models that have no graph of such operators."""
    if len(model.models_) > 1 and isinstance(model._decomposition, OneVsOne):
        raise ValueError(
            "one against one has its class probabilities from a linear system for each row, and "
            "ONNX has no Solve: take multi_class='joint' or 'one_vs_rest'"
        )
    settings = [setting for one in model.models_ for setting in one.settings()]
    if any(isinstance(setting.posterior, SamplePosterior) for setting in settings):
        raise ValueError(
            "ONNX export needs a Gaussian posterior, and inference='mcmc' has samples: take "
            "inference='ep' at the same kernel"
        )


def _table(graph: Graph, inputs: Inputs) -> str:
    """Rows as the kernel takes them, in float64."""
    if isinstance(inputs, FloatTable):
        return "X"
    if not isinstance(inputs, MixedTable):
        raise ValueError("ONNX export takes a table of numbers")
    refuse_columns(inputs, gaps=True)
    if not inputs.numeric and not inputs.gaps:
        raise ValueError("all columns of X are constant: there is nothing to export")
    parts = []
    if inputs.numeric:
        chosen = graph.op("Gather", "X", np.array(inputs.numeric), axis=1)
        unit = graph.op("Mul", chosen, np.ldexp(1.0, inputs.exponents))
        scaled = graph.op("Div", graph.op("Sub", unit, inputs.centres), inputs.scales)
        parts.append(graph.op("Where", graph.op("IsNaN", scaled), 0.0, scaled))
    if inputs.gaps:
        missing = graph.op("IsNaN", graph.op("Gather", "X", np.array(inputs.gaps), axis=1))
        parts.append(graph.op("Cast", missing, to=DOUBLE))
    return graph.op("Concat", *parts, axis=1)


def _probabilities(graph: Graph, model: Any, Z: str, n_points: int) -> str:
    """Class probabilities up to a factor, (m, C), averaged over the hyperparameters."""
    first = model.models_[0]
    if isinstance(first, JointModel):
        found = [
            graph.op("Mul", _of_classes(graph, setting, Z, n_points), float(setting.weight))
            for setting in first.settings()
        ]
        return graph.total(found)
    positive = []
    for one in model.models_:
        shares = []
        for weight, problem, posterior in one.settings():
            mean, variance = binary_nodes(graph, problem, posterior, Z)
            p = positive_nodes(graph, problem.likelihood, mean, variance)
            shares.append(graph.op("Mul", p, float(weight)))
        positive.append(graph.total(shares))
    if len(positive) == 1:
        positive.insert(0, graph.op("Sub", 1.0, positive[0]))
    return graph.op("Concat", *positive, axis=1)


def _of_classes(graph: Graph, setting: Any, Z: str, n_points: int) -> str:
    """Class probabilities of a joint model at one setting, (m, C), which sum to one."""
    _, problem, posterior = setting
    latents = class_nodes(graph, problem, posterior, Z)
    likelihood = problem.likelihood
    if isinstance(problem.scheme, Softmax) or isinstance(likelihood, Logit):
        spread = max(float(diagonal(kernel, problem.inputs).max()) for kernel in problem.kernels)
        parts = softmax_nodes(graph, latents, float(np.sqrt(spread)), n_points)
    else:
        parts = argmax_nodes(graph, latents, _noise(problem), n_points)
    P = graph.op("Concat", *parts, axis=1)
    P = graph.op("Div", P, graph.row_sum(P))
    if isinstance(likelihood, NoisyThreshold):
        epsilon = float(likelihood.epsilon)
        P = graph.op("Add", graph.op("Mul", P, 1.0 - 2.0 * epsilon), epsilon)
        P = graph.op("Mul", P, 1.0 / (1.0 + (problem.n_classes - 2) * epsilon))
    return P


def _noise(problem: Any) -> float:
    """Variance of the noise of each class's latent, of which the largest is the label."""
    if isinstance(problem.scheme, MultinomialProbit):
        return 1.0
    if isinstance(problem.likelihood, Probit):
        return PROBIT_NOISE
    if problem.n_classes > 3:
        raise ValueError(
            "ONNX export of more than three classes needs noise to average over, and the "
            "threshold has none: take the probit or the logit, or multi_class='one_vs_rest'"
        )
    return 0.0
