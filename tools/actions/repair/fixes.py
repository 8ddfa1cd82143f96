"""What may have been meant by a step that failed: candidates of fixes, of several kinds.

A kind of fix is a function from a `FailedStep` to candidate `Fix`es, registered under the codes and outcomes
it serves; nothing but the registration has to be added for a new kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, ReasoningMemory, Toolset
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import Variable
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Layer, Outcome, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql.program import PyQL, fresh
from triplewise.tools.pyql.text import bare_datatype, read_iri, read_variable, write_iri
from triplewise.tools.retrieval.encoder import Encoder

EMPTY = str(Outcome.EMPTY)
ROWS = (str(Outcome.ROWS), str(Outcome.TRUNCATED))
SURE, LIKELY, POSSIBLE = 0.5, 0.25, 0.1
"""Priors: a turned fact that finds something is nearly always right, another relation is one among many."""
FIRST_HOPS = 10
"""Relations tried as the way to a mediator that the agent left out."""
PLANNED = 0.15
"""What it adds that a verified rule of the plan uses the relation."""
SHARED = 0.15
"""What it adds that two relations share their domain or their last part."""
LEAST = 0.6
"""Names less alike than this are not taken for slips of one another."""
INDEXED = 3
"""Nodes that the label index may offer for one name."""
NAME = 0.5
"""Weight of a name beside whatever else speaks for a fix."""
ACTIONS = 3
"""Actions tried for one that does not exist."""
PATIENCE = 5.0
"""Seconds that one query of a correction may take at most."""
TIMEOUTS = 2
"""So many time-outs end the trying: what is left would most likely time out too."""
SEEN = 200
"""Nodes of past observations whose names are compared with a label at most."""


class SpentError(Exception):
    """The budget is spent, or the KG does not answer: what was not tried yet stays untried."""


class QueryBudget(Layer):
    """A KG that asks the one below at most `budget` queries, each once; one more raises `SpentError`.

    Corrections must stay cheap and may never hang a run. Queries count for the meter of the KG below too.
    """

    def __init__(self, origin: KnowledgeGraph, budget: int) -> None:
        super().__init__(origin)
        self.budget, self.used = budget, 0
        self.timeout = min(origin.timeout, PATIENCE)
        self._labels = origin._labels
        self._failures: dict[Outcome, int] = {}
        self._results: dict[tuple[str, int | None], Result] = {}

    @property
    def shared(self) -> KnowledgeGraph:  # type: ignore[override]
        """The KG below: what is kept for it (texts of relations) holds for this one too."""
        return self.origin.shared

    @property
    def left(self) -> int:
        """Queries left; 0 once the KG has stopped answering."""
        failures = self._failures
        lost = failures.get(Outcome.UNAVAILABLE, 0) or failures.get(Outcome.TIMEOUT, 0) >= TIMEOUTS
        return 0 if lost else self.budget - self.used

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one query, or return the result it had before. Raises `SpentError` where none is left."""
        key = (sparql, limit)
        if key not in self._results:
            if self.left < 1:
                raise SpentError(f"no query is left of {self.budget}")
            seconds = self.timeout if timeout is None else min(timeout, self.timeout)
            with self.origin.meter.block() as meter:
                result = self._results[key] = self.origin.query(
                    sparql, timeout=seconds, limit=limit, foreign=foreign
                )
            self.used += meter.queries
            if not result.outcome.ok:
                self._failures[result.outcome] = self._failures.get(result.outcome, 0) + 1
        return self._results[key]

    def close(self) -> None:
        """The KG below belongs to others: nothing is closed."""


def name_similarity(text: str, other: str) -> float:
    """Return how alike two names are by their letters, 0 to 1."""
    one, two = normalise(text), normalise(other)
    return similarity(one, two) if one and two else 0.0


@dataclass(frozen=True, slots=True)
class Fix:
    """What might have been meant: one call, or a few in a row.

    Attributes:
        calls: to be made one after the other in place of the failed one.
        relation: short id of the relation that its similarity is judged by, "" if it has none.
        prior: how likely this kind is right wherever it finds something, on the scale of a cosine.
    """

    calls: tuple[Call, ...]
    relation: str = ""
    prior: float = 0.0

    def text(self) -> str:
        """Return the calls as the agent would write them."""
        return ", then ".join(call.text() for call in self.calls)


