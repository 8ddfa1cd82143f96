"""A film whose director only a document tells, and a scripted model that finds it (SymAgent 4.2.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.openai_server import Messages

EX = "http://example.org/"
QUESTION = "Who directed Early Frost?"
SENTENCE = "Early Frost was directed by Bert Boyle."
TURTLE = """
@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:directedBy rdfs:label "directed by" . ex:bornIn rdfs:label "born in" .
ex:anna rdfs:label "Anna Arden" ; ex:bornIn ex:oslo . ex:oslo rdfs:label "Oslo" .
ex:bert rdfs:label "Bert Boyle" ; ex:bornIn ex:rome . ex:rome rdfs:label "Rome" .
ex:cora rdfs:label "Cora Cline" . ex:dora rdfs:label "Dora Dunn" ; ex:bornIn ex:oslo .
ex:f1 rdfs:label "Amber Road" ; ex:directedBy ex:anna .
ex:f2 rdfs:label "Blue Harbour" ; ex:directedBy ex:bert .
ex:f3 rdfs:label "Cold Morning" ; ex:directedBy ex:cora .
ex:f4 rdfs:label "Dark Meadow" ; ex:directedBy ex:dora .
ex:f5 rdfs:label "Early Frost" .
"""
SEEDS = [("Amber Road", "anna"), ("Blue Harbour", "bert"), ("Cold Morning", "cora")]


def write_films(folder: Path) -> dict[str, Any]:
    """Write the graph, the document and the seed questions; settings of a run that uses them."""
    (folder / "films.ttl").write_text(TURTLE, encoding="utf-8")
    (folder / "texts").mkdir()
    text = f"Early Frost is a film of 1999. {SENTENCE} It was shot in Rome."
    (folder / "texts" / "Early Frost.txt").write_text(text, encoding="utf-8")
    seeds = [
        {"question": f"Who directed {film}?", "topic_entity": film, "answers": [f"<{EX}{who}>"]}
        for film, who in SEEDS
    ]
    (folder / "seeds.jsonl").write_text("\n".join(map(json.dumps, seeds)), encoding="utf-8")
    files = {"kg": "films.ttl", "documents": "texts", "seeds": "seeds.jsonl", "facts": "facts.sqlite"}
    return {name: str(folder / file) for name, file in files.items()}


def film_model(messages: Messages) -> str:
    """What a model may reply: a plan, the triple of the document, or the next action of preset symagent."""
    text = "\n".join(str(m.get("content") or "") for m in messages)
    if "JSON list of triples" in text:
        return '[["Early Frost", "directed by", "Bert Boyle"]]'
    if "Thought N:" not in text:
        return "[directedBy]"
    film, director = f"<{EX}f5>", f"<{EX}directedBy>"
    run = text[text.rindex(QUESTION) :] if len(messages) == 1 else text[text.index(QUESTION) :]
    if "wiki_search(" in run:
        found = "The triples extracted are" in run and "A person rejected" not in run
        return f"Thought: Done.\nAction: finish({f'<{EX}bert>' if found else 'unknown'})"
    if "search_neighbor(" in run:
        return f"Thought: The graph lacks it.\nAction: wiki_search({film}, {director})"
    return f"Thought: Follow the path.\nAction: search_neighbor({film}, {director})"
