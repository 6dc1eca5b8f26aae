"""The centre and the average over hyperparameters beside Monte Carlo over both.

``python -m experiments.averaging_truth``: two hyperparameters under the weak hyperprior; the truth
is `experiments.hyperparameters`.
"""

from typing import Any, Final

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from experiments.hyperparameters import sample_hyperparameters
from experiments.quality.page import markdown
from experiments.quality.run import splits
from experiments.quality.tables import load
from gpclass import GaussianProcessClassifier
from gpclass.learning import Hyperparameters, weak_hyperprior
from gpclass.likelihoods import Probit

# Every so many of the training rows.
TABLES: Final = {"crabs_sex": 1, "heart_hungarian": 3, "pima": 4}
BOUNDS: Final = (1e-6, 1e8)


def compare(name: str, step: int) -> list[list[str]]:
    """Rows of the table: differences of probabilities, Kullback-Leibler divergence, log loss."""
    table = load(name)
    _, train, test = next(splits(table, 1))
    train = train[::step]
    coded = GaussianProcessClassifier(optimizer=None).fit(table.X.iloc[train], table.y[train])
    X, y = coded.X_train_, coded.y_train_
    new = coded._inputs.transform(coded, table.X.iloc[test])
    kernel = ConstantKernel(1.0, BOUNDS) * RBF(2.0, BOUNDS)
    prior = weak_hyperprior(Hyperparameters(kernel, Probit()), X)
    settings: dict[str, Any] = {"kernel": kernel, "hyperprior": prior}
    models = {
        "mode": GaussianProcessClassifier(**settings).fit(X, y),
        "ccd": GaussianProcessClassifier(learning="ccd", **settings).fit(X, y),
    }
    draws = sample_hyperparameters(
        models["mode"].kernel_,
        X,
        np.where(y == 1, 1.0, -1.0),
        Probit(),
        new,
        log_prior=lambda theta: prior.log_density(theta)[0],
        n_draws=400,
        random_state=0,
    )
    truth = np.exp(draws.log_probabilities())
    own = (table.y[test] == coded.classes_[1]).astype(int)
    at = np.arange(len(own)), own
    rows = [[name, "Monte Carlo", "", "", "", f"{-np.log(truth[at]).mean():.4f}"]]
    for label, model in models.items():
        P = model.predict_proba(new)
        gap = np.abs(P - truth)[:, 1]
        divergence = (truth * np.log(truth / P)).sum(axis=1).mean()
        loss = f"{-np.log(P[at]).mean():.4f}"
        rows.append(
            [name, label, f"{gap.mean():.4f}", f"{gap.max():.4f}", f"{divergence:.5f}", loss]
        )
    print(name, len(y), "R-hat", draws.rhat.max().round(3), "nodes", draws.n_nodes, flush=True)
    return rows


if __name__ == "__main__":
    rows = [row for name, step in TABLES.items() for row in compare(name, step)]
    head = ["table", "prediction", "mean difference", "largest", "Kullback-Leibler", "log loss"]
    print(markdown(head, rows))