Around = tuple[Sequence[str], Sequence[str]]
"""Relations that leave and that arrive at a node, as short ids."""


@dataclass
class FailedStep:
    """A step that failed, with all that is known for fixing it.

    Attributes:
        context: what actions had before the step: its program does not hold the failed action, its memory
            does not know it, and its KG is `kg`.
        feedback: what the environment said of the step.
        toolset: the actions there are.
        encoder: compares texts by vectors; None compares their letters.
    """

    context: ActionContext
    kg: QueryBudget
    feedback: Feedback
    toolset: Toolset
    encoder: Encoder | None = None

    @property
    def action(self) -> str:
        """The action that failed."""
        return self.feedback.action

    @property
    def memory(self) -> ReasoningMemory:
        """The reasoning memory before the step."""
        return self.context.memory

    @property
    def cause(self) -> str:
        """The interpreter's code, or else the outcome of the query."""
        return self.feedback.error or str(self.feedback.outcome)

    @cached_property
    def args(self) -> tuple[str, ...]:
        """The arguments as written, without surrounding space."""
        return tuple(a.strip() for a in self.feedback.arguments)

    @property
    def fact(self) -> tuple[str, ...]:
        """Subject, relation and object, where the arguments are a triple or a comparison; else ()."""
        return self.args if len(self.args) == 3 else ()

    @cached_property
    def program(self) -> PyQL:
        """The program before the step; empty where it cannot be read."""
        try:
            return PyQL.parse(self.context.program, self.kg.profile)
        except ActionError:
            return PyQL()

    @cached_property
    def bound(self) -> tuple[str, ...]:
        """Variables that the program binds, newest last."""
        return tuple(v.n3() for v in self.program.variables)

    @cached_property
    def known(self) -> dict[str, str]:
        """Short ids that were linked or seen, with their names."""
        linked = dict(self.memory.linked)
        seen = sorted(i for i in self.memory.seen if i not in linked)[:SEEN]
        terms = {i: iri for i in seen if (iri := read_iri(i, self.kg.profile)) is not None}
        labels = self.kg.labels(terms.values()) if terms else {}
        return linked | {i: labels.get(iri, i) for i, iri in terms.items()}

    def fix(self, *arguments: str, relation: str = "", prior: float = 0.0) -> Fix:
        """Return a fix: the failed action with other arguments."""
        return Fix((Call(self.action, arguments),), relation, prior)

    def with_argument(self, place: int, value: str, relation: str = "", prior: float = 0.0) -> Fix:
        """Return a fix: the failed call with another argument at one place."""
        return self.fix(*self.args[:place], value, *self.args[place + 1 :], relation=relation, prior=prior)

    def is_new(self, form: str) -> bool:
        """Whether a form is a variable that nothing binds yet."""
        return form.startswith("?") and form not in self.bound

    def new_variable(self, name: str = "x", besides: Iterable[str] = ()) -> str:
        """Return a variable that neither the program nor the failed call names."""
        taken = {v[1:] for v in (*self.bound, *self.args, *besides) if v.startswith("?")}
        taken |= {v.name for v in self.program.local_variables}
        return f"?{fresh(name.lstrip('?') or 'x', taken)}"

    def around(self, node: str, program: PyQL | None = None) -> Around:
        """Return relations of an entity or a bound variable: as offered before, else asked from the KG.

        program: asks for a variable of another program than the step's own.
        """
        if program is None and (offered := self.memory.looked_up.get(node)):
            return offered.get("forward", ()), offered.get("backward", ())
        program, profile = program or self.program, self.kg.profile
        try:
            term = read_variable(node) if node.startswith("?") else read_iri(node, profile)
        except ActionError:
            term = None
        if term is None or (isinstance(term, Variable) and term not in program.variables):
            return (), ()
        result = self.kg.relations(term, program.where(profile) if isinstance(term, Variable) else "")
        return tuple(map(profile.short, result.forward)), tuple(map(profile.short, result.backward))

    def beyond(self, variable: str, program: PyQL) -> list[Fix]:
        """Return facts that lead on from a variable of a program to something new."""
        forward, backward = self.around(variable, program)
        new = self.new_variable(besides=[v.n3() for v in program.variables])
        onward = [Fix((Call("add_fact", (variable, r, new)),), r) for r in forward]
        return onward + [Fix((Call("add_fact", (new, r, variable)),), r) for r in backward]

    def relation_names(self, relations: Iterable[str]) -> dict[str, str]:
        """Return how relations read."""
        ids, profile = list(dict.fromkeys(relations)), self.kg.profile
        if profile.relation_text == "dotted":  # such ids read by themselves
            terms = {r: profile.expand(r, relation=True) for r in ids}
            return {r: profile.relation_label(iri).label if iri else r for r, iri in terms.items()}
        return {r: text.label for r, text in relation_texts(self.kg, ids).items()}

    def similarity(self, text: str, texts: Sequence[str]) -> list[float]:
        """Return the similarity of each text to one: a cosine, or by their letters."""
        if not text.strip() or not texts:
            return [0.0] * len(texts)
        if self.encoder is None:
            return [name_similarity(text, other) for other in texts]
        vectors = self.encoder.encode([text, *texts])
        return [float(x) for x in np.asarray(vectors[1:] @ vectors[0])]


