"""What of a question a query accounts for, by the names of the relations and nodes that it uses."""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_labels, relation_texts
from triplewise.tools.language.lexicon import lexicon, section, word_list
from triplewise.tools.parsing.similarity import similarities, thresholds_of
from triplewise.tools.pyql.program import AnyOf, Fact, PyQL, Typed, all_facts
from triplewise.tools.retrieval.encoder import Encoder


def coverage(words: Sequence[str], program: PyQL, kg: KnowledgeGraph, encoder: Encoder) -> dict[str, float]:
    """Return how many words a query does not cover (`uncovered`), and how little its least likely
    relation is like any of them (`unlike`).

    Words are those of the question, but for the names that the query uses.
    """
    facts = list(all_facts(program.clauses))
    nodes = [n for f in facts for n in (f.subject, f.object)] + [
        n for c in program.clauses for n in _nodes(c)
    ]
    texts = relation_texts(kg, [kg.profile.short(f.relation) for f in facts])
    relations = [[text.label, *text.aliases[:3]] for text in texts.values()]
    named = [[label] for label in node_labels(kg, [n for n in nodes if isinstance(n, IRI)]).values() if label]
    known, least = lexicon(), thresholds_of(encoder).named
    compares = not all(isinstance(clause, Fact | Typed | AnyOf) for clause in program.clauses)
    near, uncovered = list[list[float]](), 0.0
    for word in (word for word in dict.fromkeys(words) if word not in word_list("stop")):
        near.append(similarities(kg, encoder, [*relations, *named], word))
        is_degree = any(known.adjective_of(word, ending) for ending in ("est", "er"))
        is_compared = compares and (is_degree or word[0].isdigit() or word in section("numbers"))
        uncovered += 0.0 if is_compared else max(0.0, 1.0 - max(near[-1], default=0.0) / least)
    best = [max((row[i] for row in near), default=0.0) for i in range(len(relations))]
    return {"uncovered": uncovered, "unlike": 1.0 - min(best, default=1.0)}


def _nodes(clause: object) -> Sequence[object]:
    return (clause.type,) if isinstance(clause, Typed) else clause.nodes if isinstance(clause, AnyOf) else ()
