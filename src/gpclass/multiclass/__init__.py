"""multiclass (see docs/architecture.md)."""
