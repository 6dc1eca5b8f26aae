"""Experiments that reproduce papers; each module is run by itself, from the top of the repository.

| command | what it runs | needs |
| --- | --- | --- |
| ``python -m experiments.learning_objectives`` | which evidence learns the best hyperparameters, the protocol of Li, John & Solin (2023); ``--table`` writes docs/learning-objectives.md | GPCLASS_DATA |
| ``python -m experiments.usps softmax``, ``nested`` | all ten USPS digits (RW06 section 3.7.3) | GPCLASS_DATA |

`experiments.hyperparameters` samples hyperparameters and latent values together; the first of these
compares with it. Records are kept under ``experiments/results``.
"""