Maker = Callable[[FailedStep], Iterator[Fix]]
KINDS: list[tuple[Maker, frozenset[str], frozenset[str]]] = []
"""Kinds of fix with the causes and actions they serve, in the order they were registered."""


def kind(causes: Iterable[str], actions: Iterable[str] = ()) -> Callable[[Maker], Maker]:
    """Register a function as a kind of fix.

    Args:
        causes: interpreter codes and KB outcomes that it serves (`empty`, `bad_relation`, ...).
        actions: only for these actions; none: for any.
    """

    def register(make: Maker) -> Maker:
        KINDS.append((make, frozenset(causes), frozenset(actions)))
        return make

    return register


def _is_literal(form: str) -> bool:
    return form.startswith(('"', "'"))


@kind(causes=(EMPTY, "bad_subject"), actions=("add_fact",))
def swapped(step: FailedStep) -> Iterator[Fix]:
    """The same fact in the other direction."""
    if step.fact and not _is_literal(step.fact[2]):
        subject, relation, object_ = step.fact
        yield step.fix(object_, relation, subject, relation=relation, prior=SURE)


@kind(causes=(EMPTY, "bad_relation"), actions=("add_fact",))
def sibling(step: FailedStep) -> Iterator[Fix]:
    """Another relation of the subject or the object, in the direction in which it is there."""
    if not step.fact:
        return
    subject, failed, object_ = step.fact
    for node, other in ((subject, object_), (object_, subject)):
        if step.is_new(node) or _is_literal(node):
            continue
        for forward, relations in zip((True, False), step.around(node), strict=True):
            for relation in relations:
                same = relation == failed and forward == (node == subject)
                if same or (not forward and _is_literal(other)):
                    continue
                ends = (node, relation, other) if forward else (other, relation, node)
                prior = _shared_parts(failed, relation) + PLANNED * (relation in step.memory.planned)
                yield step.fix(*ends, relation=relation, prior=prior)
        if step.is_new(other):
            return


def _shared_parts(relation: str, other: str) -> float:
    """Return what shared parts of their ids speak for two relations."""
    one, two = (r.replace("/", ".").replace(":", ".").split(".") for r in (relation, other))
    if min(len(one), len(two)) < 2:
        return 0.0
    return SHARED * (one[-1] == two[-1] or one[:-1] == two[:-1]) + SHARED / 3 * (one[0] == two[0])


@kind(causes=(EMPTY,), actions=("add_fact",))
def mediated(step: FailedStep) -> Iterator[Fix]:
    """The relation belongs to a mediator (CVT, statement) in between, and the way to it was left out."""
    profile = step.kg.profile
    if not step.fact or not (profile.mediator_patterns or profile.unlabelled_is_mediator):
        return
    subject, relation, object_ = step.fact
    anchor, other = (object_, subject) if step.is_new(subject) else (subject, object_)
    if step.is_new(anchor) or _is_literal(anchor):
        return
    node, (forward, backward) = step.new_variable("node"), step.around(anchor)
    first = [(r, Call("add_fact", (anchor, r, node))) for r in forward]
    first += [(r, Call("add_fact", (node, r, anchor))) for r in backward]
    last = relation.split(".")[-1]
    first.sort(key=lambda h: -_shared_parts(relation, h[0]) - name_similarity(last, h[0].split(".")[-1]))
    for way, call in first[:FIRST_HOPS]:
        second = Call("add_fact", (node, relation, other))
        yield Fix((call, second), relation, LIKELY + _shared_parts(relation, way))


