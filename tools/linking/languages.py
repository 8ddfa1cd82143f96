"""Grammar words of other languages than English (`languages.yaml`), as the English ones they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files

import yaml

_LEAST = 2
"""Grammar words that a question must have in a language to be in it."""


@cache
def languages() -> Mapping[str, Mapping[str, str]]:
    """Return language -> its grammar words -> the English word."""
    data = yaml.safe_load(files(__package__).joinpath("languages.yaml").read_text("utf-8"))
    return {
        language: {word: english for english, words in groups.items() for word in words.split()}
        for language, groups in data.items()
    }


@cache
def _english() -> frozenset[str]:
    """Return the grammar words of English."""
    data = yaml.safe_load(files(__package__).joinpath("words.yaml").read_text("utf-8"))
    return frozenset(data["function"].split())


@lru_cache(maxsize=1_024)
def grammar_of(question: str) -> Mapping[str, str]:
    """Return the grammar words of the language that a question is in; {} for English."""
    words = re.findall(r"[^\W\d_]+", question.lower())
    counts = {language: sum(w in grammar for w in words) for language, grammar in languages().items()}
    best = max(counts, key=lambda language: counts[language])
    english = sum(word in _english() for word in words)
    return languages()[best] if counts[best] >= max(_LEAST, english + 1) else {}
