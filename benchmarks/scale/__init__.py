"""Large tables: ours with inducing points beside what others take there."""