@kind(causes=(*ROWS, EMPTY, "subject_equals_object"), actions=("add_fact",))
def anchored(step: FailedStep) -> Iterator[Fix]:
    """A fact that hangs on nothing known, with a known node at one of its ends.

    The newest variable comes first, then linked entities that are not used yet.
    """
    if not step.fact:
        return
    subject, relation, object_ = step.fact
    same = subject == object_
    if not same and not (step.is_new(subject) and step.is_new(object_)):
        return
    used = set(step.context.program.replace("(", " ").replace(",", " ").replace(")", " ").split())
    anchors = [(variable, POSSIBLE / (age + 1)) for age, variable in enumerate(reversed(step.bound))]
    anchors += [(entity, 0.0 if entity in used else POSSIBLE) for entity in step.memory.linked]
    other = step.new_variable() if same else object_
    for node, prior in anchors:
        for given, new in ((subject, other), (other, subject)):
            end = subject if given == subject else object_
            likely = prior + (LIKELY * name_similarity(node, end) if node.startswith("?") else 0.0)
            yield step.fix(node, relation, new, relation=relation, prior=likely)
            # What stood at the object's place most likely belongs there.
            likely += POSSIBLE if given == other else -POSSIBLE
            yield step.fix(new, relation, node, relation=relation, prior=likely)


@kind(causes=(EMPTY,), actions=("add_fact",))
def other_variable(step: FailedStep) -> Iterator[Fix]:
    """Another variable than the one that was named, or a new one where the named one is taken."""
    if not step.fact:
        return
    relation = step.fact[1]
    for place in (0, 2):
        form, other = step.fact[place], step.fact[2 - place]
        if form not in step.bound:
            continue
        for variable in step.bound:
            if variable not in (form, other):
                prior = POSSIBLE + POSSIBLE * name_similarity(variable, form)
                yield step.with_argument(place, variable, relation, prior)
        if not step.is_new(other):
            yield step.with_argument(place, step.new_variable(form), relation)


@kind(causes=("unknown_variable", "bad_variable", "max_not_variable"))
def variable_meant(step: FailedStep) -> Iterator[Fix]:
    """A bound variable in place of one that nothing binds, the most alike first."""
    if step.action not in step.toolset:
        return
    kinds = [p.kind for p in step.toolset.action(step.action).parameters]
    for place, form in enumerate(step.args):
        due = kinds[min(place, len(kinds) - 1)] if kinds else ""
        unbound = form.startswith("?") and form not in step.bound
        if not (unbound or (due == "variable" and not form.startswith("?"))):
            continue
        for age, variable in enumerate(reversed(step.bound)):
            prior = NAME * name_similarity(variable, form) + 0.05 / (age + 1)
            yield step.with_argument(place, variable, prior=prior)


@kind(causes=("count_output_not_variable",))
def new_output(step: FailedStep) -> Iterator[Fix]:
    """A new variable for the number that a count gives."""
    if step.args:
        yield step.fix(*step.args[:-1], step.new_variable("count"))


@kind(causes=(EMPTY, "bad_subject", "bad_object", "unknown_entity", "bad_type", "bad_comparison"))
def entity_meant(step: FailedStep) -> Iterator[Fix]:
    """The id of the known or indexed node whose name was written, or was written with a slip."""
    if step.action == "add_filter" and step.cause == EMPTY:
        return
    relation = step.args[1] if step.action == "add_fact" and step.fact else ""
    for place, form in enumerate(step.args):
        if form.startswith("?") or form in step.known or (relation and place == 1):
            continue
        name, scores = form.strip("'\""), dict[str, float]()
        for node, label in step.known.items():
            if (score := max(name_similarity(name, node), name_similarity(name, label))) >= LEAST:
                scores[node] = score
        nodes = sorted(scores.items(), key=lambda s: (-s[1], s[0]))[:INDEXED]
        if not nodes:
            indexed = step.kg.names.search(name, INDEXED)
            nodes = [(write_iri(c.iri, step.kg.profile), c.score * 0.8) for c in indexed]
        for node, score in nodes:
            yield step.with_argument(place, node, relation, 0.3 + NAME * score)


