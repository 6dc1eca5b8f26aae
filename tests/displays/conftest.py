import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gpclass import GaussianProcessClassifier

matplotlib.use("agg")


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="session")
def mixed():
    """A table of numbers with gaps, levels, dates and a constant, and its classes."""
    rng = np.random.default_rng(0)
    n = 60
    X = pd.DataFrame(
        {
            "dose": rng.gamma(2.0, 80.0, n),
            "site": rng.choice(["north", "south"], n),
            "day": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, n), "D"),
            "unit": 3.0,
            "arms": rng.integers(0, 2, n),
        }
    )
    y = np.where(rng.normal(size=n) < (X.dose - 160) / 60 + (X.site == "south"), "ill", "well")
    X.loc[::9, "dose"] = np.nan
    X.loc[::11, "site"] = None
    return X, y


@pytest.fixture(scope="session")
def fitted(mixed):
    X, y = mixed
    return GaussianProcessClassifier().fit(X, y)
