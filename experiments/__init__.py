"""Experiments that reproduce papers; each is run by itself, from the top of the repository.

``python -m experiments.learning_objectives``
    Which evidence learns the best hyperparameters? The protocol of Li, John & Solin (2023).
    ``--table`` writes docs/learning-objectives.md from the records.
``python -m experiments.usps softmax``, or ``nested``
    All ten USPS digits (RW06 section 3.7.3).

Both need GPCLASS_DATA and keep their records under ``experiments/results``.
`experiments.hyperparameters` samples hyperparameters and latent values together: the truth that
the first compares with.
"""
