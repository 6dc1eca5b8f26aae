"""priors (see docs/architecture.md)."""
