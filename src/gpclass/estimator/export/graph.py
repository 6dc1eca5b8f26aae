"""An ONNX graph while it is written."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# A name in the graph, or a constant.
Value = str | float | NDArray[Any]

FLOAT, DOUBLE = 1, 11


class Graph:
    """Nodes and constants; values are float64 matrices whose rows are those of X, or one row."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper, self._numpy_helper = helper, numpy_helper

    def op(self, kind: str, *inputs: Value, **attributes: Any) -> str:
        """Append a node, and the inputs that are no names as constants; return its output."""
        name = f"v{len(self.nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        self.nodes.append(self._helper.make_node(kind, names, [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Append an array, or a number as an array (1, 1) of float64, and return its name."""
        name = f"c{len(self.constants)}"
        array = np.full((1, 1), values) if isinstance(values, float) else values
        self.constants.append(self._numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def total(self, values: list[str]) -> str:
        """Sum of values."""
        found = values[0]
        for value in values[1:]:
            found = self.op("Add", found, value)
        return found

    def row_sum(self, value: Value) -> str:
        """Sums of the rows of a matrix, (m, 1)."""
        return self.op("ReduceSum", value, np.array([1]), keepdims=1)

    def inner(self, A: Value, B: Value) -> str:
        """Inner products of the rows of two matrices, (m, 1)."""
        return self.row_sum(self.op("Mul", A, B))

    def square(self, value: str) -> str:
        """Squares of the entries."""
        return self.op("Mul", value, value)

    def normal_cdf(self, value: str) -> str:
        """The standard normal distribution function to 1e-7: onnxruntime's Erf takes float32."""
        single = self.op("Cast", self.op("Mul", value, float(np.sqrt(0.5))), to=FLOAT)
        erf = self.op("Cast", self.op("Erf", single), to=DOUBLE)
        return self.op("Mul", self.op("Add", erf, 1.0), 0.5)
