"""
Choosing a method
=================

EP is the default. Here all methods of inference answer for one kernel, so that what differs is the
approximation alone, and Monte Carlo says what the truth is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import StandardScaler

from gpclass import GaussianProcessClassifier

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X[:, :5])
X, y, X_test = X[:60], y[:60], X[60:160]
kernel = ConstantKernel(100.0) * RBF(2.0)

P = {}
for method in ("ep", "pl", "vi", "laplace", "mcmc"):
    model = GaussianProcessClassifier(kernel, optimizer=None, inference=method, random_state=0)
    P[method] = model.fit(X, y).predict_proba(X_test)[:, 1]
    print(f"{method:8} log evidence {model.log_marginal_likelihood_value_:.2f}")

# %%
# How far the probabilities are from those of Monte Carlo: Laplace's method is the quickest, and too
# cautious, since the mode is not where the mass of the posterior is.
error = {method: np.abs(p - P["mcmc"]).mean() for method, p in P.items() if method != "mcmc"}
for method, value in error.items():
    print(f"{method:8} mean error of a probability {value:.4f}")
assert max(error, key=error.get) == "laplace"
assert error["ep"] < 0.02

_, ax = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
for method, marker in (("ep", "o"), ("laplace", "^")):
    ax.plot(P["mcmc"], P[method], marker, markersize=4, alpha=0.7, label=method)
ax.set(xlabel="Probability by Monte Carlo", ylabel="Probability by the method")
ax.legend(frameon=False)
plt.show()
