"""Rows in blocks, in memory or on a cluster, and sums over them."""

from gpclass.blocks.absent import AbsentBlocks
from gpclass.blocks.base import Block, RowBlocks, Summands
from gpclass.blocks.cluster import ClusterBlocks
from gpclass.blocks.local import LocalBlocks

__all__ = ["AbsentBlocks", "Block", "ClusterBlocks", "LocalBlocks", "RowBlocks", "Summands"]
