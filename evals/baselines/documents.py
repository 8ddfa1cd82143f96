"""Baseline of document retrieval only (SymAgent, table 1): passages for the question, read once.

Passages are found for the question as a whole, by BM25 and by vectors (Faiss), and answers are read from
them. With a language model by prompting; without one by the extraction reader, which knows the relations of
the graph by name and by what they join, but uses none of the facts about the question's entities to answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    answer_step,
    asked,
    conclude,
    extended,
    make_step,
    name_answers,
    plain_question,
    read_answers,
    said_nothing,
)
from triplewise.evals.baselines.wiring import Graph, own_prompt, wire
from triplewise.nodes.context import Context
from triplewise.nodes.extract import CHARACTERS, asked_for, read
from triplewise.nodes.phase import Phase, Update
from triplewise.nodes.resources import documents_of, encoder_of, kg_of, model_of
from triplewise.nodes.state import State, Step
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.facts import Passage, RawTriple
from triplewise.tools.core.names import normalise
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.lexical.gaps import relations_of
from triplewise.tools.reading.base import Asked
from triplewise.tools.retrieval.relation_ranking import rank_relations
from triplewise.tools.retrieval.vectors import vectors_of

PASSAGES = 10
"""Passages that are read for a question."""
RELATIONS = 3
"""Relations nearest to the question that the extraction reader looks for, one after the other."""


def build(*, passages: int = PASSAGES, link: str = "index") -> Graph:
    """Retrieve passages for the question and read the answers in them.

    Args:
        passages: to be read for a question. link: variant of the linking phase.

    Raises:
        ConfigurationError: fewer than one passage.
    """
    if not isinstance(passages, int) or passages < 1:
        raise ConfigurationError(f"passages must be a whole number above 0, got {passages!r}")
    return wire("documents", _acting(passages), conclude, link=link, need=_has_documents)


def _has_documents(context: Context) -> None:
    """Raise `ConfigurationError` where the context names no documents."""
    if context.documents is None:
        raise ConfigurationError(
            "baseline documents needs documents to read: --set documents=FOLDER of text files, "
            "or documents=wikipedia (online)"
        )


def _acting(limit: int) -> Phase:
    """The next of the two steps."""

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Retrieve, read."""
        if not state.steps:
            return extended(state, _retrieve(state, runtime.context, limit))
        return extended(state, _read(state, runtime.context))

    return act


def _retrieve(state: State, context: Context, limit: int) -> Step:
    """Passages for the question, best first."""
    documents, question = documents_of(context), _question(state)
    found = documents.find("", question=question, limit=limit) if documents is not None else ()
    feedback = Feedback(
        action="retrieve",
        arguments=(question,),
        observation="\n".join(map(_shown, found)) or "no passage was found",
        detail={"passages": [{"text": p.text, "title": p.title, "source": p.source} for p in found]},
    )
    return make_step(state, "Which passages may tell?", Call("retrieve", (question,)), feedback)


def _question(state: State) -> str:
    """The question as documents are searched for it: plain words, as their index has them."""
    return normalise(plain_question(state).replace("[SEP]", " "))


def _shown(passage: Passage) -> str:
    """A passage with the title of its document."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text


def _passages(state: State) -> tuple[Passage, ...]:
    """What was retrieved."""
    return tuple(Passage(**found) for found in state.steps[0].feedback.detail.get("passages", ()))


def _read(state: State, context: Context) -> Step:
    """Answers that the passages give."""
    passages = _passages(state)
    if context.embedded:
        return _extracted(state, context, passages)
    written = own_prompt("documents", context).render("read", **asked(state), passages=_fitting(passages))
    reply = model_of(context).complete([{"role": "user", "content": written}]).text
    named = name_answers(read_answers(reply), state, context)
    return answer_step(state, "", named, said_nothing(reply))


def _fitting(passages: Sequence[Passage]) -> list[str]:
    """Passages as a model is shown them, as many as fit."""
    texts: list[str] = []
    left = CHARACTERS
    for passage in passages:
        text = _shown(passage)
        if len(text) > left and texts:
            break
        texts.append(text[:left])
        left -= len(text)
    return texts


def _extracted(state: State, context: Context, passages: Sequence[Passage]) -> Step:
    """What the passages state about the question's entities, by the relation nearest to the question."""
    for relation in _relations(state, context):
        found = [pair for e in state.linked for pair in _stated(e.id, relation, state, context, passages)]
        found.sort(key=lambda pair: -pair[0].confidence)
        named = name_answers([text for _, text in found], state, context)
        if named:
            return answer_step(state, f"It is stated: {found[0][0].sentence}", named)
    why = "no passage states what is asked" if state.linked else "no entity of the question was found"
    return answer_step(state, "", (), why)


def _relations(state: State, context: Context) -> list[str]:
    """The relations of the graph that are nearest to the question, by their names."""
    kg, encoder = kg_of(context), encoder_of(context)
    names = relations_of(kg)
    texts = relation_texts(kg, names)
    return rank_relations(
        _question(state),
        [(name, texts[name].label) for name in names],
        encoder=encoder,
        cut=RELATIONS,
        vectors=vectors_of(kg, encoder).vectors,
    )


def _stated(
    entity: str, relation: str, state: State, context: Context, passages: Sequence[Passage]
) -> list[tuple[RawTriple, str]]:
    """Triples of a relation about an entity that passages state, each with the text of its other end."""
    kg = kg_of(context)
    wanted = asked_for(kg, entity, relation, state.question)
    if wanted is None:
        return []
    return [
        (triple, _other(triple, wanted, entity)) for triple in read(passages, wanted, context, kg).triples
    ]


def _other(triple: RawTriple, wanted: Asked, entity: str) -> str:
    """The end of a triple that is not the entity it was asked for."""
    own = {entity, *(normalise(name) for name in wanted.names)}
    subject_is_own = triple.subject in own or normalise(triple.subject) in own
    return triple.object if subject_is_own else triple.subject
