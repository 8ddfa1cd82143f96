"""Build the answer from the values that were found: status and reason, confidence, proof, labels, text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from triplewise.nodes.environment import Environment
from triplewise.nodes.plan import is_sure, readings_of
from triplewise.nodes.state import Answer, AnswerStatus, ProofTriple, Rival, State
from triplewise.tools.core.errors import KGUnavailableError, QueryFailedError
from triplewise.tools.core.terms import XSD, Literal, Triple
from triplewise.tools.federation.federated import FederatedKG
from triplewise.tools.kg import KnowledgeGraph, readable, readable_text
from triplewise.tools.kg.protocol import base_of, facts_of
from triplewise.tools.kg.vocabulary import triple_labels
from triplewise.tools.parsing.confidence import MODEL_FILE, calibration_for, query_features, shipped
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.parsing.statements import decides, form_of, slot_of
from triplewise.tools.pyql.program import PyQL

UNSURE = "Not sure, perhaps: "  # Prefix of the text of an answer that is unsure
UNKNOWN = "no entity of the question was found in the knowledge graph"  # Reason where nothing could be linked
NO_PROOF = "the facts that prove it could not be read"  # Reason for an answer without proof
UNPROVEN = "no fact that was read leads to it"  # Reason for an unsure answer that a model wrote itself
PROOF_LIMIT = 50  # Most facts shown as proof
RIVALS, RIVAL_VALUES = 3, 10  # Most other readings that an answer names, and most answers of each
_TRUE = {"true", "yes", "correct", "right", "supported"}
_FALSE = {"false", "no", "incorrect", "wrong", "refuted", "not true"}
YES_NO = {"true": "Yes", "false": "No"}


def build_answer(
    state: State,
    env: Environment,
    values: tuple[str, ...],
    sparql: str = "",
    proof: Iterable[Triple] = (),
    note: str = "",
    *,
    calibrate: bool = True,
    is_table: bool = False,
) -> Answer:
    """Return the answer with status, confidence, proof, labels and text.

    `note` is its reason if the run gives none. `is_table`: each value is a row, its cells joined by commas.
    """
    kg, (status, reason) = env.kg, ending(state, values)
    if status == "not_found":
        reason = next(filter(None, (r.missing for r in state.readings)), reason)
        reason += f" (a query was not answered: {env.meter.failure})" if env.meter.failure else ""
    answer = Answer(status, values, sparql=sparql, reason=reason or note, corrections=state.corrections)
    answer = replace(answer, note=state.closing_note)
    if calibrate and status == "answered":
        answer = _with_confidence(answer, state, env)
    facts = list(dict.fromkeys(proof)) if answer.values else []
    shown = facts[:PROOF_LIMIT]
    base = base_of(kg)
    if isinstance(base, FederatedKG):  # the proof is to show how the sources are joined, too
        bridges, remark = base.remarks(shown)
        answer = replace(answer, sparql=base.written(sparql), note=remark or answer.note)
        shown += bridges
    try:
        answer = replace(answer, proof=proof_of(kg, shown))
    except QueryFailedError as error:
        answer = replace(answer, reason="; ".join(filter(None, (answer.reason, f"{NO_PROOF}: {error}"))))
    written = {o.value: readable(o) for t in facts if isinstance(o := t.object, Literal)}
    labels = _row_labels(answer.values, kg) if is_table else labels_of(kg, answer.values, written)
    text = sentence(labels, is_table=is_table) or f"Not found: {answer.reason}."
    if count := sum(bool(fact.fact) for fact in answer.proof):
        were = "was" if count == 1 else "were"
        text += f" {count} of the {len(answer.proof)} facts that prove this {were} read from documents."
    return replace(answer, labels=labels, text=f"{UNSURE if answer.status == 'unsure' else ''}{text}")


def proof_of(kg: KnowledgeGraph, triples: Sequence[Triple]) -> tuple[ProofTriple, ...]:
    """Return facts as proof: with labels, and where those from documents were read."""
    documents, proven = facts_of(kg), list[ProofTriple]()
    for triple, named in zip(triples, triple_labels(kg, triples, exact=False), strict=True):
        read = documents.get(triple)
        origin = () if read is None else (read.document, read.source, read.sentence, read.id)
        proven.append(ProofTriple(triple, named, *origin))
    return tuple(proven)


def _row_labels(values: Sequence[str], kg: KnowledgeGraph) -> tuple[str, ...]:
    """Return rows (cells joined by commas) with the labels of their cells."""
    cells = list(dict.fromkeys(cell for row in values for cell in row.split(", ")))
    named = dict(zip(cells, labels_of(kg, cells), strict=True))
    return tuple(", ".join(named[cell] for cell in row.split(", ")) for row in values)


def ending(state: State, values: tuple[str, ...], over_tables: bool = False) -> tuple[AnswerStatus, str]:
    """Return how the run ended, and the reason; `over_tables` (a database) no entity need be linked."""
    if state.verdict is not None and state.is_spent:
        so_far = "the answer is what was proven so far" if values else "nothing was proven so far"
        return "budget_spent", f"{state.verdict.note}; {so_far}"
    if values:
        return "answered", ""
    names, slot = " and ".join(e.label for e in state.linked), slot_of(state.question)
    last = state.last.feedback.action if state.steps else ""
    if last == "unknown":
        reason = ", ".join(state.last.feedback.arguments)
    elif not (state.linked or over_tables):
        reason = UNKNOWN
    elif not state.steps:
        reason = "no action was taken"
    elif last != "give_up":
        tried = f"{len(state.corrections)} corrections" if state.corrections else "no correction was needed"
        reason = f"every way tried gave no result ({len(state.steps)} steps, {tried})"
    elif state.readings:
        reason = state.last.thought.rstrip(".")
    elif slot is not None:
        reason = f'the knowledge graph holds no "{slot[1]}" of {names}'
    elif form_of(state.question) == "claim":
        reason = f"nothing the knowledge graph holds about {names} proves or contradicts the claim"
    else:
        reason = f"nothing the knowledge graph holds about {names} fits the words of the question"
    return "not_found", reason


def _with_confidence(answer: Answer, state: State, env: Environment) -> Answer:
    """Return the answer with confidence and rivals; low confidence makes it `unsure`, or `not_found`."""
    context, reading = env.context, state.followed
    calibration = calibration_for(env.kg, context.calibration)
    # A reading was followed where there is no model, or where `cascade` made no call of it.
    if not (context.offline or (is_sure(state.readings, context) and not state.usage.calls)):
        is_judged = context.model_confidence and context.min_confidence != 0
        if not is_judged or form_of(state.question) != "question":
            return answer
        try:
            state = state.model_copy(update={"readings": state.readings or readings_of(state, env)})
            calibration, reading = shipped(MODEL_FILE), reading_of_query(state, env, answer.values)
        except KGUnavailableError:
            return answer  # without confidence
        reading = replace(reading, confidence=calibration.probability(reading.features))
    if reading is None or not reading.features:
        return replace(answer, unaccounted=reading.uncovered if reading is not None else ())
    confidence = round(reading.confidence, 4)
    least = calibration.min_confidence if context.min_confidence is None else context.min_confidence
    if confidence < min(calibration.floor, least) and not context.guess:
        unnamed = (reading.features.get(n) for n in ("uncovered_names", "names_none"))
        is_unknown = not state.linked and any(unnamed)
        reason = UNKNOWN if is_unknown else doubts(reading, answer.reason)
        return replace(answer, status="not_found", values=(), sparql="", reason=reason)
    if confidence < least:
        answer = replace(answer, status="unsure", reason=doubts(reading, answer.reason))
    rivals = rivals_of(reading, state, env.kg)
    return replace(answer, confidence=confidence, unaccounted=reading.uncovered, rivals=rivals)


def reading_of_query(state: State, env: Environment, values: Sequence[str]) -> Reading:
    """Return the query of a model as a reading, with features from which its confidence can be estimated.

    A query that the model wrote in SPARQL counts as the reading with the same answer.
    """
    profile, same = env.kg.profile, next((r for r in state.readings if r.has_answer(values)), None)
    written = PyQL.parse(same.program, profile) if same is not None else PyQL()
    program = written if env.toolset.name == "sparql" else env.toolset.to_pyql(state.program, profile)
    about = "", "the query of the model", 0.0, 0.0, "a model", tuple(values), same.uncovered if same else ()
    return Reading(*about, features=query_features(program, values, state.readings, profile))


def doubts(reading: Reading, reason: str = "") -> str:
    """Return why a reading is not sure, appended to a `reason`."""
    reasons = [reading.missing]
    if reading.uncovered:
        words, be = ", ".join(map(repr, reading.uncovered)), "is" if len(reading.uncovered) == 1 else "are"
        near = f" (nearest: {', '.join(reading.nearest)})" if reading.nearest else ""
        reasons.append(f"{words} {be} not covered by any relation of this graph{near}")
    best = f"{reading.text}: {reading.confidence:.0%}"
    unlikely = f"no reading of the question is likely enough to be right (the best is {best})"
    why = "; ".join(filter(None, reasons)) or unlikely
    return f"{reason}; {why}" if reason else why


def rivals_of(chosen: Reading, state: State, kg: KnowledgeGraph) -> tuple[Rival, ...]:
    """Return the most probable readings with other answers than the chosen one."""
    distinct = {frozenset(chosen.values): chosen}
    for reading in sorted(state.readings, key=lambda r: -r.confidence):
        if reading.values:
            distinct.setdefault(frozenset(reading.values), reading)
    others = list(distinct.values())[1 : 1 + RIVALS]
    values = list(dict.fromkeys(value for reading in others for value in reading.values[:RIVAL_VALUES]))
    dates = {v: text for v in values if (text := readable(Literal(v, XSD + "date"))) != v}
    labels, rivals = dict(zip(values, labels_of(kg, values, dates), strict=True)), list[Rival]()
    for r in others:
        shown, query = r.values[:RIVAL_VALUES], PyQL.parse(r.program, kg.profile).sparql(kg.profile)
        texts = tuple(labels[value] for value in shown)
        rivals.append(Rival(r.text, shown, texts, query, round(r.confidence, 4)))
    return tuple(rivals)


def labels_of(kg: KnowledgeGraph, values: Iterable[str], written: Mapping[str, str] = {}) -> tuple[str, ...]:
    """Return answer values as people read them, in order; `written`: literals whose datatype is known."""
    values, written = list(values), {**written, **YES_NO}
    iris = {v: iri for v in values if (iri := kg.profile.expand(v)) is not None}
    labels, texts = kg.labels(iris.values(), partial=True), list[str]()
    for value in values:
        iri = iris.get(value)
        label = labels.get(iri, "") if iri is not None else ""
        # Where ids are names, a literal looks like an id too: its label counts only if there is such a node.
        if iri is not None and label and label == kg.profile.local_text(iri):
            index = kg.names if kg.members else kg.index
            label = label if index is not None and index.node(iri) is not None else ""
        label = label or written.get(value, "")
        if not label and (iri is None or kg.profile.entity_text == "local"):
            is_number = value.lstrip("-").replace(".", "", 1).isdigit()
            number = Literal(value, XSD + ("decimal" if "." in value else "integer"))
            label = readable(number) if is_number else readable_text(value)
        texts.append(label or value)
    return tuple(texts)


def normal_values(text: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the values; to a yes-no question or a claim, words like `yes` become `true` or `false`."""
    word = values[0].strip(" .!\"'").casefold() if decides(text) and len(values) == 1 else ""
    return ("true",) if word in _TRUE else ("false",) if word in _FALSE else tuple(values)


def sentence(labels: tuple[str, ...], *, is_table: bool = False) -> str:
    """Return the labels, which may be the rows of a table, as a sentence; "" for none."""
    if len(labels) > 1 and not is_table:
        return f"{', '.join(labels[:-1])} and {labels[-1]}."
    return f"{'; '.join(labels)}." if labels else ""
