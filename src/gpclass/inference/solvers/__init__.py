"""Iterations that find sites: Newton's method, fixed points, sequential sweeps, safeguards."""
