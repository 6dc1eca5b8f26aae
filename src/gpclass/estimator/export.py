"""`predict_proba` as an ONNX graph of products and elementwise operators, without any solve."""

import math
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Matern,
    Product,
    Sum,
    WhiteKernel,
)
from sklearn.utils.validation import check_is_fitted

from gpclass.estimator.binary_model import BinaryModel
from gpclass.estimator.inputs import FloatTable, Inputs, MixedTable
from gpclass.estimator.slopes import refuse_columns
from gpclass.inference import SitePosterior
from gpclass.likelihoods import Probit
from gpclass.priors.dense import DenseFactor

Array = NDArray[np.float64]

# The operators that are used have not changed since; onnxruntime reads it from 1.10 on.
OPSET: Final = 15
IR_VERSION: Final = 8


def to_onnx(model: Any) -> Any:
    """Write `predict_proba` of a fitted classifier as an ONNX model.

    Its input "X" is (m, d) in float64, as the table that was fitted; its output "probabilities"
    is (m, C) in float32. Its size grows with n^2: 8 bytes for each pair of training rows and
    each binary model.

    Parameters
    ----------
    model : GaussianProcessClassifier
        Of two classes, or of more with ``multi_class="one_vs_rest"``; with the probit likelihood, a
        kernel of `RBF`, `Matern` (nu of 1/2, 3/2, 5/2 or infinity), `DotProduct`, `ConstantKernel`,
        `WhiteKernel` and their sums, products and powers, and a table of numbers without missing
        entries.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(to_onnx(model), "model.onnx")`` writes it.

    Raises
    ------
    ImportError
        Without the package onnx, with the line to type.
    ValueError
        For a model that cannot be written, saying why.
    """
    check_is_fitted(model, "models_")
    try:
        helper, numpy_helper = import_module("onnx.helper"), import_module("onnx.numpy_helper")
    except ImportError as error:
        raise ImportError(
            "the export needs onnx; install it with: pip install 'gpclass[onnx]'"
        ) from error
    models = model.models_
    if not all(isinstance(one, BinaryModel) and one.problem.rows is None for one in models):
        raise ValueError(
            "ONNX export is there for two classes, and for more with multi_class='one_vs_rest': "
            "probabilities of a joint model are integrals over several latents"
        )
    graph = Graph(helper, numpy_helper)
    Z = _table(graph, model._inputs)
    p = [_probability(graph, one, Z) for one in models]
    if len(p) == 1:
        P = graph.op("Concat", graph.op("Sub", graph.number(1.0, np.float32), p[0]), p[0], axis=1)
    else:
        P = _normalised(graph, graph.op("Concat", *p, axis=1))
    if model.temperature_ != 1.0:
        power = graph.number(1.0 / model.temperature_, np.float32)
        P = _normalised(graph, graph.op("Pow", P, power))
    graph.nodes.append(helper.make_node("Identity", [P], ["probabilities"]))
    kind = import_module("onnx").TensorProto
    inputs = [helper.make_tensor_value_info("X", kind.DOUBLE, [None, int(model.n_features_in_)])]
    shape = [None, int(model.n_classes_)]
    outputs = [helper.make_tensor_value_info("probabilities", kind.FLOAT, shape)]
    made = helper.make_graph(graph.nodes, "gpclass", inputs, outputs, graph.constants)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opset, ir_version=IR_VERSION)


