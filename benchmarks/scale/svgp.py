"""GPyTorch's stochastic variational Gaussian process, as its documentation sets it up."""

import os
import time
from collections.abc import Iterator
from typing import Any, Final

import gpytorch
import numpy as np
import torch
from scipy.cluster.vq import kmeans2

THREADS: Final = int(os.environ.get("OMP_NUM_THREADS", "2"))
EPOCHS: Final = 100
BATCH: Final = 1024
RATE: Final = 0.01
SAMPLES: Final = 256


class Process(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """One latent function, or one a class."""

    def __init__(self, Z: Any, n_latents: int) -> None:
        shape = torch.Size([n_latents]) if n_latents > 1 else torch.Size([])
        distribution = gpytorch.variational.CholeskyVariationalDistribution(
            len(Z), batch_shape=shape
        )
        strategy: Any = gpytorch.variational.VariationalStrategy(
            self, Z, distribution, learn_inducing_locations=True
        )
        if n_latents > 1:
            strategy = gpytorch.variational.IndependentMultitaskVariationalStrategy(
                strategy, num_tasks=n_latents
            )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.MaternKernel(2.5, ard_num_dims=Z.shape[1])
        )
        self.covar_module.base_kernel.lengthscale = float(np.sqrt(Z.shape[1]))

    def forward(self, x: Any) -> Any:
        """Prior at x."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def learn(
    X: Any, y: Any, X_test: Any, n_classes: int, m: int
) -> Iterator[tuple[float, float, Any]]:
    """Seconds and CPU seconds so far, and probabilities of the test rows, after each epoch."""
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    start, cpu_start = time.perf_counter(), time.process_time()
    rng = np.random.default_rng(0)
    some = X[rng.permutation(len(X))[:20_000]].astype(np.float32)
    Z, _ = kmeans2(some, m, iter=5, minit="points", rng=0)
    inputs, test = (torch.tensor(np.asarray(one), dtype=torch.float32) for one in (X, X_test))
    labels = torch.tensor(y, dtype=torch.float32 if n_classes == 2 else torch.int64)
    model = Process(torch.tensor(Z, dtype=torch.float32), 1 if n_classes == 2 else n_classes)
    likelihood: Any = (
        gpytorch.likelihoods.BernoulliLikelihood()
        if n_classes == 2
        else gpytorch.likelihoods.SoftmaxLikelihood(num_classes=n_classes, mixing_weights=False)
    )
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    elsewhere = cpu_elsewhere = 0.0
    for _ in range(EPOCHS):
        model.train()
        for rows in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            loss = -bound(model(inputs[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        seconds = time.perf_counter() - start - elsewhere
        cpu = time.process_time() - cpu_start - cpu_elsewhere
        yield seconds, cpu, _probabilities(model, likelihood, test, n_classes)
        elsewhere = time.perf_counter() - start - seconds
        cpu_elsewhere = time.process_time() - cpu_start - cpu


def _probabilities(model: Any, likelihood: Any, test: Any, n_classes: int) -> Any:
    model.eval()
    found = []
    with torch.no_grad(), gpytorch.settings.num_likelihood_samples(SAMPLES):
        for part in test.split(4096):
            P = likelihood(model(part)).probs
            found.append(P.mean(dim=0) if n_classes > 2 else P)
    P = torch.cat(found).double().numpy()
    return np.stack([1.0 - P, P], axis=1) if n_classes == 2 else P
