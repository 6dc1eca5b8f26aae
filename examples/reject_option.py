"""
A reject option
===============

Rows that the model is not sure of go to an expert, who costs a tenth of an error. Then a class is
worth naming only where its probability is above 0.9.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from gpclass import GaussianProcessClassifier
from gpclass.decision import REJECT, decide
from gpclass.displays import ErrorRejectDisplay

X, y = load_digits(return_X_y=True)
X, y = X[(y == 3) | (y == 8)], y[(y == 3) | (y == 8)]
X, X_test, y, y_test = train_test_split(X, y, train_size=40, random_state=1, stratify=y)
model = GaussianProcessClassifier().fit(X, y)
P = model.predict_proba(X_test)

answer = decide(P, reject_cost=0.1)
kept = answer != REJECT
errors = (model.classes_[P.argmax(axis=1)] != y_test).mean()
errors_kept = (model.classes_[answer[kept]] != y_test[kept]).mean()
print(f"all {len(kept)} rows: {errors:.1%} errors")
print(f"{(~kept).sum()} rows to the expert; of the others {errors_kept:.1%} are errors")
cost = (errors_kept * kept.sum() + 0.1 * (~kept).sum()) / len(kept)
assert errors_kept < errors
assert 0.0 < kept.mean() < 1.0
print(f"cost a row {cost:.3f}, without the expert {errors:.3f}")

# %%
# The error rate of what is kept, as ever more of the least certain rows are sent away.
ErrorRejectDisplay.from_estimator(model, X_test, y_test, name="3 or 8")
plt.show()

# %%
# The six rows least certain.
figure, axes = plt.subplots(1, 6, figsize=(8, 1.8), layout="constrained")
for ax, i in zip(axes, P.max(axis=1).argsort()[:6], strict=True):
    ax.imshow(X_test[i].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"P(8) = {P[i, 1]:.2f}\nit is {y_test[i]}", fontsize=9)
    ax.axis("off")
plt.show()
