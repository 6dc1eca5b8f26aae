"""learning (see docs/architecture.md)."""
