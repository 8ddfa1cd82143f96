"""Extract: triples from documents for what the KG does not say (SymAgent 4.2.1, extractTriples, figure 6).

A search of the documents fires it: passages are found, a language model reads them, prompted as in figure 6,
and what passages support of its reply is aligned to the KG.
"""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.nodes.environment import Environment
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.state import State
from triplewise.tools.actions.symbolic import Extraction, ExtractService
from triplewise.tools.core.errors import DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.extraction.alignment import align
from triplewise.tools.extraction.triples import fact_request, supported_triples
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts

PASSAGES, CHARACTERS = 40, 12_000
"""Passages found for one entity and relation, and characters of passages that a model is shown at once."""


def extractor(state: State, env: Environment) -> ExtractService:
    """Return the service that searches the documents and reads facts from them for the question.

    Facts go to the store of the KG's facts, as proposed, with their provenance; what a person has rejected
    before is not proposed again. Raises `DataError` or `ConfigurationError` where documents cannot be opened.
    """
    _ = env.documents

    def extract(entity: str, relation: str) -> Extraction:
        done = complete(entity, relation, state.question, env, env.kg)
        facts = tuple(f for f in env.fact_store.add(done.facts) if f.status != "rejected")
        rejected = len(done.facts) - len(facts)
        reasons = (f"{rejected} that a person has rejected before are left out",) if rejected else ()
        return Extraction(done.passages, facts, (*reasons, *done.reasons))

    return extract


def complete(entity: str, relation: str, question: str, env: Environment, kg: KnowledgeGraph) -> Extraction:
    """Search the documents, have the model read them as in figure 6, align its triples to the KG.

    Returns the passages that were found, best first; facts that the KG has not, most certain first; and what
    was left out and why.
    """
    passages, request = list[Passage](), fact_request(kg, entity, relation)
    if env.documents is None:
        return Extraction((), (), ("no documents are configured",))
    if request is None:
        return Extraction((), (), (f"the graph has no relation {relation}",))
    short = kg.profile.short(request.relation)
    text = relation_texts(kg, [short])[short]
    words = " ".join((text.label, *text.aliases[:3], text.description)).strip()
    reason = f"no document names {request.name}"
    try:
        passages += env.documents.find(request.name, words, question, aliases=request.aliases, limit=PASSAGES)
    except DocumentsUnavailableError as error:
        reason = str(error)
    if not passages:
        return Extraction((), (), (reason,))
    prompt = (env.prompt if "extract" in env.prompt else load_prompt("symagent")).render(
        "extract",
        question=question,
        entity=request.name,
        relation=text.label,
        document="\n\n".join(fitting_texts(passages)),
    )
    reading = supported_triples(env.ask(prompt).text, passages, request, kg, env.encoder)
    facts = align(reading.triples, kg, question, env.context.name_of("model"))
    return Extraction(tuple(p.text for p in passages), facts, reading.reasons)


def fitting_texts(passages: Sequence[Passage]) -> list[str]:
    """Passages as a model is shown them, with the titles of their documents, as many as fit."""
    texts, left = list[str](), CHARACTERS
    for passage in passages:
        text = f"{passage.title}: {passage.text}" if passage.title else passage.text
        if len(text) > left and texts:
            break
        texts.append(text[:left])
        left -= len(text)
    return texts
