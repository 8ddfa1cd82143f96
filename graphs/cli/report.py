"""A run as a person reads it: each phase as it happens, then answer, query, proof and cost; ids as labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from triplewise.graphs.console import columns, pairs
from triplewise.graphs.trace import Labels, in_words
from triplewise.nodes.state import Answer, ProofTriple, Step, Usage
from triplewise.tools.actions import DATABASE_TOOLSETS
from triplewise.tools.core.terms import Term
from triplewise.tools.extraction.entity_names import MINTED
from triplewise.tools.kg import IRI, KnowledgeGraph, readable, readable_text

if TYPE_CHECKING:
    from triplewise.graphs.around import Held
    from triplewise.tools.actions import Toolset
    from triplewise.tools.core.rules import DroppedRule, Rule
    from triplewise.tools.parsing.reading import Reading

RULES, VALUES, PROOF, SHORT_PROOF, NAMES, LENGTH = 3, 30, 20, 6, 8, 400
"""Most rules, answers, facts of the proof (and in the short form), names in a list, and characters of an
observation printed."""
MARGIN = 9
HEAD, GOOD, DOUBTFUL, BAD, QUIET = "bold", "bold green", "bold yellow", "bold red", "dim"


class ShownLabels(Labels):
    """Labels as the terminal shows them, with the ids behind them."""

    def tagged(self, short: str, label: str = "", style: str = "") -> Text:
        """Return the label with the id behind it, or with that the graph has no such node; an id once."""
        label = label or self.known.get(short, short)
        tag = "" if label.replace(",", "") == short else "not in the graph" if MINTED in short else short
        return Text.assemble((label, style), (tag and f" ({tag})", QUIET))

    def term(self, term: Term) -> Text:
        """Return a term of a fact, tagged; a literal as people read it."""
        return self.tagged(self.kg.profile.short(term)) if isinstance(term, IRI) else Text(readable(term))

    def replace(self, text: str, tag: bool = False) -> Text:
        """Return text with every id in it that has a label replaced by the label, tagged if asked."""
        # Ids that could be taken for words stay, except in rules; the longest are looked for first.
        ids = sorted((i for i, label in self.known.items() if label != i), key=len, reverse=True)
        names = "|".join(rf"(?<=-\[){i}(?=\]-)" if i.isalpha() else re.escape(i) for i in ids) or "(?!)"
        result, end = Text(), 0
        for match in re.finditer(rf"(?<![\w:/?.])(?:{names})(?![\w:/])", text):
            short, label = match.group(), self.known[match.group()]
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
        verbose: print all of the proof, corrections and cost with the answer.
    """

    def __init__(self, console: Console, kg: KnowledgeGraph, toolset: Toolset, verbose: bool = True) -> None:
        self.console, self.toolset, self.labels, self._verbose = console, toolset, ShownLabels(kg), verbose

    def row(self, head: str, *bodies: Text | str, style: str = HEAD) -> None:
        """Print lines with a heading in the margin; what is too long goes on under itself."""
        for body in bodies:
            text = Text(body) if isinstance(body, str) else body
            for line in text.wrap(self.console, max(self.console.width - MARGIN, MARGIN), overflow="fold"):
                line.rstrip()
                self.console.print(Text.assemble((f"{head:<{MARGIN}}", style), line), soft_wrap=True)
                head = ""

    def _lines(self, head: str, lines: Iterable[Text] = ()) -> None:
        """Print a heading with lines under it, which are never broken: they are there to be copied."""
        for line in ("", Text(head, HEAD), *lines):
            self.console.print(line, soft_wrap=True)

    def phase(self, name: str, update: Mapping[str, Any]) -> None:
        """Print what one phase did."""
        if name == "link":
            linked = update.get("linked", ())
            self.labels.known |= {e.id: e.label or e.id for e in linked}
            self.row("Entities", *(Text(f"{e.mention} is ") + self.labels.tagged(e.id) for e in linked))
            if not linked and self.toolset.name not in DATABASE_TOOLSETS:
                self.row("Entities", Text("none found in the question", QUIET))
        elif name == "plan":
            self.plan(update, RULES, "`triplewise plan` shows all")
        elif name == "observe" and update.get("observation") and (around := update.get("observed")):
            self.labels.fetch(around[:NAMES])
            names = _first(self.labels.of(around))
            what = (
                f"{len(update['observation']):,} facts around {names}, scored by similarity to the question"
            )
            self.row("Observe", what, style=QUIET)
        elif name == "act" and update.get("steps"):
            self.step(update["steps"][-1])
        elif name == "correct" and update.get("corrections"):
            c = update["corrections"][-1]
            by = f"corrected by guideline {c.guideline}{f' ({c.source})' if c.source else ''}: "
            self.row("", Text(by, BAD) + self.labels.replace(c.reason or "a step in doubt"))
            self.row("", Text("The step is undone.", QUIET))
        elif name == "inspect" and (verdict := update["verdict"]).note and verdict.status != "spent":
            self.row("", Text("note: ", "yellow") + self.labels.replace(verdict.reason))

    def plan(self, update: Mapping[str, Any], most: int, rest: str) -> None:
        """Print the first readings and rules, best first, and what was dropped and why."""
        readings: Sequence[Reading] = update.get("readings", ())
        rules: Sequence[Rule] = update.get("rules", ())
        dropped: Sequence[DroppedRule] = update.get("dropped", ())
        chains: list[Any] = [*rules[:most], *dropped[:most]]
        self.labels.fetch([c.anchor for c in chains if c.anchor], [r for c in chains for r in c.relations])
        lines: dict[str, list[Text]] = {"Plan": [], "Rules": [], "Dropped": []}
        for reading in readings:
            sure = f"{reading.confidence:.0%}" if reading.features else ""
            source = "; ".join(filter(None, (sure, reading.provenance)))
            lines["Plan"].append(Text.assemble(reading.text, (f"  [{source}]", QUIET)))
        for rule in rules:
            figures = f"score {rule.score:.2f}"
            if rule.support:
                figures = f"support {rule.support}, precision {rule.precision:.2f}, recall {rule.recall:.2f}"
            source = "; ".join(filter(None, (rule.provenance, figures)))
            lines["Rules"].append(Text.assemble(self.labels.replace(rule.text()), (f"  [{source}]", QUIET)))
        lines["Dropped"] = [self.labels.replace(f"{d.text}: {d.reason}") for d in dropped]
        for head, texts in lines.items():
            self.row(head, *(Text(f"{n}. ") + text for n, text in enumerate(texts[:most], 1)))
            if len(texts) > most:
                self.row("", Text(f"and {len(texts) - most} more; {rest}", QUIET))

    def step(self, step: Step) -> None:
        """Print one step: thought, action, and what it showed."""
        feedback, action = step.feedback, self.toolset.actions.get(step.feedback.action)
        short = self.labels.kg.profile.short
        for fact in feedback.facts:
            self.labels.known |= {short(IRI(node)): name for node, name in fact.labels.items()}
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
        self.row("", Text.assemble(("> ", "cyan"), self.labels.replace(step.call, tag=True)))
        if feedback.outcome and feedback.outcome not in ("rows", "empty"):
            self.row(
                "", Text(f"{feedback.outcome}: {feedback.message or step.observation}"[:LENGTH], "yellow")
            )
            return
        sides = {"forward": "leaving", "backward": "arriving"}
        shown = {sides.get(side, side): ids for side, ids in feedback.relations.items() if ids}
        shown = {side: self.labels.of(ids) for side, ids in shown.items()}
        mark = "" if self.toolset.name in (*DATABASE_TOOLSETS, "agentbench") else "?"
        for variable, values in feedback.values.items():
            shown[f"{mark}{variable}"] = [readable_text(value) for value in values]
        self.row("", *(Text.assemble((f"{name}: ", QUIET), _first(texts)) for name, texts in shown.items()))
        if not shown and step.observation:
            self.labels.fetch_triples(feedback.triples[:NAMES])
            text = in_words(step.observation)
            text = text if len(text) <= LENGTH else f"{text[:LENGTH].rstrip()} ..."
            self.row("", self.labels.replace(text))

    def answer(self, answer: Answer, reading: Reading | None = None) -> None:
        """Print everything the run came to; `reading` is how the question was understood."""
        if self._verbose:
            self.console.print()
        is_unsure, shown = answer.status == "unsure", list(zip(answer.values, answer.labels, strict=True))
        if is_unsure:
            self.row("Answer", Text("not sure; the likeliest reading gives", DOUBTFUL))
        if answer.labels in (("Yes",), ("No",)):
            shown = [(answer.labels[0], answer.labels[0])]
        texts = [self.labels.tagged(*pair, DOUBTFUL if is_unsure else GOOD) for pair in shown[:VALUES]]
        self.row("" if is_unsure else "Answer", *texts or [Text("none", BAD)])
        if (rest := len(shown) - VALUES) > 0:
            self.row("", Text(f"and {rest:,} more; --json or -q give all", QUIET))
        if answer.reason:
            self.row("Why", f"{answer.reason}.")
        if answer.note and not self._verbose:
            self.row("Note", self.labels.replace(answer.note))
        if answer.confidence is not None:
            self.row("Sure", f"{answer.confidence:.0%}")
        if reading is not None and answer.values and not self._verbose:
            self.row("Read as", reading.text)
        if is_unsure:
            self.row("Or", *(f"{_first(r.labels)}  ({r.confidence:.0%}: {r.reading})" for r in answer.rivals))
        if query := answer.sparql or answer.sql:
            language = "SPARQL" if answer.sparql else "SQL"
            syntax = Syntax("", language.lower(), theme="ansi_dark", background_color="default")
            code = syntax.highlight(query.strip())
            code.rstrip()
            self._lines(language, [Text("  ").append_text(line) for line in code.split("\n")])
        if answer.proof:
            self._proof(answer.proof, PROOF if self._verbose else SHORT_PROOF)
        if answer.rows:
            more = len(answer.rows) - PROOF
            rest_of = [Text(f"  and {more:,} more rows; --json gives all", QUIET)] if more > 0 else []
            self._lines("Proof", [*(Text(f"  {row}") for row in answer.rows[:PROOF]), *rest_of])
        if self._verbose:
            lines = [] if answer.corrections else [Text("  nothing: no step went wrong", QUIET)]
            for c in answer.corrections:
                step = Text(f"  step {c.step}: ").append_text(self.labels.replace(c.call))
                lines.append(step.append(f" by {c.guideline}", QUIET))
                lines += [Text("    offered ", QUIET).append_text(self.labels.replace(f)) for f in c.fixes]
            self._lines("Corrected", lines)
            self.console.print()
            self.row("Cost", Text(cost(answer.usage), QUIET))
        elif count := len(answer.corrections):
            self.console.print()
            self.row("", Text(f"{_count(count, 'mistake')} caught on the way; -v shows all", QUIET))

    def held(self, held: Held | None) -> None:
        """Print what the graph holds where it has no sure answer, and what may help."""
        if held is None:
            return
        for facts in held.entities:
            relations = [("" if r.direction == "out" else "← ", r) for r in facts.relations if r.values]
            shown = [(f"  {side}{r.label}", ", ".join(v.label for v in r.values)) for side, r in relations]
            self._lines(f"What the graph holds about {facts.entity.label}")
            self.console.print(pairs("", shown))
        if held.near:
            self._lines("Called most like it", [Text(f"  {m.label} ({m.kind}, {m.id})") for m in held.near])
        for cure in held.cures:
            self._lines(f"{cure.text}:", [Text(f"  {cure.command}")])

    def _proof(self, proof: Sequence[ProofTriple], most: int) -> None:
        """Print the facts that prove the answer, and where those from documents were read."""
        self.labels.fetch_triples([p.triple for p in proof[:most]])
        terms = [(p.triple.subject, p.triple.relation, p.triple.object) for p in proof[:most]]
        table = columns(("", "", ""), [[self.labels.term(t) for t in fact] for fact in terms])
        table.show_header = table.pad_edge = False
        self._lines("Proof")
        self.console.print(Padding(table, (0, 0, 0, 2)))
        for p in (p for p in proof[:most] if p.fact):
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
