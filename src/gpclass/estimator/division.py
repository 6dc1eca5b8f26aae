"""How a table becomes problems: one of all classes, or several binary ones."""

from dataclasses import replace
from typing import Any, NamedTuple

from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass.blocks import RowBlocks
from gpclass.estimator.arguments import Parts
from gpclass.estimator.weights import Rows
from gpclass.inference import Variational
from gpclass.inference.by_blocks import VariationalByBlocks
from gpclass.inference.joint import JOINT, joint_scheme
from gpclass.learning import (
    BinaryProblem,
    ExpectationMaximisation,
    InducingProblem,
    JointProblem,
    MaximiseLeaveOneOut,
    Problem,
)
from gpclass.likelihoods import Likelihood, Logit, Probit
from gpclass.montecarlo import MonteCarlo


class Division(NamedTuple):
    """The problems, their names in messages, and whether the user gave a kernel a class."""

    problems: list[Problem]
    names: list[str]
    kernel_a_class: bool

    def over(self, source: RowBlocks | None) -> "Division":
        """Of one problem, whose rows are the ``source``; what it has in memory is a sample."""
        if source is None:
            return self
        held = [one for one in self.problems if isinstance(one, InducingProblem)]
        return self._replace(problems=[replace(one, source=source) for one in held])


def divide(
    parts: Parts, kernels: list[Kernel], X: Any, table: Rows, *, inducing: bool = False
) -> Division:
    """Make the problems of a table, with one kernel for all classes or one a class.

    ``inducing`` says whether their priors will be held by inducing points. ValueError where kernels
    and classes do not go together, or the parts have no joint model, or none of this kind.
    """
    weights, used, classes, codes = table
    n_classes = len(classes)
    joint = n_classes > 2 and parts.multi_class in JOINT
    if inducing:
        _check_inducing(parts, n_classes, joint=joint)
    if len(kernels) > 1:
        _check_kernels(kernels, n_classes, parts.multi_class)
    by_blocks = _by_blocks(parts) if inducing else None
    if joint:
        problem = _joint_problem(parts, kernels, X, table, by_blocks)
        return Division([problem], [f"all {n_classes} classes"], len(kernels) > 1)
    problems: list[Problem] = []
    names = []
    for k, (name, rows, labels) in enumerate(parts.decomposition.split(codes, classes)):
        # row numbers of the subproblem count the used rows
        if used is not None:
            rows = used if rows is None else used[rows]
        kernel = kernels[0] if len(kernels) == 1 else kernels[k]
        w = weights if rows is None or weights is None else weights[rows]
        names.append(name)
        problems.append(
            BinaryProblem(kernel, X, labels, parts.likelihood, parts.inference, w, rows)
            if by_blocks is None
            else InducingProblem(kernel, X, labels, parts.likelihood, by_blocks, 2, w, rows)
        )
    return Division(problems, names, len(kernels) > 1)


def _joint_problem(
    parts: Parts,
    kernels: list[Kernel],
    X: Any,
    table: Rows,
    by_blocks: VariationalByBlocks | None,
) -> Problem:
    """The problem of all classes together."""
    weights, used, classes, codes = table
    kernel = kernels[0] if len(kernels) == 1 else CompoundKernel(kernels)
    own = weights if weights is None or used is None else weights[used]
    if by_blocks is not None:
        likelihood = _class_likelihood(parts.likelihood)
        return InducingProblem(kernel, X, codes, likelihood, by_blocks, len(classes), own, used)
    scheme = joint_scheme(parts.multi_class, parts.inference)
    likelihood = scheme.likelihood_of(parts.likelihood, parts.inference)
    method = parts.inference
    return JointProblem(kernel, X, codes, len(classes), scheme, likelihood, method, own, used)


def _check_inducing(parts: Parts, n_classes: int, *, joint: bool) -> None:
    """Refuse what has no prior by inducing points."""
    if joint and not (isinstance(parts.inference, Variational) and parts.multi_class == "joint"):
        raise ValueError(
            f"inducing does not go with multi_class={parts.multi_class!r} for {n_classes} classes: "
            "take inference='vi' with multi_class='joint', or multi_class='one_vs_rest' or "
            "'one_vs_one', whose problems have two classes each"
        )
    by_rows = MaximiseLeaveOneOut | ExpectationMaximisation
    if isinstance(parts.inference, Variational) and isinstance(parts.learner, by_rows):
        raise ValueError(
            "inducing with inference='vi' keeps no site of each row, which learning='loo' and 'em' "
            "need: take learning='evidence' or 'ccd', or another inference, such as 'ep'"
        )
    if isinstance(parts.inference, MonteCarlo):
        raise ValueError(
            "inducing does not go with inference='mcmc', which samples under the exact prior: take "
            "another inference, such as 'ep', or inducing=None"
        )


def _by_blocks(parts: Parts) -> VariationalByBlocks | None:
    """The variational method by blocks of rows, where that is what was asked for."""
    method = parts.inference
    if not isinstance(method, Variational):
        return None
    if method.evidence != "bound":
        raise ValueError(
            f"inducing does not go with {method!r}, whose evidence needs the rows' sites: take "
            "Variational(evidence='bound')"
        )
    return VariationalByBlocks(max_passes=method.max_iter)


def _class_likelihood(likelihood: Likelihood) -> Likelihood:
    """The probit or the logit, of which the multinomial probit and the softmax are joint models."""
    if not isinstance(likelihood, Logit | Probit):
        raise ValueError(
            "the joint models of inducing points are the multinomial probit and the softmax, whose "
            f"terms are not those of {likelihood!r}: take likelihood='probit' or 'logit', or "
            "multi_class='one_vs_rest'"
        )
    return likelihood


def _check_kernels(kernels: list[Kernel], n_classes: int, multi_class: str) -> None:
    if n_classes == 2:
        raise ValueError(
            f"kernel is a list of {len(kernels)}, but two classes have one latent function: give "
            "one kernel"
        )
    if multi_class == "one_vs_one":
        raise ValueError(
            "kernel is a list, one kernel a class, but multi_class='one_vs_one' has one latent "
            "function a pair of classes: give one kernel, or take another multi_class"
        )
    if len(kernels) != n_classes:
        raise ValueError(
            f"kernel is a list of {len(kernels)}, but y has {n_classes} classes: give one kernel "
            "for all, or one for each"
        )
