"""Names of hyperparameters for readers: columns and parts of the kernel, not positions in it."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Kernel,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from gpclass.estimator.summary import names_of_columns, scales_of
from gpclass.kernels.columns import ColumnKernel
from gpclass.kernels.mixed import MixedRBF
from gpclass.learning import Problem
from gpclass.learning.hyperparameters import parameter_names

# What a part of a kernel is called.
PARTS: Final = (
    ((RBF, RationalQuadratic, MixedRBF), "smooth part"),
    ((DotProduct,), "linear part"),
    ((ExpSineSquared,), "periodic part"),
    ((WhiteKernel,), "noise"),
    ((ConstantKernel,), "constant"),
)


def labels_of_theta(estimator: Any, problem: Problem) -> tuple[str, ...]:
    """What the entries of a problem's theta are: "length-scale of glucose", "variance of ...".

    Those that would be called alike have their name in ``get_params`` added.
    """
    columns = names_of_columns(estimator, problem.inputs)
    found: list[str] = []
    for c, kernel in enumerate(problem.kernels):
        scales = {s.parameter: columns[s.column] for s in scales_of(kernel, problem.inputs)}
        words = dict(_words(kernel, "", "constant"))
        one_of = f", kernel {c + 1}" if len(problem.kernels) > 1 else ""
        for name in parameter_names(kernel):
            if name in scales:
                label = f"length-scale of {scales[name]}"
            else:
                stem, _, index = name.partition("[")
                label = words.get(stem, stem) + (f" [{index}" if index else "")
            found.append(label + one_of)
    found += [f"{name} of the likelihood" for name in problem.likelihood.hyperparameter_names]
    names, often = problem.hyperparameters.names, Counter(found)
    return tuple(
        f"{label} ({name})" if often[label] > 1 else label
        for label, name in zip(found, names, strict=True)
    )


def _words(kernel: Kernel, prefix: str, scaled: str) -> Iterator[tuple[str, str]]:
    """Words for each hyperparameter; ``scaled`` is what a constant is the variance of."""
    if isinstance(kernel, Sum):
        yield from _words(kernel.k1, f"{prefix}k1__", _part(kernel.k1))
        yield from _words(kernel.k2, f"{prefix}k2__", _part(kernel.k2))
    elif isinstance(kernel, Product):
        yield from _words(kernel.k1, f"{prefix}k1__", _part(kernel.k2))
        yield from _words(kernel.k2, f"{prefix}k2__", _part(kernel.k1))
    elif isinstance(kernel, ColumnKernel):
        yield from _words(kernel.kernel, f"{prefix}kernel__", _part(kernel))
    elif isinstance(kernel, ConstantKernel):
        yield f"{prefix}constant_value", f"variance of the {scaled}"
    elif isinstance(kernel, WhiteKernel):
        yield f"{prefix}noise_level", "variance of the noise"
    else:
        for one in kernel.hyperparameters:
            what = one.name.replace("length_scale", "length-scale")
            yield f"{prefix}{one.name}", f"{what} of the {_part(kernel)}"


def _part(kernel: Kernel) -> str:
    if isinstance(kernel, ColumnKernel):
        return _part(kernel.kernel)
    if isinstance(kernel, Product):
        factors = [one for one in (kernel.k1, kernel.k2) if not isinstance(one, ConstantKernel)]
        return _part(factors[0]) if len(factors) == 1 else "product"
    known = (words for kinds, words in PARTS if isinstance(kernel, kinds))
    return next(known, type(kernel).__name__)
