"""The laws of every part; each check raises an AssertionError that names the law which fails."""

from gpclass.testing.inference import check_inference
from gpclass.testing.kernels import check_kernel
from gpclass.testing.likelihoods import check_likelihood
from gpclass.testing.priors import check_prior, check_prior_form

__all__ = ["check_inference", "check_kernel", "check_likelihood", "check_prior", "check_prior_form"]
