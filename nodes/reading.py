"""What a search of documents fires: passages, triples read from them, and their keeping (SymAgent 4.2.1)."""

from __future__ import annotations

from triplewise.nodes.context import Context
from triplewise.nodes.facts import keep
from triplewise.nodes.resources import documents_of, kg_of
from triplewise.nodes.state import State
from triplewise.tools.actions.symbolic import Extraction, ExtractService


def extractor(state: State, context: Context) -> ExtractService:
    """The service that searches the context's documents and reads facts from them for the question.

    Facts go to the store of the KG's facts, as proposed, with their provenance; what a person has rejected
    before is not proposed again.

    Raises:
        DataError, ConfigurationError: documents that cannot be opened.
    """
    documents_of(context)

    def extract(entity: str, relation: str) -> Extraction:
        from triplewise.nodes.extract import complete

        done = complete(entity, relation, state.question, context, kg_of(context))
        facts = keep(context, done.facts)
        rejected = len(done.facts) - len(facts)
        reasons = (f"{rejected} that a person has rejected before are left out",) if rejected else ()
        texts = tuple(p.text for p in done.passages)
        return Extraction(texts, facts, (*reasons, *done.reasons))

    return extract
