"""inference (see docs/architecture.md)."""
