"""The substring matching by which some published code scores answers, under its own name.

The public evaluation scripts of Think-on-Graph, and those of work that builds on it, call an answer right if
its text contains a gold answer, or is contained in one, and report the share as "Exact Match" or "Hits@1". It
is neither: it is here only so that figures can be compared, and the gap to the strict ones be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from triplewise.evals.record import Run
from triplewise.evals.scorers.names import benchmark_names

SINGLE_GOLD = "single_gold"
"""Key of a sample's metadata with the one gold answer that published code takes, where it takes only one."""


def substring_match(response: str, gold: Iterable[str]) -> bool:
    """Whether the text of an answer contains a gold answer or lies in one, spaces and case left out.

    As published, with what follows from it: "Georgia" is right for "South Georgia", "a" for nearly all
    there is, and an empty text always (where there is a gold answer at all).
    """
    text, *golds = (t.strip().replace(" ", "").lower() for t in (response, *gold))
    return any(text in other or other in text for other in golds)


def substring_figures(
    run: Run, metadata: Mapping[str, Any], gold: Sequence[str], hit: bool
) -> dict[str, float]:
    """What published code would call Hits@1 of one question: see `substring_match`.

    The text of an answer is all its labels in a line, as the published code takes all that a model put into
    its answer; the gold texts are the gold answers and the benchmark's names of them. A run without an answer
    has no text and is wrong, although the published code would call an empty answer right; one that answered
    with an empty text is right here.

    `substring_hits_at_1_single` takes the gold answer in `single_gold` of the metadata alone, as published
    figures of CWQ do; it is not scored for other questions.

    Args:
        run, metadata: of the question. gold: its gold answers. hit: whether it is a strict hit, which is a
            hit here too, also where the texts do not show it.
    """

    def is_hit(texts: Sequence[str]) -> bool:
        return not run.crashed and bool(run.labels) and substring_match(", ".join(run.labels), texts)

    texts = [*gold, *(name for names in benchmark_names(metadata).values() for name in names)]
    single = metadata.get(SINGLE_GOLD)
    return {
        "substring_hits_at_1": float(hit or is_hit(texts)),
        "substring_hits_at_1_single": float(is_hit([str(single)])) if single else math.nan,
    }
