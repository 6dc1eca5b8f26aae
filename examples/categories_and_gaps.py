"""
Categories and gaps
===================

Text and missing entries go in as they are. The table is made up, so that the right answer is known:
the outcome depends on the dose and on the site, and the marker was lost in a third of the rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit

from gpclass import GaussianProcessClassifier
from gpclass.displays import EffectDisplay
from gpclass.estimator.intervals import probability_intervals

rng = np.random.default_rng(0)
n = 200
table = pd.DataFrame(
    {
        "dose": rng.uniform(0.0, 40.0, n).round(1),
        "site": rng.choice(["north", "south", "harbour"], n),
        "marker": rng.lognormal(0.0, 0.3, n).round(2),
    }
)
log_odds = 0.15 * (table["dose"] - 20.0) + 2.5 * (table["site"] == "harbour")
recovered = np.where(rng.random(n) < expit(log_odds), "yes", "no")
table.loc[rng.random(n) < 1 / 3, "marker"] = np.nan
table.loc[rng.random(n) < 0.05, "site"] = None
print(table.head())

model = GaussianProcessClassifier().fit(table, recovered)

# %%
# The same dose at two sites, without the marker:
new = pd.DataFrame({"dose": [20.0, 20.0], "site": ["north", "harbour"], "marker": [np.nan] * 2})
found = model.predict_proba(new)[:, 1]
interval = probability_intervals(model, new)
for i, truth in enumerate(expit([0.0, 2.5])):
    low, high = interval.lower[i, 1], interval.upper[i, 1]
    print(f"{new['site'][i]}: {found[i]:.2f}, between {low:.2f} and {high:.2f}; truth {truth:.2f}")
    assert low < truth < high

# %%
# What each column does to the probability. Missing is a level of its own.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
effects = {
    column: EffectDisplay.from_estimator(model, table, column, ax=ax, n_points=21, max_rows=50)
    for column, ax in zip(table.columns, axes, strict=True)
}
for ax in axes[1:]:
    ax.set_ylabel("")
influence = {column: float(np.max(effect.influence)) for column, effect in effects.items()}
print("influence:", {column: round(value, 2) for column, value in influence.items()})
assert influence["marker"] < min(influence["dose"], influence["site"])
plt.show()
