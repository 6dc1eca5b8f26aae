"""Rows in blocks, in memory or on a cluster, and sums over them."""

from gpclass.blocks.base import Block, RowBlocks, Summands
from gpclass.blocks.local import LocalBlocks

__all__ = ["Block", "LocalBlocks", "RowBlocks", "Summands"]
