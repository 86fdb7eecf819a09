"""Aggregation at the study's scale: questions on the statistics of long runs of dated records with labels."""

from .family import AggregationFamily, Shares

__all__ = ["AggregationFamily", "Shares"]
