"""Figures of speed and memory, taken beside their rivals in one run: ``make bench``.

``quality`` compares class probabilities on public tables: ``make quality``.
"""
