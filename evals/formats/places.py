"""Where published files lie in the data folder, under the names that they are published with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_METAQA = {
    f"metaqa/{split}_{hops}hop.jsonl.gz": (f"{hops}-hop/vanilla/qa_{split}.txt", f"{hops}-hop/qa_{split}.txt")
    for split in ("test", "dev")
    for hops in (1, 2, 3)
}

PUBLISHED: Mapping[str, tuple[str, ...]] = {
    **_METAQA,
    "metaqa/kb.txt.gz": ("kb.txt",),
    "webqsp/test.jsonl.gz": ("WebQSP.test.json", "data/WebQSP.test.json"),
    "cwq/test.jsonl.gz": ("ComplexWebQuestions_test.json",),
    "grailqa/dev1000.jsonl.gz": ("grailqa_v1.0_dev.json", "GrailQA_v1.0/grailqa_v1.0_dev.json"),
    "graphq/test.jsonl.gz": ("graphquestions.testing.json", "freebase13/graphquestions.testing.json"),
    "qald10/test_en.jsonl.gz": ("qald_10.json", "data/qald_10/qald_10.json"),
    "wikiwebquestions/test.jsonl.gz": ("test.json", "WikiWebQuestions/test.json"),
    "simplequestions/test1000.jsonl.gz": (
        "annotated_fb_data_test.txt",
        "SimpleQuestions_v2/annotated_fb_data_test.txt",
    ),
    "creak/dev.jsonl.gz": ("dev.json", "data/creak/dev.json"),
    "trex/test.jsonl.gz": ("trex-dev-kilt.jsonl",),
    "zeroshot_re/test.jsonl.gz": ("structured_zeroshot-dev-kilt.jsonl",),
    "wikisql/questions_with_tables.jsonl.gz": ("test.jsonl", "data/test.jsonl"),
    "wikisql/tables.jsonl.gz": ("test.tables.jsonl", "data/test.tables.jsonl"),
    "ck25/questions.jsonl.gz": ("questions.yml",),
    "agentbench_kg/std.jsonl.gz": ("std.json",),
    "agentbench_kg/dev.jsonl.gz": ("dev.json",),
    "agentbench_kg/kg_rl_all.jsonl.gz": ("kg_rl_all.json",),
}
"""File of the catalog -> names, below the benchmark's folder, of what is published in its place."""


def find_published(folder: Path, name: str) -> Path | None:
    """The published file that stands in for a file of the catalog; None where there is none.

    Args:
        folder: the data folder. name: the file's name in the catalog ("webqsp/test.jsonl.gz").
    """
    benchmark = name.partition("/")[0]
    paths = (folder / benchmark / other for other in PUBLISHED.get(name, ()))
    plain_or_packed = (found for path in paths for found in (path, path.with_name(f"{path.name}.gz")))
    return next((path for path in plain_or_packed if path.is_file()), None)
