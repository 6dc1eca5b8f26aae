"""likelihoods (see docs/architecture.md)."""
