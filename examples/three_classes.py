"""
Three classes
=============

Nothing changes in the program: of more than two classes the default is one joint model, whose
probabilities add up to one by themselves.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from gpclass import GaussianProcessClassifier
from gpclass.displays import DecisionSurfaceDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
X = X[["flavanoids", "color_intensity"]]
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

model = GaussianProcessClassifier().fit(X, y)
P = model.predict_proba(X_test)
print(f"{model.score(X_test, y_test):.1%} right, log loss {log_loss(y_test, P):.3f}")
np.testing.assert_allclose(P.sum(axis=1), 1.0)
assert log_loss(y_test, P) < 0.5

# %%
# The three wines least certain: which classes are they between?
for i in np.argsort(P.max(axis=1))[:3]:
    print(f"class {y_test.iloc[i]}: probabilities {P[i].round(2)}")

# %%
# Each class has a colour, the whiter the less probable it is.
DecisionSurfaceDisplay.from_estimator(model, X, ("flavanoids", "color_intensity"), y=y)
plt.show()
