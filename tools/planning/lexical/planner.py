"""Plan: the rules that may answer a question, best first (SymAgent 4.1).

Rules come from the neighbourhood of the linked entities, run and weighed by how well they fit the words:
chains from one topic; chains from two topics that meet, pass through or exclude each other; members of a
class; and for yes-or-no questions what is to be checked. Where a KG has seed questions, the closed paths of
those most like the question are rules too: what a seed shows counts as said by words. Where there are
documents, a rule with a gap in the graph stays alive (SymAgent 4.2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import filterfalse

from triplewise.tools.core.rules import Atom, Constraint, DroppedRule, Rule, dropped, path_text
from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.core.terms import text as literal
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import find_classes, is_mutual, relation_texts
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.linking.search import relations_of
from triplewise.tools.planning.bodies import (
    Body,
    answers,
    answers_in,
    constrained,
    ground,
    grow,
    make_atom,
    meeting,
    node_form,
    rename,
    run,
    signature,
    slug,
    types_of,
    without_topic,
)
from triplewise.tools.planning.lexical.constraints import Constraints, comparison_value, is_comparable
from triplewise.tools.planning.lexical.question import MENTION, Comparison, QuestionView, Token, lexicon, view
from triplewise.tools.planning.lexical.score import SAMPLE as FIT_SAMPLE
from triplewise.tools.planning.lexical.score import Scorer, ValueFit, is_date, is_number, thresholds_of
from triplewise.tools.planning.mining import seed_rules
from triplewise.tools.planning.seeds import Caps, SeedIndex
from triplewise.tools.pyql.text import write_value
from triplewise.tools.retrieval.encoder import Encoder

GAP = "with a gap in the graph"  # How the provenance of a rule ends that only documents can complete
NOWHERE = "it leads nowhere from the entity in this graph"  # Why a rule without a grounding is dropped
UNSAID = "no word of the question speaks of its relations"
GUESS = f"a guess: {UNSAID}"  # Provenance of a rule that is followed all the same (`PlanSettings.guess`)
SHOWN_BY_SEEDS, SURE = 0.5, 0.85
"""Evidence of seeds from which a rule needs no words that say it, and from which no other is looked for."""
IDENTITY = "what it is"  # Provenance of the classes of the topic
FAR_BEHIND = 10.0
"""What a guess costs: more than any score, so that it comes after every rule that is spoken for."""
CHECKED = 12  # Rules that are run before they are offered
SAMPLE = 60  # Values of a rule that are looked at
VALUES = 2_000  # Most values of a body that are compared for a meeting point
CLASS_DEPTH = 3  # Steps up the classes over which a topic is still a member of one
JOINED = 8  # Bodies of each topic that are tried for a meeting point


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Sizes of the search.

    Attributes:
        seed_count: groups of seeds read. beam: partial bodies that grow on. rules: rules returned.
        documents: whether documents may fill a gap of the KG: a rule that leads nowhere then stays a plan.
        guess: whether rules that no word of the question speaks for stay too, behind all others.
        caps: the longest body, and how far mining goes.
    """

    seed_count: int = 5
    beam: int = 12
    rules: int = 8
    documents: bool = False
    guess: bool = False
    caps: Caps = field(default_factory=Caps)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of a question, best first, and those that were thought of and dropped, with the reasons.

    `search` is what weighed them, and found those around the linked entities.
    """

    rules: tuple[Rule, ...] = ()
    dropped: tuple[DroppedRule, ...] = ()
    search: Search | None = None


def make_plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex | None = None,
    settings: PlanSettings | None = None,
) -> Plan:
    """Plan for a question with linked entities: rules, best first, and what was dropped, with reasons.

    A rule that leads nowhere from its topic entity is dropped, unless documents may fill the gap.
    """
    settings = settings or PlanSettings()
    rules: list[Rule] = []
    reasons: list[DroppedRule] = []
    search = prepare(question, linked, kg, encoder, settings)
    if seeds is not None and linked:
        mined = seed_rules(question, linked, kg, encoder, seeds, settings.caps, settings.seed_count)
        rules, reasons = _with_grounding(kg, mined, settings)
        rules = search.weigh_seeds(rules)
    if not rules or rules[0].evidence < SURE:
        rules += search.boolean() if search.view.boolean else search.rules()
    distinct: dict[tuple[object, ...], Rule] = {}
    for rule in sorted(rules, key=lambda r: -r.score):
        distinct.setdefault(rule.key, rule)
    best = share_places(list(distinct.values()), settings.rules)
    return Plan(tuple(best), tuple(dict.fromkeys([*reasons, *search.dropped])), search)


def prepare(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    settings: PlanSettings,
) -> Search:
    """Tell topics from classes: a linked "planet" in lower case names a class, not something asked about."""
    ordered = sorted(linked, key=lambda e: e.start)
    if kg.is_remote:
        _look_around(question, ordered, kg)
    named = [e for e in ordered if e.mention == e.mention.lower() and find_classes(kg, e.mention)]
    topics = [e for e in ordered if e not in named]
    spans = [(e.start, e.end) for e in topics]
    reading = view(question, spans)
    noun = reading.expected or view(question, []).expected
    classes = find_classes(kg, reading.phrase) or find_classes(kg, noun)
    if not classes and not reading.boolean:
        inside = [e.mention for e in named if noun and noun in e.mention]
        classes = tuple(c for mention in inside for c in find_classes(kg, mention))
    forms = list(dict.fromkeys(node_form(kg, e.id) for e in topics))
    search = Search(reading, linked, forms, classes, kg, encoder, settings)
    if reading.comparative and forms and search.is_named():
        search = Search(view(question, spans, compares=False), linked, forms, classes, kg, encoder, settings)
    if reading.boolean and len(forms) == 1 and (second := search.unlinked_topic()) is not None:
        token, form = second
        spans.append((token.start, token.start + len(token.text)))
        both = [form for _, form in sorted(zip(spans, (*forms, form), strict=False))]
        search = Search(view(question, sorted(spans)), linked, both, classes, kg, encoder, settings)
    return search


def _look_around(question: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph) -> None:
    """Ask at once for what every plan needs: classes that words name, topics' labels and neighbourhoods."""
    reading = view(question, [(e.start, e.end) for e in linked])
    words = [w for w, _ in reading.words]
    nouns = [reading.phrase, reading.expected, " ".join(words), *words, *(e.mention for e in linked)]
    nodes = [iri for e in linked if (iri := kg.profile.expand(e.id)) is not None]
    reads: list[Callable[[], object]] = [
        partial(find_classes, kg, n) for n in dict.fromkeys(nouns) if n == n.lower()
    ]
    reads += [partial(grow, kg, node_form(kg, e.id), ()) for e in linked]
    reads += [partial(kg.labels, nodes), partial(types_of, kg, nodes), partial(relations_of, kg)]
    kg.together(reads)


