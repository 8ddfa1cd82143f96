"""Answers questions over relational databases without a language model."""

from triplewise.tools.sql.planning.planner import ScoredQuery, plan_queries

__all__ = ["ScoredQuery", "plan_queries"]
