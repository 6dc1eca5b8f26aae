"""Class probabilities against long Monte Carlo runs, as constants."""

import numpy as np
import pytest

from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities, softmax_probabilities


def posterior_like(C, seed, size):
    """Latents as a posterior has them: mostly variance of each class alone."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((1, C, 2 * C))
    own = size * rng.uniform(0.3, 1.0, (1, C))
    cov = own[:, :, None] * np.eye(C) + 0.2 * size * W @ W.transpose(0, 2, 1) / (2 * C)
    return np.sqrt(size) * rng.standard_normal((1, C)), cov


def any_covariance(C, seed, size):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((1, C, C))
    return np.sqrt(size) * rng.standard_normal((1, C)), size * W @ W.transpose(0, 2, 1) / C


# Millionths, of the first classes: E[softmax], and the frequency of the largest with unit noise.
# scipy's scrambled Sobol points, plain averages: 160 x 2^20 for 8 classes and more, 16 x 2^20 for
# fewer. Standard errors over the scramblings: at most 2e-5 (softmax, five classes: 2e-5; argmax,
# five classes: 3e-5, thirty: 2.2e-5), mostly 1e-5 and less.
VALUES = [
    (posterior_like, 3, 1003, 1, [464275, 43641, 492084], [473895, 21394, 504712]),
    (posterior_like, 3, 1004, 30, [391125, 14048, 594827], [390227, 13159, 596614]),
    (posterior_like, 3, 1005, 10000, [430704, 17821, 551474], [430697, 17818, 551485]),
    (any_covariance, 3, 1003, 1, [387716, 384092, 228192], [394717, 391692, 213591]),
    (any_covariance, 3, 1004, 30, [51619, 865389, 82992], [44904, 875162, 79934]),
    (any_covariance, 3, 1005, 10000, [27966, 885420, 86614], [27957, 885446, 86597]),
    (
        posterior_like,
        5,
        1005,
        1,
        [323284, 84064, 88271, 430770, 73610],
        [347046, 59072, 64239, 483188, 46456],
    ),
    (
        posterior_like,
        5,
        1006,
        30,
        [321036, 444080, 219281, 5674, 9929],
        [321227, 446098, 218500, 4930, 9246],
    ),
    (
        posterior_like,
        5,
        1007,
        10000,
        [275421, 195139, 24340, 455624, 49476],
        [275423, 195130, 24337, 455643, 49466],
    ),
    (
        any_covariance,
        5,
        1005,
        1,
        [397015, 204906, 224841, 105288, 67950],
        [438996, 201227, 228742, 87338, 43698],
    ),
    (
        any_covariance,
        5,
        1006,
        30,
        [220041, 128215, 429492, 4176, 218077],
        [219879, 126341, 432491, 2435, 218854],
    ),
    (
        any_covariance,
        5,
        1007,
        10000,
        [137400, 269368, 138281, 34323, 420628],
        [137389, 269373, 138284, 34315, 420640],
    ),
    (
        posterior_like,
        8,
        1008,
        1,
        [271587, 92201, 132300, 87192, 121662, 179561],
        [317872, 80485, 130580, 72856, 116457, 192638],
    ),
    (
        posterior_like,
        8,
        1009,
        30,
        [68270, 52733, 172477, 32693, 29829, 288780],
        [66960, 51899, 173216, 31203, 28624, 291419],
    ),
    (
        posterior_like,
        8,
        1010,
        10000,
        [195, 3746, 3412, 656931, 9021, 45415],
        [195, 3746, 3410, 656949, 9020, 45407],
    ),
    (
        any_covariance,
        8,
        1008,
        1,
        [192359, 18519, 184330, 27603, 175330, 274164],
        [206266, 6696, 188131, 9905, 184509, 316448],
    ),
    (
        any_covariance,
        8,
        1009,
        30,
        [56098, 21662, 414805, 233620, 2, 144855],
        [55407, 19620, 419990, 235206, 1, 144850],
    ),
    (
        any_covariance,
        8,
        1010,
        10000,
        [0, 199612, 122644, 90427, 232565, 18109],
        [0, 199612, 122645, 90419, 232571, 18103],
    ),
    (
        posterior_like,
        10,
        1010,
        1,
        [418127, 94699, 35851, 51301, 75257, 162335],
        [517085, 85888, 20464, 35618, 62486, 175142],
    ),
    (
        posterior_like,
        10,
        1011,
        30,
        [28531, 329825, 35816, 399325, 386, 1441],
        [27674, 332057, 34458, 402728, 306, 1272],
    ),
    (
        posterior_like,
        10,
        1012,
        10000,
        [27058, 120031, 2218, 125523, 71, 45553],
        [27058, 120028, 2217, 125520, 71, 45552],
    ),
    (
        any_covariance,
        10,
        1010,
        1,
        [96814, 50745, 282965, 80492, 96376, 106531],
        [93608, 38082, 341337, 71020, 88990, 98392],
    ),
    (
        any_covariance,
        10,
        1011,
        30,
        [90743, 3657, 1307, 462255, 10548, 169201],
        [91002, 3365, 845, 465917, 9698, 170236],
    ),
    (
        any_covariance,
        10,
        1012,
        10000,
        [373006, 207258, 85066, 0, 111753, 52444],
        [373014, 207259, 85064, 0, 111755, 52437],
    ),
    (
        posterior_like,
        30,
        1030,
        1,
        [54210, 5838, 25388, 90746, 17200, 37902],
        [59415, 588, 16230, 118108, 7610, 33406],
    ),
    (
        posterior_like,
        30,
        1031,
        30,
        [45731, 379, 2571, 238282, 1873, 80],
        [45387, 310, 2277, 241504, 1675, 44],
    ),
    (
        posterior_like,
        30,
        1032,
        10000,
        [0, 836, 85, 13612, 5063, 8018],
        [0, 836, 85, 13610, 5062, 8017],
    ),
    (
        any_covariance,
        30,
        1030,
        1,
        [41717, 32967, 38309, 6641, 6112, 12091],
        [39761, 21869, 31699, 1244, 1369, 4166],
    ),
    (
        any_covariance,
        30,
        1031,
        30,
        [3468, 3968, 1, 298, 95727, 27651],
        [3193, 3696, 0, 235, 96378, 26331],
    ),
    (
        any_covariance,
        30,
        1032,
        10000,
        [172, 63, 231077, 6153, 61751, 6],
        [172, 63, 231083, 6153, 61750, 6],
    ),
]


def slow_if_many(value):
    marks = [pytest.mark.slow] if value[1] >= 10 else []
    return pytest.param(*value, marks=marks, id=f"{value[0].__name__}-{value[1]}-{value[3]:g}")


@pytest.mark.parametrize(
    ("make", "C", "seed", "size", "softmax", "argmax"), [slow_if_many(value) for value in VALUES]
)
def test_against_monte_carlo(make, C, seed, size, softmax, argmax):
    latents = make(C, seed, size)
    for method, expected in ((softmax_probabilities, softmax), (argmax_probabilities, argmax)):
        P = method(*latents)
        # the promise, and not quite a standard error of the reference
        np.testing.assert_allclose(
            P[0, : len(expected)], np.array(expected) / 1e6, rtol=0, atol=1e-4
        )