def _with_grounding(
    kg: KnowledgeGraph, rules: Sequence[Rule], settings: PlanSettings
) -> tuple[list[Rule], list[DroppedRule]]:
    """Return the first rules that lead somewhere from their topic, and those dropped because they do not.

    With documents the latter stay where they are, marked as having a gap, and do not take the places of the
    others. One query a rule.
    """
    grounded: list[Rule] = []
    reasons: list[DroppedRule] = []
    for rule in rules:
        if len(grounded) == settings.rules * (2 if settings.documents else 1):
            break
        if run(kg, rule, limit=1).outcome is not Outcome.EMPTY:
            grounded.append(rule)
        elif settings.documents:
            grounded.append(replace(rule, provenance=f"{rule.provenance}, {GAP}"))
        else:
            parts = [ground(rule.anchor, rule.body[:n]) for n in range(1, len(rule.body) + 1)]
            empty = (part for part in parts[:-1] if run(kg, part, limit=1).outcome is Outcome.EMPTY)
            part = next(empty, parts[-1])
            end = f"no grounding: the graph has nothing at {path_text(part.body)} from the entity"
            is_whole = part.body == rule.body and rule.constraints
            reasons.append(dropped(rule, f"{end} that meets the conditions" if is_whole else end))
    return share_places(grounded, settings.rules), reasons


def has_gap(rule: Rule) -> bool:
    """Return whether only documents can complete a rule."""
    return rule.provenance.endswith(GAP)