class Graph:
    """Nodes and constants of a graph while it is written."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper, self._numpy_helper = helper, numpy_helper

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node, and return the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Append an array, and return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def number(self, value: float, dtype: Any = np.float64) -> str:
        """Append a number as an array (1, 1), and return its name."""
        return self.constant(np.full((1, 1), value, dtype=dtype))

    def row_sum(self, name: str) -> str:
        """Sums of the rows of a matrix, (m, 1)."""
        return self.op("ReduceSum", name, self.constant(np.array([1])), keepdims=1)


def _normalised(graph: Graph, P: str) -> str:
    """Rows divided by their sums."""
    return graph.op("Div", P, graph.row_sum(P))


def _table(graph: Graph, inputs: Inputs) -> str:
    """Rows as the kernel takes them, in float64."""
    if isinstance(inputs, MixedTable):
        refuse_columns(inputs)
        if not inputs.numeric:
            raise ValueError("all columns of X are constant: there is nothing to export")
        chosen = graph.op("Gather", "X", graph.constant(np.array(inputs.numeric)), axis=1)
        unit = graph.op("Mul", chosen, graph.constant(np.ldexp(1.0, inputs.exponents)))
        centred = graph.op("Sub", unit, graph.constant(inputs.centres))
        return graph.op("Div", centred, graph.constant(inputs.scales))
    if not isinstance(inputs, FloatTable):
        raise ValueError("ONNX export takes a table of numbers")
    return "X"


def _probability(graph: Graph, model: BinaryModel, Z: str) -> str:
    """P(+1) of one binary model, (m, 1), in float32."""
    problem, settings = model.problem, model.settings()
    posterior = settings[0].posterior
    gaussian = isinstance(posterior, SitePosterior) and isinstance(posterior.factor, DenseFactor)
    if len(settings) > 1 or not gaussian or not isinstance(problem.likelihood, Probit):
        raise ValueError(
            "ONNX export needs the probit likelihood, one setting of the hyperparameters, and a "
            "Gaussian posterior"
        )
    factor = posterior.factor
    K = _cross(graph, problem.kernel, np.asarray(problem.inputs), Z)
    mean = graph.op("MatMul", K, graph.constant(posterior.mean_weights[:, None]))
    # k' R k = sum_i +-(A k)_i^2 with A = L^-1 S
    A = np.diag(factor.scale)
    n_positive = factor.scaled.half_solve_in_place(A)
    signs = np.where(np.arange(len(A)) < n_positive, 1.0, -1.0)
    half = graph.op("MatMul", K, graph.constant(A.T))
    squares = graph.op("Mul", half, half)
    reduced = graph.op("MatMul", squares, graph.constant(signs[:, None]))
    left = graph.op("Sub", _diagonal(graph, problem.kernel, Z), reduced)
    variance = graph.op("Max", left, graph.number(0.0))
    spread = graph.op("Sqrt", graph.op("Add", variance, graph.number(1.0)))
    z = graph.op("Mul", graph.op("Div", mean, spread), graph.number(math.sqrt(0.5)))
    # onnxruntime has the error function in float32 alone
    tail = graph.op("Erf", graph.op("Cast", z, to=1))
    total = graph.op("Add", tail, graph.number(1.0, np.float32))
    return graph.op("Mul", total, graph.number(0.5, np.float32))


def _cross(graph: Graph, kernel: Any, X: Array, Z: str) -> str:
    """Covariances of new rows and training rows, (m, n)."""
    if isinstance(kernel, Sum | Product):
        parts = [_cross(graph, part, X, Z) for part in (kernel.k1, kernel.k2)]
        return graph.op("Add" if isinstance(kernel, Sum) else "Mul", *parts)
    if isinstance(kernel, Exponentiation):
        base = _cross(graph, kernel.kernel, X, Z)
        return graph.op("Pow", base, graph.number(float(kernel.exponent)))
    if isinstance(kernel, ConstantKernel | WhiteKernel):
        value = kernel.constant_value if isinstance(kernel, ConstantKernel) else 0.0
        return graph.number(float(value))
    if isinstance(kernel, DotProduct):
        dot = graph.op("MatMul", Z, graph.constant(X.T))
        return graph.op("Add", dot, graph.number(float(kernel.sigma_0) ** 2))
    if type(kernel) in (RBF, Matern):
        return _radial(graph, kernel, X, Z)
    raise ValueError(f"ONNX export does not know the kernel {kernel}")


def _radial(graph: Graph, kernel: Any, X: Array, Z: str) -> str:
    """An RBF or a Matern by ``r^2 = |x|^2 + |z|^2 - 2 x'z``, about the centre of the rows."""
    nu = kernel.nu if isinstance(kernel, Matern) else math.inf
    if nu not in (0.5, 1.5, 2.5, math.inf):
        raise ValueError(f"ONNX export knows Matern kernels of nu 1/2, 3/2 and 5/2, not {nu}")
    centre = X.mean(axis=0)
    scale = np.broadcast_to(np.asarray(kernel.length_scale, dtype=np.float64), centre.shape)
    U = (X - centre) / scale
    W = graph.op("Div", graph.op("Sub", Z, graph.constant(centre)), graph.constant(scale))
    own = graph.row_sum(graph.op("Mul", W, W))
    both = graph.op("Add", own, graph.constant((U * U).sum(axis=1)[None]))
    r2 = graph.op("Add", both, graph.op("MatMul", W, graph.constant(-2.0 * U.T)))
    r2 = graph.op("Max", r2, graph.number(0.0))
    if nu == math.inf:
        return graph.op("Exp", graph.op("Mul", r2, graph.number(-0.5)))
    s = graph.op("Sqrt", graph.op("Mul", r2, graph.number(2.0 * nu)))
    decay = graph.op("Exp", graph.op("Neg", s))
    if nu == 0.5:
        return decay
    polynomial = graph.op("Add", s, graph.number(1.0))
    if nu == 2.5:
        third = graph.op("Mul", graph.op("Mul", s, s), graph.number(1.0 / 3.0))
        polynomial = graph.op("Add", polynomial, third)
    return graph.op("Mul", polynomial, decay)


def _diagonal(graph: Graph, kernel: Any, Z: str) -> str:
    """Prior variances of new rows, (m, 1) or (1, 1), of a kernel that `_cross` knows."""
    if isinstance(kernel, Sum | Product):
        parts = [_diagonal(graph, part, Z) for part in (kernel.k1, kernel.k2)]
        return graph.op("Add" if isinstance(kernel, Sum) else "Mul", *parts)
    if isinstance(kernel, Exponentiation):
        base = _diagonal(graph, kernel.kernel, Z)
        return graph.op("Pow", base, graph.number(float(kernel.exponent)))
    if isinstance(kernel, DotProduct):
        squares = graph.row_sum(graph.op("Mul", Z, Z))
        return graph.op("Add", squares, graph.number(float(kernel.sigma_0) ** 2))
    if isinstance(kernel, ConstantKernel):
        return graph.number(float(kernel.constant_value))
    return graph.number(float(kernel.noise_level) if isinstance(kernel, WhiteKernel) else 1.0)
