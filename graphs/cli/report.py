"""A run as a person reads it: each phase as it happens, then answer, query, proof and cost; ids as labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from triplewise.graphs.console import columns, pairs
from triplewise.nodes.state import Answer, ProofTriple, Step, Usage
from triplewise.tools.actions import DATABASE_TOOLSETS
from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.extraction.entity_names import MINTED
from triplewise.tools.kg import IRI, KnowledgeGraph, readable, readable_text
from triplewise.tools.kg.vocabulary import relation_texts

if TYPE_CHECKING:
    from triplewise.graphs.around import Held
    from triplewise.nodes.state import Verdict
    from triplewise.tools.actions import Toolset
    from triplewise.tools.core.rules import DroppedRule, Rule
    from triplewise.tools.linking.linker import LinkedEntity
    from triplewise.tools.parsing.reading import Reading

RULES, VALUES, PROOF, SHORT_PROOF, NAMES, LENGTH = 3, 30, 20, 6, 8, 400
"""Most rules, answers, facts of the proof (and in the short form), names in a list, and characters of an
observation printed."""
MARGIN = 9
HEAD, GOOD, DOUBTFUL, BAD, QUIET = "bold", "bold green", "bold yellow", "bold red", "dim"


class Labels:
    """Short ids to labels. What has no label reads as its id."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self.kg = kg
        self.labels: dict[str, str] = {}

    def fetch(self, nodes: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        """Fetch the labels of ids not seen yet: one query for nodes, one for relations."""
        new = [r for r in dict.fromkeys(relations) if r not in self.labels]
        self.labels |= {r: text.label or r for r, text in relation_texts(self.kg, new).items()}
        iris = {n: self.kg.profile.expand(n) for n in dict.fromkeys(nodes) if n not in self.labels}
        labels = self.kg.labels([iri for iri in iris.values() if iri is not None])
        self.labels |= {n: labels.get(iri, n) if iri else n for n, iri in iris.items()}

    def fetch_rules(self, rules: Iterable[Rule]) -> None:
        """Fetch the labels of what rules mention."""
        rules = list(rules)
        self.fetch([rule.anchor for rule in rules], [r for rule in rules for r in rule.relations])

    def fetch_triples(self, triples: Sequence[Triple]) -> None:
        """Fetch the labels of what facts mention."""
        short = self.kg.profile.short
        nodes = [short(n) for t in triples for n in (t.subject, t.object) if isinstance(n, IRI)]
        self.fetch(nodes, [short(t.relation) for t in triples])

    def tagged(self, short: str, label: str = "", style: str = "") -> Text:
        """Return the label with the id behind it, or with that the graph has no such node; an id once."""
        label = label or self.labels.get(short, short)
        tag = (
            ""
            if label.replace(",", "") == short
            else f" ({'not in the graph' if MINTED in short else short})"
        )
        return Text.assemble((label, style), (tag, QUIET))

    def term(self, term: Term) -> Text:
        """Return a term of a fact, tagged; a literal as people read it."""
        return self.tagged(self.kg.profile.short(term)) if isinstance(term, IRI) else Text(readable(term))

    def list(self, ids: Sequence[str]) -> Text:
        """Return the labels of the first few ids."""
        return Text(_first([self.labels.get(i, i) for i in ids]))

    def replace(self, text: str, tag: bool = False) -> Text:
        """Return text with every id in it that has a label replaced by the label, tagged if asked."""
        # Ids that could be taken for words stay, except in rules; the longest are looked for first.
        ids = sorted((i for i, label in self.labels.items() if label != i), key=len, reverse=True)
        names = "|".join(rf"(?<=-\[){i}(?=\]-)" if i.isalpha() else re.escape(i) for i in ids) or "(?!)"
        result, end = Text(), 0
        for match in re.finditer(rf"(?<![\w:/?.])(?:{names})(?![\w:/])", text):
            short, label = match.group(), self.labels[match.group()]
            result.append(text[end : match.start()])
            end = match.end()
            if text[: match.start()].endswith(f"{label} [") and text.startswith("]", end):
                # `Bram Stoker [Q36184]`: the label stands there already.
                result.right_crop(2)
                result.append(f" ({short})" if tag else "", QUIET)
                end += 1
                continue
            if text.startswith(f" ({label})", end):
                # `P36 (capital)`: the text itself explains the id already.
                end += len(label) + 3
            result.append_text(self.tagged(short) if tag else Text(label))
        return result.append(text[end:])


def _first(texts: Sequence[str]) -> str:
    """Return the first few of a list, and how many more there are."""
    rest = len(texts) - NAMES
    return ", ".join(texts[:NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


class Report:
    """Prints the updates of a run, phase by phase, and its answer.

    Args:
        verbose: print corrections and cost with the answer.
    """

    def __init__(self, console: Console, kg: KnowledgeGraph, toolset: Toolset, verbose: bool = True) -> None:
        self.console, self.toolset, self.labels, self._verbose = console, toolset, Labels(kg), verbose
        self._verdict: Verdict | None = None
        self._in_line = False

    @contextmanager
    def whole_lines(self) -> Iterator[None]:
        """End the line that a model was writing, whatever ends the run."""
        try:
            yield
        finally:
            self._end_line()

    def _end_line(self) -> None:
        if self._in_line:
            self.console.print()
            self._in_line = False

    def token(self, text: str) -> None:
        """Print a piece of what a model writes, as it comes."""
        shown = "".join(c for c in text if c.isprintable() or c == "\n")
        self.console.print(Text(shown, QUIET), end="", soft_wrap=True)
        self._in_line = True

    def row(self, head: str, *bodies: Text | str, style: str = HEAD) -> None:
        """Print lines with a heading in the margin; what is too long goes on under itself."""
        for body in bodies:
            text = Text(body) if isinstance(body, str) else body
            for line in text.wrap(self.console, max(self.console.width - MARGIN, MARGIN), overflow="fold"):
                line.rstrip()
                self.console.print(Text.assemble((f"{head:<{MARGIN}}", style), line), soft_wrap=True)
                head = ""

    def _lines(self, head: str, lines: Iterable[Text]) -> None:
        """Print a heading with lines under it, which are never broken: they are there to be copied."""
        self.console.print()
        self.console.print(Text(head, HEAD))
        for line in lines:
            self.console.print(line, soft_wrap=True)

    def phase(self, name: str, update: Mapping[str, Any]) -> None:
        """Print what one phase did."""
        self._end_line()
        self._verdict = update.get("verdict") or self._verdict
        if name == "link":
            self._linked(update.get("linked", ()))
        elif name == "plan":
            self._planned(update)
        elif name == "observe" and update.get("observation") and update.get("observed"):
            around = list(update["observed"])
            self.labels.fetch(around[:NAMES])
            count = f"{len(update['observation']):,} facts around "
            body = Text(count).append_text(self.labels.list(around))
            self.row("Observe", body.append(", scored by similarity to the question"), style=QUIET)
        elif name == "act" and update.get("steps"):
            self.step(update["steps"][-1])
        elif name == "correct" and update.get("corrections"):
            c = update["corrections"][-1]
            why = self.labels.replace(c.reason or "a step in doubt")
            by = f"corrected by guideline {c.guideline}{f' ({c.source})' if c.source else ''}"
            self.row("", Text.assemble((by, BAD), ": ", why), Text("The step is undone.", QUIET))
        elif name == "inspect" and (verdict := self._verdict) and verdict.note and verdict.status != "spent":
            self.row("", Text.assemble(("note: ", "yellow"), self.labels.replace(verdict.reason)))

    def _linked(self, linked: Sequence[LinkedEntity]) -> None:
        self.labels.labels |= {e.id: e.label or e.id for e in linked}
        texts = [Text.assemble(e.mention, (" is ", QUIET), self.labels.tagged(e.id)) for e in linked]
        if not linked and self.toolset.name not in DATABASE_TOOLSETS:
            texts = [Text("none found in the question", QUIET)]
        self.row("Entities", *texts)

    def _planned(self, update: Mapping[str, Any]) -> None:
        rules, dropped, rest = (
            update.get("rules", ()),
            update.get("dropped", ()),
            "`triplewise plan` shows all",
        )
        self.row("Plan", *self.readings(update.get("readings", ()), RULES, rest))
        self.row("Rules", *self.rules(rules, RULES, rest))
        if rules and dropped:
            self.row("", Text(f"{len(dropped)} dropped; `triplewise plan` says why", QUIET))
        elif dropped:
            self.row("Dropped", *self.dropped_rules(dropped, RULES, "`triplewise plan` shows more"))

    def readings(self, readings: Sequence[Reading], most: int, rest: str) -> Iterator[Text]:
        """Yield the first readings, best first, with how sure they are and where they come from."""
        for number, reading in enumerate(readings[:most], 1):
            sure = f"{reading.confidence:.0%}" if reading.features else ""
            figures = "; ".join(filter(None, (sure, reading.provenance)))
            yield Text.assemble(f"{number}. {reading.text}", (f"  [{figures}]", QUIET))
        if len(readings) > most:
            yield Text(f"and {len(readings) - most} more; {rest}", QUIET)

    def rules(self, rules: Sequence[Rule], most: int, rest: str) -> Iterator[Text]:
        """Yield the first rules, best first, with where they come from; `rest` says where the others are."""
        self.labels.fetch_rules(rules[:most])
        for number, rule in enumerate(rules[:most], 1):
            figures = f"score {rule.score:.2f}"
            if rule.support:
                figures = f"support {rule.support}, precision {rule.precision:.2f}, recall {rule.recall:.2f}"
            source = "; ".join(filter(None, (rule.provenance, figures)))
            yield Text.assemble(f"{number}. ", self.labels.replace(rule.text()), (f"  [{source}]", QUIET))
        if len(rules) > most:
            yield Text(f"and {len(rules) - most} more; {rest}", QUIET)

    def dropped_rules(self, dropped: Sequence[DroppedRule], most: int, rest: str) -> Iterator[Text]:
        """Yield the first rules that were dropped, each with the reason."""
        shown = dropped[:most]
        self.labels.fetch([d.anchor for d in shown if d.anchor], [r for d in shown for r in d.relations])
        for d in shown:
            yield self.labels.replace(f"{d.text}: {d.reason}")
        if len(dropped) > most:
            yield Text(f"and {len(dropped) - most} more; {rest}", QUIET)

    def step(self, step: Step) -> None:
        """Print one step: thought, action, observation."""
        feedback, action = step.feedback, self.toolset.actions.get(step.feedback.action)
        for fact in feedback.facts:
            names = fact.labels.items()
            self.labels.labels |= {self.labels.kg.profile.short(IRI(node)): name for node, name in names}
        nodes = [*(i for ids in feedback.ids.values() for i in ids), *feedback.answers]
        relations = [r for side in feedback.relations.values() for r in side]
        for parameter, argument in zip(action.parameters if action else (), feedback.arguments, strict=False):
            if parameter.kind == "relation":
                relations.append(argument)
            elif parameter.kind in ("node", "entity", "value") and not argument.startswith("?"):
                nodes.append(argument)
        self.labels.fetch(nodes, relations)
        self.console.print()
        self.row(f"Step {step.number}", self.labels.replace(step.thought))
        call = Text.assemble(("> ", "cyan"), self.labels.replace(step.call, tag=True))
        self.row("", call, *self._observation(step))

    def _observation(self, step: Step) -> list[Text]:
        """Return what a step showed: a line each for relations and values, or whatever else there was."""
        feedback, observation = step.feedback, step.observation
        if feedback.outcome and feedback.outcome not in ("rows", "empty"):
            return [Text(f"{feedback.outcome}: {feedback.message or observation}"[:LENGTH], "yellow")]
        sides = {"forward": "leaving: ", "backward": "arriving: "}
        lines = [
            Text.assemble((sides.get(side, f"{side}: "), QUIET), self.labels.list(ids))
            for side, ids in feedback.relations.items()
            if ids
        ]
        mark = "" if self.toolset.name in (*DATABASE_TOOLSETS, "agentbench") else "?"
        for variable, values in feedback.values.items():
            more = ", ..." if values and f"{values[-1]!r}, ..." in observation else ""
            shown = _first([readable_text(value) for value in values])
            lines.append(Text.assemble((f"{mark}{variable}: ", QUIET), shown, more))
        if lines or not observation:
            return lines
        self.labels.fetch_triples(feedback.triples[:NAMES])
        text = observation if len(observation) <= LENGTH else observation[:LENGTH].rstrip() + " ..."
        return [self.labels.replace(text)]

    def answer(self, answer: Answer, reading: Reading | None = None) -> None:
        """Print everything the run came to; `reading` is how the question was understood."""
        if self._verbose:
            self.console.print()
        self._answer(answer)
        if answer.reason:
            self.row("Why", f"{answer.reason}.")
        if answer.note and not self._verbose:
            self.row("Note", self.labels.replace(answer.note))
        if answer.confidence is not None:
            self.row("Sure", f"{answer.confidence:.0%}")
        if reading is not None and answer.values and not self._verbose:
            self.row("Read as", reading.text)
        if answer.status == "unsure":
            others = (f"{_first(r.labels)}  ({r.confidence:.0%}: {r.reading})" for r in answer.rivals)
            self.row("Or", *others)
        self._query(answer)
        if answer.proof:
            self._proof(answer.proof, PROOF if self._verbose else SHORT_PROOF)
        if answer.rows:
            more = len(answer.rows) - PROOF
            rest = [Text(f"  and {more:,} more rows; --json gives all", QUIET)] if more > 0 else []
            self._lines("Proof", [*(Text(f"  {row}") for row in answer.rows[:PROOF]), *rest])
        if self._verbose:
            self._corrections(answer)
        elif count := len(answer.corrections):
            self.console.print()
            self.row("", Text(f"{_count(count, 'mistake')} caught on the way; -v shows all", QUIET))

    def _query(self, answer: Answer) -> None:
        if query := answer.sparql or answer.sql:
            language = "SPARQL" if answer.sparql else "SQL"
            syntax = Syntax("", language.lower(), theme="ansi_dark", background_color="default")
            code = syntax.highlight(query.strip())
            code.rstrip()
            self._lines(language, [Text("  ").append_text(line) for line in code.split("\n")])

    def held(self, held: Held | None) -> None:
        """Print what the graph holds where it has no sure answer, and what may help."""
        for facts in held.entities if held is not None else ():
            told = [("" if r.direction == "out" else "← ", r) for r in facts.relations if r.values]
            shown = [(f"  {side}{r.label}", ", ".join(v.label for v in r.values)) for side, r in told]
            self._lines(f"What the graph holds about {facts.entity.label}", ())
            self.console.print(pairs("", shown))
        if held is not None and held.near:
            self._lines("Called most like it", [Text(f"  {m.label} ({m.kind}, {m.id})") for m in held.near])
        for cure in held.cures if held is not None else ():
            self._lines(f"{cure.text}:", [Text(f"  {cure.command}")])

    def _answer(self, answer: Answer) -> None:
        shown = list(zip(answer.values, answer.labels, strict=True))[:VALUES]
        if answer.labels in (("Yes",), ("No",)):
            shown = [(answer.labels[0], answer.labels[0])]
        unsure = answer.status == "unsure"
        texts = [self.labels.tagged(value, label, DOUBTFUL if unsure else GOOD) for value, label in shown]
        if unsure:
            self.row("Answer", Text("not sure; the likeliest reading gives", DOUBTFUL))
        self.row("" if unsure else "Answer", *texts or [Text("none", BAD)])
        if len(answer.values) > VALUES:
            self.row("", Text(f"and {len(answer.values) - VALUES:,} more; --json or -q give all", QUIET))

    def _corrections(self, answer: Answer) -> None:
        """Print what was corrected, and what the run used."""
        lines = [] if answer.corrections else [Text("  nothing: no step went wrong", QUIET)]
        for c in answer.corrections:
            step = Text(f"  step {c.step}: ").append_text(self.labels.replace(c.call))
            lines.append(step.append(f" by {c.guideline}", QUIET))
            lines += [Text("    offered ", QUIET).append_text(self.labels.replace(fix)) for fix in c.fixes]
        self._lines("Corrected", lines)
        self.console.print()
        self.row("Cost", Text(cost(answer.usage), QUIET))

    def _proof(self, proof: Sequence[ProofTriple], most: int) -> None:
        """Print the facts that prove the answer, and where those from documents were read."""
        shown = proof[:most]
        self.labels.fetch_triples([p.triple for p in shown])
        terms = [(p.triple.subject, p.triple.relation, p.triple.object) for p in shown]
        table = columns(("", "", ""), [[self.labels.term(t) for t in fact] for fact in terms])
        table.show_header = table.pad_edge = False
        self._lines("Proof", ())
        self.console.print(Padding(table, (0, 0, 0, 2)))
        for p in (p for p in shown if p.fact):
            quote = Text(f"  read in {p.document}: ", QUIET).append(f'"{p.sentence}"')
            self.console.print(quote.append(f"  [fact {p.fact[:8]}]", QUIET), soft_wrap=True)
        if count := sum(bool(p.fact) for p in proof):
            note = f"  {count} of {len(proof)} from documents, not from the graph; see `triplewise facts`"
            self.console.print(Text(note, "yellow"))
        if (rest := len(proof) - most) > 0:
            self.console.print(Text(f"  and {_count(rest, 'more fact')}; --json gives all", QUIET))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def cost(usage: Usage) -> str:
    """Return what a run used, in one line."""
    parts = [_count(usage.queries, "query", "queries"), _count(usage.calls, "model call")]
    if usage.calls:
        money = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
        parts += [f"{'about ' if usage.estimated else ''}{usage.tokens:,} tokens", money]
    if usage.hallucinated:
        parts.append(f"{_count(usage.hallucinated, 'invented fact')} dropped")
    return ", ".join([*parts, f"{usage.seconds:.1f} s"])
