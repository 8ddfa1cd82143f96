"""A run as a person reads it: each phase as it happens, then answer, query, proof and cost; ids as labels."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triplewise.nodes.state import Answer, ProofTriple, Step, Usage
from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg import IRI, KnowledgeGraph, readable, readable_text
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.reading.entity_names import MINTED

if TYPE_CHECKING:
    from triplewise.nodes.state import ScoredTriple, Step, Verdict
    from triplewise.tools.actions import Toolset
    from triplewise.tools.core.call import Feedback
    from triplewise.tools.core.rules import DroppedRule, Rule
    from triplewise.tools.linking.linker import LinkedEntity

ID_STYLE = "dim"


def tag_of(short: str) -> str:
    """What stands behind a label: its id, or that the graph has no such node."""
    return f" ({'not in the graph' if MINTED in short else short})"


class Names:
    """Short ids to labels. What has no label reads as its id."""

    def __init__(self, kg: KnowledgeGraph, toolset: Toolset) -> None:
        self.kg, self.toolset = kg, toolset
        self.known: dict[str, str] = {}

    def learn(self, nodes: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        """Fetch the labels of ids not seen yet: one query for nodes, one for relations."""
        new = [r for r in dict.fromkeys(relations) if r not in self.known]
        self.known |= {r: text.label or r for r, text in relation_texts(self.kg, new).items()}
        iris = {n: self.kg.profile.expand(n) for n in dict.fromkeys(nodes) if n not in self.known}
        found = self.kg.labels([iri for iri in iris.values() if iri is not None])
        self.known |= {n: found.get(iri, n) if iri else n for n, iri in iris.items()}

    def learn_rules(self, rules: Iterable[Rule]) -> None:
        """Learn what rules mention."""
        nodes, relations = [], []
        for rule in rules:
            named = (n for c in rule.constraints for n in (c.variable, c.operator, c.value))
            nodes += [rule.anchor, *(n for n in named if n)]
            relations += [a.relation for a in (*rule.body, *(a for c in rule.constraints for a in c.atoms))]
        self.learn(nodes, relations)

    def learn_step(self, step: Step) -> None:
        """Learn what a step mentions."""
        feedback = step.feedback
        for fact in feedback.facts:
            self.known |= {self.kg.profile.short(IRI(node)): name for node, name in fact.labels.items()}
        nodes = [i for ids in feedback.ids.values() for i in ids] + list(feedback.answers)
        relations = [r for side in feedback.relations.values() for r in side]
        action = self.toolset.actions.get(feedback.action)
        for parameter, argument in zip(action.parameters if action else (), feedback.arguments, strict=False):
            if parameter.kind == "relation":
                relations.append(argument)
            elif parameter.kind in ("node", "entity", "value") and not argument.startswith("?"):
                nodes.append(argument)
        self.learn(nodes, relations)

    def learn_triples(self, triples: Iterable[Triple]) -> None:
        """Learn what facts mention."""
        triples, short = list(triples), self.kg.profile.short
        nodes = [short(n) for t in triples for n in (t.subject, t.object) if isinstance(n, IRI)]
        self.learn(nodes, [short(t.relation) for t in triples])

    def label(self, short: str) -> str:
        """The label of an id, or the id."""
        return self.known.get(short, short)

    def tagged(self, short: str) -> Text:
        """The label with the id behind it, dim and in brackets; only the id where it has no label."""
        label = self.label(short)
        return Text(label) if label == short else Text.assemble(label, (tag_of(short), ID_STYLE))

    def term(self, term: Term) -> Text:
        """A node of a fact, tagged; a literal as people read it."""
        return self.tagged(self.kg.profile.short(term)) if isinstance(term, IRI) else Text(readable(term))

    def readable(self, text: str, tag: bool = False) -> Text:
        """Text with every known id in it replaced by its label, tagged if asked."""
        result, end = Text(), 0
        for match in self._pattern(self.known).finditer(text):
            result.append(text[end : match.start()])
            short = match.group()
            if text[: match.start()].endswith(f"{self.known[short]} [") and text.startswith("]", match.end()):
                # `Bram Stoker [Q36184]`: the label stands there already.
                result.right_crop(2)
                result.append(f" ({short})" if tag else "", ID_STYLE)
                end = match.end() + 1
                continue
            # An id that the text itself explains already, as in `P36 (capital)`, is only turned round.
            explained = f" ({self.known[short]})"
            end = match.end()
            if text.startswith(explained, end):
                end += len(explained)
            result.append_text(self.tagged(short) if tag else Text(self.known[short]))
        return result.append(text[end:])

    @staticmethod
    def _pattern(known: Mapping[str, Any]) -> re.Pattern[str]:
        """Finds known ids that could not be taken for words, the longest first."""
        ids = sorted(
            (i for i, label in known.items() if label != i and not i.isalpha()), key=len, reverse=True
        )
        return re.compile(rf"(?<![\w:/?.])(?:{'|'.join(map(re.escape, ids)) or '(?!)'})(?![\w:/])")


RULES, VALUES, PROOF, NAMES, LENGTH = 3, 30, 20, 8, 400
"""Most rules, answers, facts of the proof, names in a list, and characters of an observation printed."""

HEAD, GOOD, BAD, QUIET = "bold", "bold green", "bold red", "dim"
MARGIN = 9


class Report:
    """Prints the updates of a run, phase by phase."""

    def __init__(self, console: Console, names: Names) -> None:
        self.console, self.names = console, names
        self._phases = {
            "link": self._link,
            "plan": self._plan,
            "observe": self._observe,
            "act": self._act,
            "correct": self._correct,
            "reflect": self._reflect,
        }
        self._verdict: Verdict | None = None

    def phase(self, name: str, update: Mapping[str, Any]) -> None:
        """Print what one phase did."""
        self._verdict = update.get("verdict") or self._verdict
        if name in self._phases:
            self._phases[name](update)

    def row(self, head: str, body: Text | str, style: str = HEAD) -> None:
        """A line with its heading in the margin; what is too long goes on under itself."""
        body = Text(body) if isinstance(body, str) else body
        lines = body.wrap(self.console, max(self.console.width - MARGIN, MARGIN), overflow="fold")
        for number, line in enumerate(lines):
            line.rstrip()
            margin = f"{head if number == 0 else '':<{MARGIN}}"
            self.console.print(Text.assemble((margin, style), line), soft_wrap=True)

    def question(self, question: str) -> None:
        """The question."""
        self.row("Question", question)

    def _link(self, update: Mapping[str, Any]) -> None:
        linked: Sequence[LinkedEntity] = update.get("linked", ())
        self.names.known |= {e.id: e.label or e.id for e in linked}
        heads = itertools.chain(["Entities"], itertools.repeat(""))
        for head, entity in zip(heads, linked, strict=False):
            self.row(head, Text.assemble(entity.mention, (" is ", QUIET), self.names.tagged(entity.id)))
        if not linked and self.names.toolset.name != "sql":
            self.row("Entities", Text("none found in the question", QUIET))

    def _plan(self, update: Mapping[str, Any]) -> None:
        rules: Sequence[Rule] = update.get("rules", ())
        self.names.learn_rules(rules[:RULES])
        for number, rule in enumerate(rules[:RULES], 1):
            self.row("Plan" if number == 1 else "", rule_text(self.names, rule, f"{number}. "))
        if len(rules) > RULES:
            self.row("", Text(f"and {len(rules) - RULES} more; `triplewise plan` shows all", QUIET))
        self._dropped(update.get("dropped", ()), told=bool(rules))

    def _dropped(self, left: Sequence[DroppedRule], told: bool) -> None:
        """How many rules were dropped; where none is left, why the first ones were."""
        for rule in () if told else left[:RULES]:
            self.names.learn([rule.anchor] if rule.anchor else (), rule.relations)
            text = Text("dropped ").append_text(self.names.readable(f"{rule.text}: {rule.reason}"))
            self.row("", text, QUIET)
        if told and left:
            self.row("", Text(f"{len(left)} dropped; `triplewise plan` says why", QUIET))

    def _observe(self, update: Mapping[str, Any]) -> None:
        observation: Sequence[ScoredTriple] = update.get("observation", ())
        around = list(update.get("observed", ()))
        if not observation or not around:
            return
        self.names.learn(around[:NAMES])
        body = Text(f"{len(observation)} facts around ").append_text(self._list(around))
        self.row("Observe", body.append(", scored by likeness to the question"), QUIET)

    def _act(self, update: Mapping[str, Any]) -> None:
        steps: Sequence[Step] = update.get("steps", ())
        if steps:
            self.step(steps[-1])

    def step(self, step: Step) -> None:
        """One step: thought, action, observation."""
        self.names.learn_step(step)
        self.console.print()
        self.row(f"Step {step.number}", self.names.readable(step.thought))
        self.row("", Text.assemble(("> ", "cyan"), self.names.readable(step.call, tag=True)))
        for line in self._observation(step.feedback, step.observation):
            self.row("", line)

    def _observation(self, feedback: Feedback, observation: str) -> list[Text]:
        """What the environment said, a line each for relations, values, or whatever else it was."""
        if feedback.outcome and feedback.outcome not in ("rows", "empty"):
            return [Text(f"{feedback.outcome}: {feedback.message or observation}"[:LENGTH], "yellow")]
        sides = {"forward": "leaving: ", "backward": "arriving: "}
        lines = [
            Text.assemble((sides.get(side, f"{side}: "), QUIET), self._list(ids))
            for side, ids in feedback.relations.items()
            if ids
        ]
        mark = "" if self.names.toolset.name in ("sql", "agentbench") else "?"
        for variable, labels in feedback.values.items():
            shown = _shortened([readable_text(label) for label in labels])
            cut = ", ..." if labels and f"{labels[-1]!r}, ...]" in observation else ""
            lines.append(Text.assemble((f"{mark}{variable}: ", QUIET), shown, cut))
        if lines or not observation:
            return lines
        self.names.learn_triples(feedback.triples[:NAMES])
        text = observation if len(observation) <= LENGTH else observation[:LENGTH].rstrip() + " ..."
        return [self.names.readable(text)]

    def _correct(self, update: Mapping[str, Any]) -> None:
        corrections = update.get("corrections", ())
        if corrections:
            c = corrections[-1]
            told = self.names.readable(c.text.removeprefix("ERROR_INFO: "))
            where = f"{c.guideline} ({c.source})" if c.source else c.guideline
            self.row("", Text.assemble(("corrected by guideline ", BAD), (where, BAD), ": ", told))
            self.row("", Text("The step is undone.", QUIET))

    def _reflect(self, update: Mapping[str, Any]) -> None:
        if self._verdict is not None and self._verdict.note:
            self.row("", Text.assemble(("note: ", "yellow"), self.names.readable(self._verdict.note)))

    def _list(self, ids: Sequence[str]) -> Text:
        """Labels of the first few ids."""
        return Text(_shortened([self.names.label(i) for i in ids]))

    def answer(self, answer: Answer) -> None:
        """Everything the run came to."""
        self.console.print()
        self._values(answer)
        self._query(answer.sparql or answer.sql, "SPARQL" if answer.sparql else "SQL")
        self._proof(answer.proof)
        self._rows(answer.rows)
        self._corrections(answer)
        self.row("Cost", Text(cost(answer.usage), QUIET))

    def _values(self, answer: Answer) -> None:
        """The answer itself, or why there is none."""
        if not answer.values:
            self.row("Answer", Text("none", BAD))
        shown = list(zip(answer.values, answer.labels, strict=True))[:VALUES]
        if answer.labels in (("true",), ("false",)):
            word = "Yes" if answer.labels == ("true",) else "No"
            shown = [(word, word)]
        for number, (value, label) in enumerate(shown):
            tag = "" if label == value else tag_of(value)
            self.row("Answer" if number == 0 else "", Text.assemble((label, GOOD), (tag, ID_STYLE)))
        if len(answer.values) > VALUES:
            self.row("", Text(f"and {len(answer.values) - VALUES:,} more; --json or -q give all", QUIET))
        if answer.reason:
            self.row("Why", f"{answer.reason}.")

    def _query(self, query: str, language: str) -> None:
        """The query, coloured, never broken: it is there to be copied."""
        if query:
            from rich.syntax import Syntax

            code = Syntax("", language.lower(), theme="ansi_dark", background_color="default").highlight(
                query.strip()
            )
            code.rstrip()
            self._block(language)
            for line in code.split("\n"):
                self.console.print(Text("  ").append_text(line), soft_wrap=True)

    def _proof(self, proof: Sequence[ProofTriple]) -> None:
        """The facts that prove the answer."""
        if not proof:
            return
        shown = proof[:PROOF]
        self.names.learn_triples(p.triple for p in shown)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
        for _ in range(3):
            table.add_column(overflow="fold")
        for p in shown:
            relation = self.names.tagged(self.names.kg.profile.short(p.triple.relation))
            table.add_row(self.names.term(p.triple.subject), relation, self.names.term(p.triple.object))
        self._block("Proof")
        self.console.print(Padding(table, (0, 0, 0, 2)))
        for p in (p for p in shown if p.fact):
            said = Text(f"  read in {p.document}: ", QUIET).append(f'"{p.sentence}"')
            self.console.print(said.append(f"  [fact {p.fact[:8]}]", QUIET), soft_wrap=True)
        if count := sum(bool(p.fact) for p in proof):
            told = f"  {count} of {len(proof)} from documents, not from the graph; see `triplewise facts`"
            self.console.print(Text(told, "yellow"))
        if len(proof) > PROOF:
            self.console.print(Text(f"  and {len(proof) - PROOF} more facts; --json gives all", QUIET))

    def _rows(self, rows: Sequence[str]) -> None:
        """The rows of a database that prove the answer."""
        if rows:
            self._block("Proof")
        for row in rows[:PROOF]:
            self.console.print(Text(f"  {row}"), soft_wrap=True)

    def _corrections(self, answer: Answer) -> None:
        """What was caught on the way."""
        self._block("Corrected")
        if not answer.corrections:
            self.console.print(Text("  nothing: no step went wrong", QUIET))
        for c in answer.corrections:
            line = Text(f"  step {c.step}: ").append_text(self.names.readable(c.call))
            self.console.print(line.append(f" by {c.guideline}", QUIET))
            for fix in c.fixes:
                offered = Text("    offered ", QUIET).append_text(self.names.readable(fix))
                self.console.print(offered)
        self.console.print()

    def _block(self, head: str) -> None:
        """A heading above a block."""
        self.console.print()
        self.console.print(Text(head, HEAD))


def rule_text(names: Names, rule: Rule, head: str = "") -> Text:
    """A rule with labels and where it comes from."""
    text = Text(head).append_text(names.readable(rule.text()))
    return text.append(f"  [{provenance(rule)}]", QUIET)


def provenance(rule: Rule) -> str:
    """Where a rule comes from, with its figures."""
    figures = f"support {rule.support}, precision {rule.precision:.2f}, recall {rule.recall:.2f}"
    return "; ".join(
        p for p in (rule.provenance, figures if rule.support else f"score {rule.score:.2f}") if p
    )


def cost(usage: Usage) -> str:
    """What a run used, in one line."""
    parts = [
        _count(usage.queries, "query", "queries"),
        _count(usage.calls, "model call", "model calls"),
    ]
    if usage.calls:
        money = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
        parts += [f"{'about ' if usage.estimated else ''}{usage.tokens:,} tokens", money]
    if usage.hallucinated:
        parts.append(f"{_count(usage.hallucinated, 'invented fact', 'invented facts')} dropped")
    return ", ".join([*parts, f"{usage.seconds:.1f} s"])


def _count(number: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many}"


def _shortened(labels: Sequence[str]) -> str:
    """The first few of a list."""
    rest = len(labels) - NAMES
    return ", ".join(labels[:NAMES]) + (f" and {rest} more" if rest > 0 else "")
