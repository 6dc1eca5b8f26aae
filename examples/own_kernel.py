"""
Your own kernel
===============

Any kernel of scikit-learn's kind will do, of any objects. Here it compares pieces of DNA by the
words of four letters that they share, and finds those that hold a motif. One label in ten is wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.gaussian_process.kernels import ConstantKernel, GenericKernelMixin, Kernel

from gpclass import GaussianProcessClassifier
from gpclass.testing import check_kernel


class SharedWords(GenericKernelMixin, Kernel):
    """Cosine of the counts of words of so many letters."""

    def __init__(self, letters=4):
        self.letters = letters

    def __call__(self, X, Y=None, eval_gradient=False):
        words = HashingVectorizer(
            analyzer="char", ngram_range=(self.letters,) * 2, alternate_sign=False
        )
        A = words.transform(X)
        K = (A @ (A if Y is None else words.transform(Y)).T).toarray()
        # nothing to learn, so a gradient by no hyperparameter
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return False


rng = np.random.default_rng(0)
MOTIF = "TATAATGC"


def piece(has_motif):
    letters = rng.choice(list("ACGT"), 30)
    if has_motif:
        start = rng.integers(30 - len(MOTIF))
        letters[start : start + len(MOTIF)] = list(MOTIF)
    return "".join(letters)


truth = np.arange(240) % 2
X = np.array([piece(has_motif) for has_motif in truth], dtype=object)
y = np.where(rng.random(240) < 0.1, 1 - truth, truth)

# %%
# The laws that gpclass relies on: symmetry, no negative eigenvalue, the diagonal, and so on.
kernel = ConstantKernel(10.0) * SharedWords()
check_kernel(kernel, X[:20])

model = GaussianProcessClassifier(kernel).fit(X[:160], y[:160])
P = model.predict_proba(X[160:])[:, 1]
right = ((P > 0.5) == truth[160:]).mean()
print(f"{model.kernel_}: {right:.0%} right")
assert right > 0.8

# %%
# Pieces without and with the motif, by their probability.
_, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.hist(
    [P[truth[160:] == c] for c in (0, 1)], bins=np.linspace(0, 1, 11), label=["without", "with"]
)
ax.set(xlabel="Probability of the motif", ylabel="Pieces")
ax.legend(frameon=False)
plt.show()
