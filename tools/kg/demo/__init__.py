"""The demo knowledge graph: package data only, opened by `open_kg("demo")`.

`demo.nt.gz` holds the facts, `labels.tsv.gz` the names; `questions.jsonl` is for tests and evals alone and
is read by nothing that answers questions. `README.md` beside them says where the facts come from.
"""
