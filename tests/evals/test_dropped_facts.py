"""Documents of what an incomplete graph has lost."""

from __future__ import annotations

import re

import pytest

from triplewise.evals.grids.run import sentences_of
from triplewise.tools.core.errors import ConfigurationError


def test_sentences_share_no_word_with_the_relation_they_state() -> None:
    for relation, sentences in sentences_of("metaqa").items():
        for sentence in sentences:
            words = {word[:5] for word in re.findall(r"[a-z]{4,}", sentence.lower())}
            assert "{s}" in sentence
            assert "{o}" in sentence
            assert not words & {word[:5] for word in relation.split("_") if len(word) > 3}, sentence


def test_a_graph_without_sentences_is_named() -> None:
    with pytest.raises(ConfigurationError, match="MetaQA's relations only"):
        sentences_of("wikidata")
