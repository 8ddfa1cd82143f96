"""Intervals, paired tests and Holm's correction against known values and rules that always hold."""

from __future__ import annotations

import pandas as pd


def named(values: list[float], prefix: str = "q") -> pd.Series[float]:
    return pd.Series({f"{prefix}{i}": value for i, value in enumerate(values)}, dtype=float)
