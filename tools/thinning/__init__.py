"""Incomplete graphs made on purpose: triples on the shortest paths of questions are dropped."""

from triplewise.tools.thinning.thin import DROPPED, THINNED, ThinOrder, ThinReport, thin_kg

__all__ = ["DROPPED", "THINNED", "ThinOrder", "ThinReport", "thin_kg"]
