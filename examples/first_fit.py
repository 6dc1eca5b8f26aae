"""
A first fit
===========

A model, its probabilities for new rows, and a picture of them, on two measurements of the
breast-cancer table.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from gpclass import GaussianProcessClassifier
from gpclass.displays import DecisionSurfaceDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X[["mean radius", "mean texture"]], y.map({0: "malignant", 1: "benign"})
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

model = GaussianProcessClassifier().fit(X, y)
loss = log_loss(y_test, model.predict_proba(X_test))
print(f"{model.score(X_test, y_test):.1%} right, log loss {loss:.3f}")
assert loss < 0.3

# %%
# The colour is the probability, white where it is one half. The dashed lines say how uncertain the
# latent function is: more so away from the rows.
DecisionSurfaceDisplay.from_estimator(model, X, ("mean radius", "mean texture"), y=y)
plt.show()