@kind(
    causes=(EMPTY, "unknown_variable", "bad_variable", "unknown_entity", "bad_subject"),
    actions=("get_relation",),
)
def lookup_elsewhere(step: FailedStep) -> Iterator[Fix]:
    """The relations of something known that was not looked up yet."""
    written = step.args[0] if step.args else ""
    for node in (*step.bound, *step.memory.linked):
        if node not in step.memory.looked_up and node != written:
            label = step.memory.linked.get(node, node)
            yield step.fix(node, prior=NAME * name_similarity(written, label))


@kind(causes=("unknown_action",))
def action_meant(step: FailedStep) -> Iterator[Fix]:
    """The nearest action that takes so many arguments."""
    count, scored = len(step.args), list[tuple[float, str]]()
    for action in step.toolset.actions.values():
        if action.required <= count and (action.variadic or count <= len(action.parameters)):
            for name in (action.name, *action.aliases):
                one, two = step.action.replace("_", " "), name.replace("_", " ")
                # As a whole, or without the verb before them.
                ends = name_similarity(one.split()[-1], two.split()[-1]) if one and two else 0.0
                scored.append((max(name_similarity(one, two), 0.95 * ends), action.name))
    best = {name: score for score, name in sorted(scored)}
    for name, alike in sorted(best.items(), key=lambda s: (-s[1], s[0]))[:ACTIONS]:
        if alike >= LEAST - 0.1:
            yield Fix((Call(name, step.args),), prior=alike)


@kind(causes=("arity",))
def fitted(step: FailedStep) -> Iterator[Fix]:
    """The arguments that fit, without those too many or with a new variable for the one that is missing."""
    if step.action not in step.toolset:
        return
    action, got = step.toolset.action(step.action), len(step.args)
    if got > len(action.parameters) and not action.variadic:
        yield Fix((Call(action.name, step.args[: len(action.parameters)]),))
    if got != action.required - 1:
        return
    if action.name == "add_fact":
        new, (node, relation) = step.new_variable(), step.args
        yield step.fix(node, relation, new, relation=relation, prior=0.2)
        yield step.fix(new, relation, node, relation=relation, prior=0.1)
    elif action.parameters[got].kind == "variable":
        for age, variable in enumerate(reversed(step.bound)):
            yield step.fix(*step.args, variable, prior=0.1 / (age + 1))


@kind(causes=("execute_before_answer",))
@kind(causes=ROWS, actions=("set_answer",))
def answer_variable(step: FailedStep) -> Iterator[Fix]:
    """Which variable to return: another one than one that was objected to, the newest first."""
    for age, variable in enumerate(reversed(step.bound)):
        if variable not in step.args:
            yield Fix((Call("set_answer", (variable,)),), prior=0.1 / (age + 1))


