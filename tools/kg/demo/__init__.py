"""The demo knowledge graph: package data only, opened by `open_kg("demo")`.

`demo.nt.gz` holds the facts, `labels.tsv.gz` the names; `questions.jsonl` is for tests and evals alone and
is not read when questions are answered. `README.md` gives the sources of the facts.
"""
