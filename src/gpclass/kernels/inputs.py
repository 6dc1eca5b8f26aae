"""Subsets of a kernel's inputs: rows of a table, objects of a list, blocks of a Gram matrix."""

from typing import Any

import numpy as np

from gpclass.kernels.evaluate import uses_precomputed
from gpclass.kernels.precomputed import against_training, square_gram


def take(kernel: Any, X: Any, rows: Any) -> Any:
    """Training inputs restricted to some rows.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : array-like of shape (n, ...) or sequence of n objects
        For `Precomputed` the Gram matrix (n, n): both its axes are restricted.
    rows : slice, ndarray of int or ndarray of bool of shape (n,)

    Returns
    -------
    ndarray or list
        A list for inputs that are no array.
    """
    if uses_precomputed(kernel):
        K = square_gram(X)
        chosen = np.arange(len(K))[rows]
        return K[np.ix_(chosen, chosen)]
    if isinstance(X, np.ndarray):
        return X[rows]
    return [X[i] for i in np.arange(len(X))[rows]]


def restrict(kernel: Any, X_new: Any, rows: Any, n_train: int) -> Any:
    """Restrict new inputs to what faces a model that was trained on ``take(kernel, X, rows)``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X_new : array-like of shape (m, ...) or sequence of m objects
        For `Precomputed` of shape (m, n_train) or (m, n_train + 1).
    rows : slice, ndarray of int or ndarray of bool of shape (n_train,)
    n_train : int
        Number of training inputs before the restriction.

    Returns
    -------
    ndarray or list
        For `Precomputed` the columns of these rows, and the column of variances where there is
        one; else ``X_new`` itself.

    Raises
    ------
    ValueError
        For `Precomputed`, if X_new has neither ``n_train`` nor ``n_train + 1`` columns.
    """
    if not uses_precomputed(kernel):
        return X_new
    new = np.asarray(X_new, dtype=np.float64)
    against_training(n_train, new)
    columns = np.arange(n_train)[rows]
    if new.shape[1] == n_train + 1:
        columns = np.append(columns, n_train)
    return new[:, columns]