_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OPEN = {"<": "<=", ">": ">=", "=": "contains"}
_WORDS = (
    (("at least", "no less", "not less", "from", "since", "minimum"), ">="),
    (("at most", "no more", "not more", "until", "up to", "maximum"), "<="),
    (("not", "differ", "other", "except", "unequal"), "!="),
    (("more", "great", "larg", "high", "old", "above", "over", "after", "later", "exceed", "gt"), ">"),
    (("less", "small", "low", "young", "below", "under", "before", "earl", "lt", "few"), "<"),
    (("contain", "includ", "like", "match"), "contains"),
    (("start", "begin", "prefix"), "starts_with"),
    (("end", "suffix"), "ends_with"),
    (("equal", "is", "same", "eq", "on", "in", "at"), "="),
)
_YEAR = re.compile(r"(?<!\d)(\d{4})(?!\d)")
_SHORT_YEAR = re.compile(r"(?:'|\b)(\d\d)\s*$")
_DAY = re.compile(r"(?<!\d)(\d{4})[-/.](\d\d?)[-/.](\d\d?)(?!\d)")
_QUANTITY = re.compile(r"[-+]?\d[\d,' ]*(?:\.\d+)?")
_SCALES = {"thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "billion": 1e9, "bn": 1e9}


@kind(causes=("bad_operator", "relation_as_operator"), actions=("add_filter",))
def operator_meant(step: FailedStep) -> Iterator[Fix]:
    """The operator that words mean, or the fact where a relation stands in its place."""
    if not step.fact:
        return
    left, given, right = step.fact
    if step.cause == "relation_as_operator":
        yield Fix((Call("add_fact", (left, given, right)),), given, 0.3)
        yield Fix((Call("add_fact", (right, given, left)),), given, 0.2)
    words = given.strip("'\"").replace("_", " ").casefold()
    meant = [op for stems, op in _WORDS if any(re.search(rf"\b{stem}", words) for stem in stems)]
    for place, operator in enumerate(dict.fromkeys(meant)):
        yield step.fix(left, operator, right, prior=0.3 - 0.1 * place)


@kind(causes=(EMPTY, "bad_comparison"), actions=("add_filter",))
def comparison(step: FailedStep) -> Iterator[Fix]:
    """The comparison turned around, made less strict, or of another variable."""
    if not step.fact:
        return
    left, operator, right = step.fact
    if operator in _TURNED:
        yield step.fix(left, _TURNED[operator], right, prior=0.2)
    if operator in _OPEN and not (operator == "=" and bare_datatype(right)):
        yield step.fix(left, _OPEN[operator], right, prior=0.1)
    if step.cause == "bad_comparison" and operator not in ("=", "!="):
        yield step.fix(left, "=", right, prior=0.1)
    for place in (0, 2):
        if step.args[place] in step.bound:
            others = [v for v in reversed(step.bound) if v not in step.args]
            for age, variable in enumerate(others):
                yield step.with_argument(place, variable, prior=0.15 / (age + 1))


@kind(causes=("bad_date", "bad_number", "bad_object", "bare_number_node", "bad_comparison"))
def value_meant(step: FailedStep) -> Iterator[Fix]:
    """The year, day or number in something that is written as none."""
    for place, form in enumerate(step.args):
        if form.startswith("?") or (
            bare_datatype(form) and step.cause not in ("bad_date", "bare_number_node")
        ):
            continue
        for rank, value in enumerate(readings(form.strip("'\""))):
            if value != form:
                yield step.with_argument(place, value, prior=0.3 - 0.05 * rank)
    if step.cause == "bare_number_node" and step.action == "add_fact" and step.fact:
        subject, relation, number = step.fact
        new = step.new_variable("value")
        bound = Call("add_fact", (subject, relation, new))
        yield Fix((bound, Call("add_filter", (new, "=", number))), relation, 0.3)


def readings(form: str) -> list[str]:
    """Return what a text may mean as a day, a year or a number, the most exact first."""
    values: list[str] = []
    if match := _DAY.search(form):
        year, month, day = match[1], int(match[2]), int(match[3])
        values += [f"{year}-{month:02d}-{day:02d}", f"{year}-{day:02d}-{month:02d}"]
    values += _YEAR.findall(form)
    if not values and (match := _SHORT_YEAR.search(form)) and not bare_datatype(form):
        values += [f"19{match[1]}", f"20{match[1]}"]
    if match := _QUANTITY.match(form.strip()):
        # Without separators, times what the word behind it says.
        digits, unit = re.sub(r"[,' ]", "", match[0]), form[match.end() :].casefold().split()
        factor = _SCALES.get(unit[0].strip("."), 1.0) if unit else 1.0
        values.append(digits if factor == 1.0 else f"{float(digits) * factor:.0f}")
    return list(dict.fromkeys(values))


@kind(causes=ROWS, actions=("set_answer",))
def through(step: FailedStep) -> Iterator[Fix]:
    """What lies behind nodes without a name that were set as the answer."""
    for form in step.args:
        if set(step.feedback.values.get(form[1:], ())) != {UNNAMED}:
            continue
        for fix in step.beyond(form, step.program):
            (call,) = fix.calls
            new = next(a for a in call.arguments if a.startswith("?") and a != form)
            yield Fix((call, Call("set_answer", (new,))), fix.relation, 0.2)


def candidates(step: FailedStep) -> list[Fix]:
    """Return all fixes that any kind proposes, each once, without what failed on this program."""
    failed = {*step.memory.doubted, Call(step.action, step.feedback.arguments).text()}
    fixes: dict[tuple[Call, ...], Fix] = {}
    for make, causes, actions in KINDS:
        if step.cause not in causes or (actions and step.action not in actions):
            continue
        # A kind that would need more queries than are left gives way to the ones that need none.
        with suppress(SpentError, QueryFailedError):
            for fix in make(step):
                if fix.calls[0].text() not in failed:
                    fixes.setdefault(fix.calls, fix)
    return list(fixes.values())
