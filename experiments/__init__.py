"""Experiments that reproduce papers; each is run by itself, from the top of the repository.

``python -m experiments.learning_objectives``
    Which evidence learns the best hyperparameters? The protocol of Li, John & Solin (2023).
    ``--table`` writes docs/learning-objectives.md from the records.

It needs GPCLASS_DATA and keeps its records under ``experiments/results``.
`experiments.hyperparameters` samples hyperparameters and latent values together: the truth that
it compares with.
"""