def share_places(rules: Sequence[Rule], limit: int) -> list[Rule]:
    """Return the first rules, in order, at most `limit`, where neither kind takes the place of the other.

    Rules with a gap have half of the places, more where there are not enough others.
    """
    gaps = [i for i, r in enumerate(rules) if has_gap(r)]
    whole = [i for i, r in enumerate(rules) if not has_gap(r)]
    gaps = gaps[: max(limit - len(whole), limit // 2)]
    chosen = {*gaps, *whole[: limit - len(gaps)]}
    return [r for i, r in enumerate(rules) if i in chosen]


class Search:
    """The search for one question.

    Attributes:
        view: the question. linked: its entities. topics: argument forms of those that name no class, in the
            order of the question.
        classes: nodes that the expected noun names as a class of the KG.
        dropped: rules that were tried and are none, with the reason.
        fit: judges the values of rules. values: those of the rules that were run, some of each.
    """

    def __init__(
        self,
        view: QuestionView,
        linked: Sequence[LinkedEntity],
        topics: Sequence[str],
        classes: Sequence[IRI],
        kg: KnowledgeGraph,
        encoder: Encoder,
        settings: PlanSettings,
    ) -> None:
        self.view, self.linked, self.topics, self.classes = view, linked, tuple(topics), tuple(classes)
        self.kg, self.encoder, self.settings = kg, encoder, settings
        self.dropped: list[DroppedRule] = []
        self.values: dict[tuple[object, ...], tuple[Term, ...]] = {}
        self._weights = thresholds_of(encoder)
        self.fit = ValueFit(kg, encoder, view, classes)
        self._bodies: dict[str, list[tuple[Body, float]]] = {}
        self._scorers: dict[str, Scorer] = {}
        self._reached: dict[tuple[str, Body], frozenset[Term]] = {}

    def rules(self) -> list[Rule]:
        """Return rules from the neighbourhood of the linked entities that lead to answers, best first."""
        rules = self._of_two_topics() if len(self.topics) > 1 else []
        if not (rules and self._excluded):
            for topic in self.topics:
                rules += self._chains(topic, self.bodies(topic))
            rules += [*self._members(), *self._described(), *self._identity()]
        return self._apply_constraints(self._execute(self.rank(rules)))

    def weigh_seeds(self, rules: Sequence[Rule]) -> list[Rule]:
        """Return rules of seed questions with their scores among all others, best first.

        The score lies between that of the words alone and a perfect one, by the evidence of the seeds.
        """
        scored: list[Rule] = []
        for rule in rules:
            if self.view.boolean and rule.evidence < SHOWN_BY_SEEDS:
                continue
            scorer = self.scorer(rule.anchor)
            added = tuple(a for c in rule.constraints for a in c.atoms)
            (score,) = scorer.scores([(*added, *rule.body)])
            score += self._weights.join * sum(c.kind == "meets" for c in rule.constraints)
            most = scorer.perfect(len(rule.body) + len(added))
            scored.append(replace(rule, score=score + rule.evidence * max(most - score, 0.0)))
        weighed: list[Rule] = []
        for rule in self.rank(scored):
            values = answers(self.kg, rule, SAMPLE)
            result = rule if has_gap(rule) else self._weigh(rule, values)
            if result is not None:
                self.values.setdefault(result.key, tuple(values))
                conditions = {c.kind for c in result.constraints} - {"distinct", "meets", "type"}
                is_whole = conditions or result.evidence >= SURE
                weighed += [result] if is_whole else self._apply_constraints([result])
        return sorted(weighed, key=lambda r: -r.score)

    def unlinked_topic(self) -> tuple[Token, str] | None:
        """Return the word that no relation around the topic says, and that is the name of one node."""
        (topic,), index = self.topics, self.kg.index
        near = [body for body, _ in self.bodies(topic) if len(body) == 1]
        for word in self.scorer(topic).unsaid(near) if index is not None else ():
            nodes = list(dict.fromkeys(e.iri for e in index.exact(word) if not e.alias)) if index else []
            if len(nodes) == 1 and not find_classes(self.kg, word):
                token = next(t for t in self.view.tokens if t.lower == word)
                return token, self._form(nodes[0])
        return None

    @cached_property
    def _constraints(self) -> Constraints:
        """What the question asks for besides chains."""
        return Constraints(self.kg, self.encoder, self.view)

    def _form(self, node: IRI) -> str:
        """Return a node as an argument."""
        return node_form(self.kg, self.kg.profile.short(node))

    def scorer(self, topic: str) -> Scorer:
        """Return the scorer for bodies that start at a topic."""
        if topic not in self._scorers:
            by_class = bool(self.classes) and self.view.determined
            self._scorers[topic] = Scorer(self.kg, self.encoder, self.view, topic, by_class)
        return self._scorers[topic]

    def bodies(self, topic: str) -> list[tuple[Body, float]]:
        """Return bodies from a topic with their scores, best first; at each hop the best `beam` grow on."""
        if topic not in self._bodies:
            scorer = self.scorer(topic)
            bodies: list[Body] = []
            frontier: list[Body] = [()]
            for _hop in range(self.settings.caps.hops):
                longer = grow(self.kg, topic, *frontier)
                bodies += longer
                partial = scorer.partial(longer)
                order = sorted(range(len(longer)), key=lambda i: (-partial[i], i))
                frontier = [longer[i] for i in order[: self.settings.beam]]
            scored = zip(bodies, scorer.scores(bodies), strict=True)
            self._bodies[topic] = sorted(scored, key=lambda pair: (-pair[1], len(pair[0])))
        return self._bodies[topic]

    def rank(self, rules: Sequence[Rule]) -> list[Rule]:
        """Return rules by their score, less what the topics they leave out cost."""
        ranked = []
        for rule in rules:
            used = {rule.anchor, *(v for c in rule.constraints for v in (c.value, c.operator))}
            cost = self._weights.end * sum(t not in used for t in self.topics)
            ranked.append(replace(rule, score=rule.score - cost))
        return sorted(ranked, key=lambda r: (-r.score, len(r.body) + len(r.constraints)))

    def _execute(self, rules: Sequence[Rule]) -> list[Rule]:
        """Run the best rules: those that find nothing are dropped, the others weighed by what they find."""

        def execute(rule: Rule) -> Rule | None:
            anchor = self.kg.profile.expand(rule.anchor)
            if self.kg.is_remote and self.classes and self.view.determined:  # `_weigh` asks for them
                asked = (rule, self._constraints.typed(rule, self.classes))
                self.kg.together([partial(run, self.kg, r, SAMPLE) for r in asked])
            result = run(self.kg, rule, SAMPLE)
            if (elsewhere := without_topic(self.kg, rule, result)) is not rule:
                if result.outcome is Outcome.TRUNCATED:
                    result = run(self.kg, elsewhere, SAMPLE)
                rule = elsewhere
            values = [v for v in answers_in(result) if v != anchor]
            if self.kg.is_remote:  # what is asked next of the values, and shown in the end
                nodes = [v for v in values if isinstance(v, IRI)]
                types = partial(types_of, self.kg, nodes[:FIT_SAMPLE])
                self.kg.together([types, partial(self.kg.labels, nodes)])
            if (weighed := self._weigh(rule, values)) is not None:
                self.values.setdefault(weighed.key, tuple(values))
            return weighed

        weighed = self.kg.together([partial(execute, rule) for rule in rules[:CHECKED]])
        return sorted(filter(None, weighed), key=lambda r: -r.score)

    def _weigh(self, rule: Rule, values: Sequence[Term]) -> Rule | None:
        """Return a rule with the fit of its values, narrowed to the class asked for; None if unsaid."""
        if not values:
            return self._drop(rule, NOWHERE)
        shown = rule.evidence >= SHOWN_BY_SEEDS
        if self.fit.contradicts(values) and not shown:
            kind = self.view.kind
            return self._drop(rule, f"what is asked for is a {kind}, and it leads to something else")
        named = bool(rule.body) and self.scorer(rule.anchor).names(rule.body)
        if self.classes and any(isinstance(v, IRI) for v in values) and not shown:
            typed = self._constraints.typed(rule, self.classes)
            inside = set(answers(self.kg, typed, SAMPLE))
            members = [v for v in values if v in inside]
            others = [v for v in values if v not in inside and isinstance(v, IRI)]
            if members and self.view.determined:
                values = [*members, *values]
                kinds = types_of(self.kg, others).values()
                if others and not any(map(self.fit.is_asked, kinds)):
                    rule = typed
                    self.values[rule.key] = tuple(members)
        fit = self.fit.of(values, named)
        fit += rule.evidence * (1 - fit)
        weights, scorer = self._weights, self.scorer(rule.anchor)
        chains = [rule.body, *(c.atoms for c in rule.constraints if c.atoms)]
        if rule.body and not self.view.constrained and not shown:
            left = list(filterfalse(partial(find_classes, self.kg), scorer.leaves_out(chains)))
            if left:
                words = ", ".join(map(repr, left))
                return self._drop(rule, f"it leaves out what the question says by {words}")
        score = rule.score + weights.end * fit
        support = scorer.support(rule.body) if rule.body else 1.0
        joined = [scorer.support(c.atoms) for c in rule.constraints if c.kind == "meets"]
        # A weak similarity is enough only where the values are exactly of the kind asked for: what the KG
        # does not hold shall end as not found, not as the next best relation.
        least = weights.unrelated if fit >= 1 else weights.spoken
        spoken = support >= least and all(other >= weights.unrelated for other in joined)
        if spoken or shown or rule.anchor not in self.topics or rule.provenance == IDENTITY:
            return replace(rule, score=score)
        if self.settings.guess:
            return replace(rule, score=score - FAR_BEHIND, provenance=GUESS)
        return self._drop(rule, UNSAID)

    def _drop(self, rule: Rule, reason: str) -> Rule | None:
        """Note why a rule is none; returns None."""
        self.dropped.append(dropped(rule, reason))
        return None

    def _apply_constraints(self, rules: Sequence[Rule]) -> list[Rule]:
        """Return rules with what the cues ask for (count, superlative, comparison)."""
        if not self.view.constrained:
            return list(rules)
        results: list[Rule] = []
        chosen = rules[: self.settings.rules]
        applied = self.kg.together([partial(self._constraints.apply, rule) for rule in chosen])
        for rule, longer in zip(chosen, applied, strict=True):
            if not longer:
                self._drop(rule, "its answers have nothing that could be compared or counted as asked")
            for result in longer:
                added = tuple(a for c in result.constraints[len(rule.constraints) :] for a in c.atoms)
                if added and result.body:  # a word serves one relation only
                    bodies = [result.body, (*result.body, *added)]
                    alone, together = self.scorer(result.anchor).partial(bodies)
                    result = replace(result, score=result.score + together - alone)
                results.append(result)
        return sorted(results, key=lambda r: (-r.score, len(r.body)))

    def _chains(self, topic: str, bodies: Sequence[tuple[Body, float]]) -> list[Rule]:
        """Return the best bodies of one topic as rules."""
        note = "fits the words of the question"
        best = bodies[:CHECKED]
        return [replace(ground(topic, body), score=score, provenance=note) for body, score in best]

    def _short(self, topic: str, hops: int = 2) -> list[Body]:
        """Return the best bodies of each length up to `hops`, at most two."""
        ranked = [body for body, _ in self.bodies(topic)]
        return [b for n in range(1, hops + 1) for b in [b for b in ranked if len(b) == n][:JOINED]]

    def reach(self, topic: str, body: Body) -> frozenset[Term]:
        """Return what a body reaches from a topic; run once."""
        key = (topic, body)
        if key not in self._reached:
            self._reached[key] = frozenset(answers(self.kg, ground(topic, body), VALUES))
        return self._reached[key]

    def _reach_all(self, chains: Iterable[tuple[str, Body]]) -> None:
        """Run bodies from topics together."""
        self.kg.together([partial(self.reach, topic, body) for topic, body in dict.fromkeys(chains)])

    @property
    def _excluded(self) -> str:
        """The topic behind a negation ("do not border Brazil"), "" if there is none."""
        view = self.view
        places = range(len(self.topics)) if view.negated >= 0 else ()
        behind = [i for i in places if view.mention_position(i) > view.negated]
        return self.topics[behind[0]] if 0 < len(behind) < len(self.topics) else ""

    def _of_two_topics(self) -> list[Rule]:
        """Return rules that use two topics: chains that meet, pass through the other topic, "or", "not"."""
        self.kg.together([partial(self.bodies, topic) for topic in self.topics])
        if self._excluded:
            return list(self._excluding(self._excluded))
        if self.view.joint == "or":
            return [] if self.view.comparative else self._either()
        topics = self.topics[:3]
        rules = [r for i, a in enumerate(topics) for b in topics[i + 1 :] for r in self._meeting(a, b)]
        rules += [r for t in topics for r in self._through(t)]
        return sorted(rules, key=lambda r: -r.score)[: 2 * CHECKED]

    def _crossing(self, first: str, second: str, hops: int) -> list[tuple[Body, Body]]:
        """Return pairs of short chains from two topics that reach some node in common."""
        pairs = [(a, b) for a in self._short(first) for b in self._short(second, hops)]
        self._reach_all(chain for a, b in pairs for chain in ((first, a), (second, b)))
        return [(a, b) for a, b in pairs if not self.reach(first, a).isdisjoint(self.reach(second, b))]

    def _meeting(self, first: str, second: str) -> Iterator[Rule]:
        """Return chains from two topics that end in the same nodes, scored as one body."""
        scorer, join = self.scorer(first), self._weights.join
        for left, right in self._crossing(first, second, 2):
            score = scorer.scores([(*right, *left)])[0] + join
            if signature(left) == signature(right):
                # One wording serves both chains ("both set in"): the shared relation is charged once.
                score = max(score, scorer.scores([left])[0] + 2 * join)
            rule = meeting(self.kg, first, left, second, signature(right))
            yield replace(rule, score=score, provenance="both entities lead to the same answers")

    def _through(self, topic: str) -> Iterator[Rule]:
        """Return chains of which an inner node is also reached from another topic by one relation."""
        best = [body for body, _ in self.bodies(topic)[: JOINED * 3]]
        places = [
            (body, at, other, link)
            for body in best
            for other in self.topics
            for at in range(1, len(body))
            for link in self._short(other, 1)[:4]
            if other != topic
        ]
        self._reach_all(c for body, at, other, link in places for c in ((topic, body[:at]), (other, link)))
        for body, at, other, link in places:
            if self.reach(topic, body[:at]).isdisjoint(self.reach(other, link)):
                continue
            atom = replace(link[0], variable=body[at - 1].variable)
            rule = constrained(ground(topic, body), Constraint("meets", atom.variable, (atom,), value=other))
            score = self.scorer(topic).scores([(*link, *body)])[0] + self._weights.join
            yield replace(rule, score=score, provenance="a step of the way is linked to the other entity")

    def _excluding(self, excluded: str) -> Iterator[Rule]:
        """Return answers of one topic that have no such relation to the excluded topic."""
        first = next(t for t in self.topics if t != excluded)
        for left, right in self._crossing(first, excluded, 1):
            answer = left[-1].variable
            atom = replace(right[0], variable=answer)
            rule = constrained(
                ground(first, left),
                Constraint("not", answer, (atom,), value=excluded),
                Constraint("distinct", answer, value=excluded),
            )
            score = self.scorer(first).scores([(*right, *left)])[0] + self._weights.join
            yield replace(
                rule, score=score, provenance="the answers of one entity without those of the other"
            )

    def _either(self) -> list[Rule]:
        """Return what one relation links to one topic or to the other."""
        first, second = self.topics[:2]
        others = {signature(b) for b, _ in self.bodies(second)}
        rules = []
        for body, score in self.bodies(first):
            if len(body) == 1 and signature(body) in others:
                union = Constraint("either", body[0].variable, body, operator=first, value=second)
                score += 2 * self._weights.join
                rules.append(Rule(first, (), (union,), score=score, provenance="linked to either entity"))
        return rules[:CHECKED]

    def _members(self) -> list[Rule]:
        """Return all members of the class that the question names, where it names nothing else."""
        free = not self.topics or self.view.constrained or self.view.existential
        if not free or self.view.unlinked:
            return []
        named = (find_classes(self.kg, word) for word, _ in self.view.words if not self.topics)
        nodes = self.classes or next((nodes for nodes in named if nodes), ())
        rules = []
        for node in nodes[:2]:
            entry = self.kg.index.node(node) if self.kg.index else None
            name = entry.label if entry else "class"
            type_ = self.kg.profile.short(IRI(self.kg.profile.type_predicates[0]))
            atom = replace(make_atom(self.kg, type_, False, ()), variable=slug(name) or "x")
            rule = ground(self._form(node), (atom,))
            note = f"all members of the class {name}"
            rules.append(replace(rule, provenance=note, score=self._weights.hint))
        return rules

    def _identity(self) -> list[Rule]:
        """Return the classes of the topic where the question asks who or what it is, and no more."""
        types = self.kg.profile.type_predicates[:1] if self.view.identity else ()
        bodies = [(make_atom(self.kg, self.kg.profile.short(IRI(t)), True, ()),) for t in types]
        rules = [ground(topic, body) for topic in self.topics[:1] for body in bodies]
        return [replace(rule, provenance=IDENTITY, score=self._weights.hint) for rule in rules]

    def _described(self) -> list[Rule]:
        """Return rules from what a class and a literal describe ("the element with the symbol Cd")."""
        words = [t for t in self.view.tokens if t.lower not in lexicon()["stopwords"]]
        profile = self.kg.profile
        if self.topics or not profile.type_predicates:
            return []
        classes = dict.fromkeys((*self.classes, *(c for t in words for c in find_classes(self.kg, t.lower))))
        forms = list[str]()  # the literals that a word may be, as SPARQL writes them
        for word in words:
            if (number := lexicon()["numbers"].get(word.lower, word.text)).isdigit():
                types = ("integer", "decimal", "int", "gYear", "string")
                forms += [f'"{number}"^^<{XSD}{t}>' for t in types]
            else:
                forms += [literal(word.text).n3(), literal(word.text, profile.language).n3()]
        type_, note, rules = IRI(profile.type_predicates[0]), "what a literal of it describes", list[Rule]()
        for class_ in list(classes)[:2] if forms else ():
            held = f"?s {type_.n3()} {class_.n3()} ; ?r ?v . VALUES ?v {{ {' '.join(forms)} }}"
            described = f"SELECT ?r ?v (SAMPLE(?s) AS ?x) WHERE {{ {held} }} GROUP BY ?r ?v"
            for relation, value, one in self.kg.query(described, limit=SAMPLE).rows:
                if (
                    value is None
                    or one is None
                    or not isinstance(relation, IRI)
                    or profile.excludes(relation)
                ):
                    continue
                form, topic = self._form(class_), node_form(self.kg, profile.short(one))
                is_member = make_atom(self.kg, profile.short(type_), False, ("x",))
                atom = make_atom(self.kg, profile.short(relation), True, (is_member.variable,))
                if self.scorer(form).table((atom,)).max(initial=0.0) < self._weights.spoken:
                    continue
                equal = Constraint("filter", is_member.variable, (atom,), "=", write_value(value, profile))
                rule, scorer = constrained(ground(form, (is_member,)), equal), self.scorer(topic)
                rules.append(replace(rule, score=scorer.scores([(atom,)])[0], provenance=note))
                for body in (b for b in self._short(topic) if b[0].relation != atom.relation):
                    longer = rename(self.kg, signature(body), (is_member.variable, atom.variable))
                    score = scorer.scores([(atom, *body)])[0]
                    rules.append(replace(rule, body=(is_member, *longer), score=score, provenance=note))
        return rules

    def boolean(self) -> list[Rule]:
        """Return what is to be checked: a comparison, a relation of two topics, membership, a fact.

        The answer is no where the graph has another fact in the place of the one asked about, or denies it.
        Where it has none there is no rule: that is not known. `ask` stands before a filter: that nothing is
        left is then an answer, and no mistake.
        """
        view, topics = self.view, self.topics
        if view.existential:
            return self._existing()
        if not topics:
            return []
        if view.comparative and len(topics) > 1:
            return self._compared(Rule(topics[0], ()), topics[1])
        if view.comparisons:
            return self._own_quantity(topics[0])
        if len(topics) > 1:
            return self._linked_pair()
        members = self._is_member(topics[0])
        if members or view.unlinked:
            # With an unknown name in the question, that a relation exists proves nothing about the two.
            return members
        chains = self._execute(self._chains(topics[0], self.bodies(topics[0])))
        return [checked for rule in chains if (checked := self._stated(rule)) is not None]

    def is_named(self) -> bool:
        """Return whether the name of a relation stands in full before a mention ("named after Poland")."""
        near = [body[0].relation for body, _ in self.bodies(self.topics[0]) if len(body) == 1]
        texts, question = relation_texts(self.kg, near).values(), f" {self.view.masked} "
        return any(f" {text.label} {MENTION} " in question for text in texts)

    def _stated(self, rule: Rule) -> Rule | None:
        """Return the check of what a topic's own values say: truth, a number, or that there are any."""
        ask, answer, numbers = Constraint("ask"), rule.answer, self.view.numbers
        values = self.values.get(rule.key) or answers(self.kg, rule, SAMPLE)
        if unsaid := self.scorer(rule.anchor).unsaid([rule.body]):
            return self._drop(rule, f"it does not say {', '.join(map(repr, unsaid))}")
        if values and all(isinstance(v, Literal) and v.datatype == XSD + "boolean" for v in values):
            return constrained(rule, ask, Constraint("filter", answer, (), "=", "true"))
        if len(numbers) == 1 and values and all(map(is_number, values)):
            return constrained(rule, ask, Constraint("filter", answer, (), "=", numbers[0]))
        if len(numbers) == 1 and values and all(map(is_date, values)):
            year = [Comparison(operator, numbers[0], True) for operator in (">=", "<=")]
            bounds = [Constraint("filter", answer, (), c.operator, comparison_value(c)) for c in year]
            return constrained(rule, ask, *bounds)
        if numbers or (self.view.copula and all(map(is_comparable, values))):
            return self._drop(rule, "its values say neither yes nor no to what is asked")
        return constrained(rule, ask)

    def _existing(self) -> list[Rule]:
        """Is there any such member of a class? As for "which ...", and with what is more than another's."""
        view, members = self.view, self._members()
        if not view.comparative:
            rules = [r for r in self.rules() if not self._leaves_words_out(r)]
            return [replace(r, constraints=(Constraint("ask"), *r.constraints)) for r in rules]
        others = list(self.topics[:1])
        if not others and view.superlative is not None and members:
            greatest = [v for r in self._constraints.apply(members[0])[:1] for v in answers(self.kg, r, 1)]
            others = [self._form(v) for v in greatest if isinstance(v, IRI)]
        return [rule for base in members[:1] for other in others for rule in self._compared(base, other)]

    def _leaves_words_out(self, rule: Rule) -> bool:
        """Return whether a content word became no relation of a rule, nor its class."""
        chains = [rule.body, *(c.atoms for c in rule.constraints if c.atoms)]
        unsaid = self.scorer(rule.anchor).unsaid(chains)
        return bool(self.view.numbers) or any(not find_classes(self.kg, word) for word in unsaid)

    def _is_member(self, topic: str) -> list[Rule]:
        """Is the topic a member of the class named ("Is Mars a planet?"), or of one below it?"""
        kg, profile, name = self.kg, self.kg.profile, " ".join(w for w, _ in self.view.words)
        if not self.view.copula or not (nodes := find_classes(kg, name)):
            return []
        value, note = self._form(nodes[0]), "the class the question names"
        body: Body = (make_atom(kg, profile.short(IRI(profile.type_predicates[0])), True, ()),)
        holds = Constraint("holds", topic, body, value=value)
        rule = Rule(topic, (), (Constraint("ask"), holds), score=1.0, provenance=note)
        kinds = self.reach(topic, body)
        if not kinds:
            self._drop(rule, "the graph does not say what it is")
            return []
        for predicate in profile.subclass_predicates[:1] * CLASS_DEPTH if nodes[0] not in kinds else ():
            taken = [a.variable for a in body]
            body = (*body, make_atom(kg, profile.short(IRI(predicate)), True, taken))
            if nodes[0] in self.reach(topic, body):
                equal = Constraint("filter", body[-1].variable, (), "=", value)
                longer = constrained(ground(topic, body), Constraint("ask"), equal)
                return [replace(longer, score=1.0, provenance=note)]
        return [rule]

    def _linked_pair(self) -> list[Rule]:
        """Does the relation that the question names hold between the two topics?

        The relation is chosen by the words among all around both topics, whether or not it links them: where
        the best one does not, but links the subject to others, the answer is no.
        """
        first, second = self.topics[:2]
        self.kg.together([partial(self.bodies, topic) for topic in (first, second)])
        self._reach_all((start, b) for start in (first, second) for b, _ in self.bodies(start)[: 2 * JOINED])
        note, rules = "the relation the question names", []
        for start, end in ((first, second), (second, first)):
            target = self.kg.profile.expand(end)
            ways = {signature(body) for body, _ in self.bodies(end) if len(body) == 1}
            for place, (body, score) in enumerate(self.bodies(start)):
                # Without a word for it, the relation is the one that leads to the other from elsewhere.
                forward = len(body) == 1 and body[0].forward
                implied = forward and not self.view.words and ((body[0].relation, False),) in ways
                if place >= JOINED * 2 and not implied:
                    continue
                linked = is_found = target in self.reach(start, body)
                if len(body) == 1 and self._is_reversed(start, body[0]):
                    body = (replace(body[0], forward=not body[0].forward),)
                    linked = target in self.reach(start, body)
                if len(body) == 1:
                    holds = Constraint("holds", start, body, value=end)
                    rule = Rule(start, (), (Constraint("ask"), holds))
                elif linked and self.scorer(start).support(body) >= self._weights.unrelated:
                    # A longer body is only worth asking where it holds: many absent ones would fit the words.
                    equal = Constraint("filter", body[-1].variable, (), "=", end)
                    rule = constrained(ground(start, body), Constraint("ask"), equal)
                else:
                    continue
                if not linked and not implied and self.scorer(start).support(body) < self._weights.spoken:
                    self._drop(rule, UNSAID)
                elif not linked and not (body[0].forward or ((body[0].relation, True),) in ways):
                    self._drop(rule, "the graph has no such fact of what is asked about, for or against it")
                else:
                    score += self._weights.join * is_found
                    rules.append(replace(rule, score=score, provenance=note))
        return sorted(rules, key=lambda r: (-r.score, len(r.body)))[: self.settings.rules]

    def _is_reversed(self, start: str, atom: Atom) -> bool:
        """Return whether the words ask for a relation of two topics the other way round."""
        text = relation_texts(self.kg, [atom.relation])[atom.relation]
        subjects = (self.view.subject(name) for name in (text.label, *text.aliases))
        subject = next((s for s in subjects if s >= 0), -1)
        iri = self.kg.profile.expand(atom.relation, relation=True)
        if subject < 0 or iri is None or (start == self.topics[subject]) == atom.forward:
            return False
        return not is_mutual(self.kg, iri)

    def _own_quantity(self, topic: str) -> list[Rule]:
        """A topic's own number or date, compared with the one in the question."""
        comparison = self.view.comparisons[0]
        test, value = is_date if comparison.is_date else is_number, comparison_value(comparison)
        rules: list[Rule] = []
        for body, score in self.bodies(topic):
            if len(body) > 2 or len(rules) >= 3:
                continue
            ends = self.reach(topic, body)
            if ends and all(map(test, ends)):
                check = Constraint("filter", body[-1].variable, (), comparison.operator, value)
                rule = constrained(ground(topic, body), Constraint("ask"), check)
                rules.append(replace(rule, score=score, provenance="the quantity the question compares"))
        return rules

    def _compared(self, base: Rule, other: str) -> list[Rule]:
        """Compare a topic, or what a rule leads to, with another topic by a quantity that both have."""
        operator, *names = self.view.comparative
        rules: list[Rule] = []
        measured = self._constraints.quantities(base, names, is_comparable, len(names))
        for atom, similarity in measured[:2]:
            twin = Atom(atom.relation, True, f"{atom.variable}_2")
            if not self.reach(other, (twin,)):
                if similarity >= self._weights.spoken:
                    break  # the quantity that is meant, and not known
                continue
            # The second chain shares no node with the first: it only binds what is compared with.
            side = Constraint("meets", twin.variable, (twin,), value=other)
            check = Constraint("filter", atom.variable, (), operator, f"?{twin.variable}")
            chain = ground(base.anchor, (*base.body, atom))
            rule = constrained(chain, side, Constraint("ask"), check)
            rules.append(replace(rule, score=similarity, provenance="both have the quantity compared"))
        return rules
