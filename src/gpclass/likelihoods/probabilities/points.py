"""Fixed points for integrals over many latents: a scrambled Sobol sequence, and normals from it."""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from gpclass import linalg

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

# Bits of a Sobol point, as scipy's default; 2^30 points are more than anyone waits for.
BITS: Final = 30

# Which scrambling: of 40, the one with the least errors at 64 to 1024 points on posteriors of six
# and ten classes; half those of the median.
SCRAMBLE: Final = 1


@lru_cache(maxsize=512)
def _scrambling(k: int, net: int) -> Words:
    """Masks of the BITS bits of coordinate k, least first, and its digital shift last.

    Linear matrix scrambling and a digital shift (Matousek 1998) with fixed bits; scipy's own
    scrambling takes a random state, whose meaning may change from one version to the next.
    """
    random = np.random.PCG64([SCRAMBLE, k, net] if net else [SCRAMBLE, k]).random_raw(BITS + 1)
    unit = np.uint64(1) << np.arange(BITS + 1, dtype=np.uint64)
    above = unit[BITS] - (unit[:BITS] << np.uint64(1))
    masks = (random[:BITS] & above) | unit[:BITS]
    return np.append(masks, random[BITS] & (unit[BITS] - np.uint64(1)))


@lru_cache(maxsize=128)
def sobol(dim: int, start: int, stop: int, fresh: bool = False) -> Array:
    """Points start to stop of a scrambled Sobol sequence, shape (dim, stop - start), in (0, 1).

    Their number is a power of two that divides start. If fresh, those from 2^k to 2^(k+1) are the
    first of a sequence with a scrambling of their own. Twice as many points are then two
    independent nets: worse than one where a rule converges fast, but how far apart they are is an
    honest error, which two halves of one are not where it converges slowly.
    """
    net = start.bit_length() if fresh else 0
    first = start - ((1 << net) >> 1)
    engine = qmc.Sobol(dim, scramble=False, bits=BITS)
    if first:
        engine.fast_forward(first)
    words = np.rint(engine.random(stop - start).T * 2.0**BITS).astype(np.uint64)
    out = np.empty(words.shape)
    for k in range(dim):
        *masks, word = _scrambling(k, net)
        for bit, mask in enumerate(masks):
            parity = np.bitwise_count(words[k] & mask).astype(np.uint64) & np.uint64(1)
            word = word ^ (parity << np.uint64(bit))
        out[k] = word
    return np.asarray((out + 0.5) / 2.0**BITS)


@lru_cache(maxsize=128)
def normals(dim: int, start: int, stop: int, fresh: bool = False) -> Array:
    """Points with their negatives, shape (dim, stop - start), of mean 0 and covariance I exactly.

    So a rule is exact for cubic functions, which is what a posterior with little variance sees.
    The covariance is that of all points from 2^k to 2^(k+1): a correction by fewer points has a
    bias, of their number's inverse, that more points of the same would not lessen, nor show.
    """
    half = np.asarray(ndtri(sobol(dim, start // 2, stop // 2, fresh)))
    begin = 1 << (start.bit_length() - 1) if start else 0
    end = 2 * begin if start else stop
    if end - begin >= 4 * dim:
        root = _half_root(dim, begin // 2, end // 2, fresh)
        half = linalg.solve_lower_columns_in_place(root, half.copy())
    return np.concatenate([half, -half], axis=1)


@lru_cache(maxsize=256)
def _half_root(dim: int, start: int, stop: int, fresh: bool) -> Array:
    """Cholesky factor of the points' second moments."""
    size = min(stop - start, 1024)
    moments = np.zeros((dim, dim))
    for first in range(start, stop, size):
        x = ndtri(sobol(dim, first, first + size, fresh))
        moments += np.einsum("in,jn->ij", x, x)
    return linalg.cholesky(moments / (stop - start), "the points' second moments")
