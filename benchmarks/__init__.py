"""Figures of speed and memory, taken beside their rivals in one run: ``make bench``."""
