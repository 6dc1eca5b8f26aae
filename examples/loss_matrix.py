"""
A loss matrix
=============

A missed illness costs 20, a false alarm 1. A model whose probabilities are right needs no tuned
threshold: it answers "ill" where that has the least expected loss, above 1 / 21.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from gpclass import GaussianProcessClassifier
from gpclass.decision import decide

X, y = load_breast_cancer(return_X_y=True)
ill = 1 - y
X, X_test, ill, ill_test = train_test_split(
    X[:, :2], ill, test_size=0.5, random_state=0, stratify=ill
)
P = GaussianProcessClassifier().fit(X, ill).predict_proba(X_test)
loss = np.array([[0.0, 1.0], [20.0, 0.0]])  # a row for each truth, a column for each answer

answers = {"most probable class": decide(P), "least expected loss": decide(P, loss=loss)}
cost = {name: loss[ill_test, answer].mean() for name, answer in answers.items()}
for name, answer in answers.items():
    missed = ((ill_test == 1) & (answer == 0)).sum()
    print(f"{name}: {missed} missed, {cost[name]:.2f} a person")
assert cost["least expected loss"] < 0.5 * cost["most probable class"]

# %%
# Every threshold, against the one that the losses say without looking at the test rows.
thresholds = np.linspace(0.005, 0.995, 199)
curve = [loss[ill_test, (P[:, 1] > t).astype(int)].mean() for t in thresholds]
_, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(thresholds, curve)
ax.axvline(1 / 21, color="C1", linestyle="--", label="1 / 21, by the losses")
ax.axvline(0.5, color="0.5", linestyle=":", label="1 / 2, the most probable class")
ax.set(xlabel="Threshold", ylabel="Cost a person", ylim=(0, None))
ax.legend(frameon=False)
assert loss[ill_test, (P[:, 1] > 1 / 21).astype(int)].mean() < min(curve) + 0.1
plt.show()
