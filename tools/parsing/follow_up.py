"""What a follow-up question leans on: how the questions before it were read.

What a question asked for, and the things that it was about, are anchors of the next one: at its pronouns, at
"the", and at a token behind its last word, which stands for what is not said ("And when?"). A question that
is only a part stands in the last query tree in place of the part of its kind ("And of Italy?"). Chart and
weights decide which of it is meant. The words that tell are data (`follow_up` in `lexicon.yaml`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from triplewise.tools.core.terms import IRI
from triplewise.tools.language.framing import asks
from triplewise.tools.language.lexicon import lexicon, section, word_list
from triplewise.tools.language.text import tokens
from triplewise.tools.parsing import query as q
from triplewise.tools.parsing.denotation import Denotation, denotation, members
from triplewise.tools.parsing.derivation import Category, Derivation, Features, f
from triplewise.tools.parsing.facts import term_of
from triplewise.tools.parsing.index import GraphIndex

if TYPE_CHECKING:
    from triplewise.tools.parsing.question import Question

Purpose = Literal["question", "proof", "query"]
PROVENANCE = "what was asked before"  # of readings that lean on it
REMEMBERED = 3  # questions back that a word may refer to
NAMED = ("person", "thing", "place", "several")  # kinds of words that need something before them
ONLY = ("only", "just")  # what begins a message that keeps some of the answers
STANDING = ("entity", "literal", "value", "class")  # kinds of parts that stand for one of their kind


@dataclass(frozen=True, slots=True)
class Turn:
    """A question that was asked, its query tree (`write_tree`; "" where it has none), its answer, and what
    its confidence was computed from."""

    question: str
    tree: str = ""
    values: tuple[str, ...] = ()
    evidence: Mapping[str, float] = field(default_factory=dict)


def purpose_of(message: str) -> Purpose:
    """Return whether a message asks for the proof or the query of the answer before, else "question"."""
    text = _opened(message).strip(" ?.!,")
    found = (of for of in ("proof", "query") if re.fullmatch(section("follow_up")[of], text, re.IGNORECASE))
    return cast(Purpose, next(found, "question"))


def without_opening(message: str) -> tuple[str, float]:
    """Return a message without "and", "what about"; and how much it is a question of its own, 0 to 1."""
    text = _opened(message)
    words, is_opened = tokens(text), text != message.strip()
    has_reference = refers(words)
    size = sum(word not in word_list("stop") for word in words)
    if asks(text):
        own = 0.0 if not has_reference and size < 2 else 0.25 if is_opened else 1.0
    else:
        own = float(size > 2 and not (has_reference or is_opened or words[0] in ONLY))
    return text or message, own


def leans(message: str) -> bool:
    """Return whether a message may lean on earlier ones: a part of a question, or one with a reference."""
    return without_opening(message)[1] < 1 or refers(tokens(message))


def lacks(message: str) -> str | None:
    """Return the word of a message that stands for something earlier, "" where all its words say nothing
    alone, None where it needs nothing."""
    words = tokens(_opened(message))
    reference = next((word for i, word in enumerate(words) if _kind(words, i) in NAMED), None)
    return "" if reference is None and word_list("stop").issuperset(words) else reference


def _opened(message: str) -> str:
    """A message without what it begins with and says nothing."""
    text = " ".join(message.split())
    opening = re.match(section("follow_up")["opening"], text, re.IGNORECASE)
    return text[opening.end() if opening else 0 :]


def refers(words: Sequence[str]) -> bool:
    """Whether a word refers to something earlier; "that" of a relative clause is taken for one."""
    return any(_kind(words, i) not in ("", "the") for i in range(len(words)))


def _kind(words: Sequence[str], i: int) -> str:
    """What a word stands for, as the lexicon has it; "" where it refers to nothing."""
    references = section("follow_up")["references"].items()
    kind = next((kind for kind, of in references if words[i] in of.split()), "")
    is_there = words[i] == "there" and words[i - 1 : i] in (["is"], ["are"], ["was"], ["were"])
    is_empty = words[i + 1 : i + 2] == ["of"] or (kind == "the" and i + 1 == len(words))
    return "" if is_there or is_empty else kind


# --- trees as text ------------------------------------------------------------------------------------------


def write_tree(tree: q.Query, index: GraphIndex) -> str:
    """Return a query tree as JSON with the terms of the graph, which any index of it can read."""

    def plain(name: str, value: Any) -> Any:
        if isinstance(value, q.Tree):
            return [type(value).__name__, *(plain(n, getattr(value, n)) for n in value.__match_args__)]
        if name == "nodes":
            return sorted(index.terms[node].n3() for node in value)
        if name == "path":
            return [[[(iri.value, ahead) for iri, ahead in index.rels[r].path], way] for r, way in value]
        return _class_key(index, value) if name == "cls" else value

    return json.dumps(plain("", tree), ensure_ascii=False)


def read_tree(text: str, index: GraphIndex) -> q.Query | None:
    """Return the query tree that a text stands for; None for "", and where the index lacks a part of it."""
    if not text:
        return None
    numbers = {relation.path: relation.i for relation in index.rels}
    classes = {_class_key(index, c): c for c in range(len(index.classes))}

    def read(name: str, value: Any) -> Any:
        if name == "nodes":
            return frozenset(index.numbers_of[term_of(n3.encode())] for n3 in value)
        if name == "path":
            steps = ((tuple((IRI(r), ahead) for r, ahead in edges), way) for edges, way in value)
            return tuple((numbers[edges], way) for edges, way in steps)
        if name == "cls":
            return classes[value]
        if isinstance(value, list):
            made = getattr(q, value[0])
            return made(*(read(n, part) for n, part in zip(made.__match_args__, value[1:], strict=True)))
        return value

    try:
        return cast(q.Query, read("", json.loads(text)))
    except KeyError:
        return None


def _class_key(index: GraphIndex, cls: int) -> str:
    of = index.classes[cls]
    return of.iri.value if of.iri is not None else " ".join(of.names)


# --- what was asked before, as anchors ----------------------------------------------------------------------


def ground_earlier(question: Question) -> None:
    """Add what was asked before as anchors, wherever a question may refer to it."""
    index, places = question.index, _places(question)
    person, place = (question.vocabulary.classes_like(word) for word in ("who", "where"))
    like = {"person": person, "thing": -person, "place": place}
    topics = [p.nodes for _, tree in question.earlier for p in q.parts_of(tree) if isinstance(p, q.Nodes)]
    left_out = frozenset[int]().union(*topics) if question.other_cue else frozenset()
    for back, (turn, tree) in enumerate(question.earlier):
        found: dict[frozenset[int], tuple[q.Set, str]] = {}
        for query, role in _antecedents(turn, tree, index):
            if (nodes := members(query, index)) and not any(index.is_literal[node] for node in nodes):
                found.setdefault(nodes, (query, role))
        for nodes, (query, role) in found.items():
            is_one, classes = len(nodes) == 1, sorted(index.sig(nodes))
            one, form = (q.Nodes(nodes), "entity") if is_one else (query, "and")
            mentions = left_out | nodes if is_one else left_out
            for start, end, kind in places:
                if kind == "the" and not is_one:  # "the rivers" are all
                    continue
                fits = like[kind][classes] if kind in like else ()
                features = f(
                    ana=1, ana_named=kind in NAMED, ana_omitted=kind == "omitted", ana_back=back,
                    ana_topic=role == "topic" and kind not in ("the", "omitted"), ana_base=role == "base",
                    ana_omitted_answer=role == "answer" and kind == "omitted" and is_one,
                    ana_set=not is_one, ana_noun=end - start > 1,
                    ana_number=kind not in ("the", "omitted", "place") and (kind == "several") == is_one,
                    ana_alike=max(map(float, fits), default=0.0),
                    ana_clause=question.clause * (kind == "omitted"), ent_exact=is_one and kind != "the",
                )  # fmt: skip
                anchor = Derivation(Category.SET, start, end, features, one, kind=form, mentions=mentions)
                question.add(anchor)


def _places(question: Question) -> list[tuple[int, int, str]]:
    """Where a question may refer to something: words, with a noun that the graph may not know ("that man"),
    and the token behind the last word, which stands for what is not said."""
    words, last = question.words[:-1], question.n - 1
    classes = (a for a in question.of_kind("class") if question.index.classes[a.meaning].iri)
    nouns = {a.end for a in classes if a.features[0][0] in ("cls_exact", "cls_head")}
    kinds = [(i, _kind(words, i)) for i in range(last)]
    # "rivers that flow": no reference
    said = [(i, i + 1, kind) for i, kind in kinds if kind and not (words[i] == "that" and i in nouns)]
    question.pronouns.update(i for i, _, kind in said if kind != "the")
    pointing = (place for place in said if words[place[0]] in ("this", "that", "these", "those"))
    named = [(i, j + 1, kind) for i, j, kind in pointing if j < last and question.content(j, j + 1)]
    return [*said, *named, (last, last + 1, "omitted")]


def _antecedents(turn: Turn, tree: q.Query | None, index: GraphIndex) -> Iterator[tuple[q.Set, str]]:
    """What a word may stand for: what a question asked for ("answer"), what that was chosen from ("base"),
    and what it was about ("topic")."""
    iris = [index.profile.expand(value) for value in turn.values]
    if len(iris) == 1 and iris[0] in index.numbers_of:
        yield q.Nodes(frozenset([index.numbers_of[iris[0]]])), "answer"
    whole = tree.of if isinstance(tree, q.Count) else tree
    if whole is not None and not isinstance(whole, q.Count | q.Exists | q.Aggregate | q.Grouped):
        yield whole, "answer"
    for part in q.parts_of(tree):
        if isinstance(part, q.Nodes):
            yield part, "topic"
        elif isinstance(part, q.Extremal | q.ExtremalAggregate):
            yield part.of, "base"


def leans_on(features: Mapping[str, float], turns: Sequence[Turn]) -> Turn | None:
    """Return the turn whose tree, or a part of it, is in a reading with such features."""
    back = int(features.get("ell_back", 0.0) + features.get("ana_back", 0.0))
    is_part = any(features.get(name) for name in ("ell", "ana_like", "ana_set"))
    return turns[min(back, len(turns) - 1)] if turns and is_part else None


def like_before(question: Question, derivation: Derivation) -> Features:
    """How a reading goes with the question before: whether "only" keeps some of its answers, and how like the
    relation asked for is where no word tells it ("Where was X born? And when?")."""
    trees = [tree for _, tree in question.earlier]
    if not trees or trees[0] is None or derivation.category is not Category.SET:
        return []
    if question.words[0] in ONLY:
        last = denotation(trees[0], question.index)
        return f(ana_only=isinstance(last, frozenset) and derivation.nodes < last)
    asked, before = _asked(derivation.query), [_asked(tree) for tree in trees]
    if asked is None or asked in before or question.content(0, question.n):
        return []
    if before[0] is None or lexicon().kinds.keys().isdisjoint(question.words):
        return f(ana_guess=1)
    vectors = question.index.vectors([question.index.rels[r].names[0] for r in (asked, before[0])])
    return f(ana_like=float(vectors[0] @ vectors[1]))


def _asked(tree: q.Query | None) -> int | None:
    """The relation whose values a tree asks for."""
    return next((part.path[-1][0] for part in q.parts_of(tree) if isinstance(part, q.Image)), None)


# --- a part of a question in place of one of the last -------------------------------------------------------


def instead(question: Question, part: Derivation) -> Iterator[tuple[Features, q.Query, Denotation]]:
    """The trees of the questions before with a part in place of what is of its kind: an entity of an entity
    of its class, a class of a class, a value of a value."""
    names = {name for name, _ in part.all_features()}
    if part.category is not Category.SET or "ana_omitted" in names:
        return
    if part.kind not in STANDING and "ana_named" not in names:
        return
    index = question.index
    outside = question.skips(0, part.start) + question.skips(part.end, question.n)
    for back, (_, tree) in enumerate(question.earlier):
        for old in q.parts_of(tree):
            if _is_alike(old, part, index) and old != part.query:
                new = cast(q.Query, q.replaced(tree, old, part.query))
                found = denotation(new, index)
                if found != frozenset() or part.kind == "entity":
                    features = f(ell=1, ell_back=back, ell_clause=question.clause, empty=found == frozenset())
                    yield outside + features, new, found


def _is_alike(old: q.Tree, part: Derivation, index: GraphIndex) -> bool:
    match old, part.query:
        case (q.Members(), q.Members()) | (q.Number(), q.Number()):
            return True
        case q.Nodes(nodes), new if not isinstance(new, q.Members | q.Number):
            classes = (index.members(c) for c in index.sig(nodes) | index.sig(part.nodes))
            return any(not of.isdisjoint(nodes) and not of.isdisjoint(part.nodes) for of in classes)
    return False
