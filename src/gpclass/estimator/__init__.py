"""The estimator: arguments and inputs, the division into problems, learnt models, and reports."""
