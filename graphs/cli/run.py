"""One run of the state machine: shown to a person, and written as a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from triplewise.graphs.around import Held, ServedGraph
from triplewise.graphs.build import build_graph
from triplewise.graphs.console import columns, pairs, say
from triplewise.graphs.page import write_page
from triplewise.graphs.runs import RunRequest
from triplewise.graphs.trace import DOING, in_words, names_of, trace_of
from triplewise.nodes.state import Answer, Correction, ProofTriple, State, Step, Usage
from triplewise.tools.actions import DATABASE_TOOLSETS
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import Term
from triplewise.tools.extraction.resolution import MINTED
from triplewise.tools.kg import IRI, readable
from triplewise.tools.parsing.reading import Reading

RULES, VALUES, PROOF, SHORT_PROOF, NAMES, LENGTH = 3, 30, 20, 6, 8, 400
"""Most rules, answers, facts of a proof (and in short), names, and characters of an observation printed."""
HEAD, GOOD, DOUBTFUL, BAD, QUIET = "bold", "bold green", "bold yellow", "bold red", "dim"


class Run:
    """A run of the state machine, to its last `state`. Raises as `ServedGraph.open`."""

    state: State

    def __init__(self, request: RunRequest, saver: BaseCheckpointSaver[Any] | None = None) -> None:
        self.request = request
        self.served = ServedGraph.open(request.preset, request.context)
        # With "sync" no phase begins before the one before it is on disk: a killed run repeats nothing.
        self._options: Any = {"context": self.served.context, **({"durability": "sync"} if saver else {})}
        self._graph: Any = build_graph(request.preset, checkpointer=saver)

    def follow(self, resume: bool = False, status: Status | None = None, until: str = "") -> None:
        """Run to the end, or until a phase begins; from the last checkpoint on where `resume` is set."""
        config: Any = {"configurable": {"thread_id": self.request.thread}}
        values: dict[str, Any] = {"question": self.request.question, "entities": self.request.entities}
        start: Any = values
        if resume and (saved := self._saved(config)):
            values, start = saved, None
            done = count(len(saved.get("steps", ())), "step", "steps")
            say(f"going on after {done} (thread {self.request.thread})", "notice")
        modes = ["tasks", "values"]
        for mode, data in self._graph.stream(start, config, stream_mode=modes, **self._options):
            if mode == "values":
                values = data
            elif "input" in data and data["name"] == until:
                break
            elif "input" in data and status:
                status.update(DOING[data["name"]])
        self.state = State.model_validate(values).restored()

    def _saved(self, config: Any) -> dict[str, Any]:
        """Return the state of the last checkpoint, {} without one. Raises `DataError` where it is damaged."""
        try:
            values: dict[str, Any] = self._graph.get_state(config).values
            if values:
                State.model_validate(values)
        except Exception as error:  # a checkpoint that was changed by others can break anything that reads it
            what = f"the checkpoint of thread {self.request.thread} is damaged ({type(error).__name__})"
            raise DataError(f"{what}; ask the question anew, without --resume") from error
        return values

    def document(self) -> dict[str, Any]:
        """Return the finished run, with graph, model and preset."""
        about = {name: getattr(self.served.context, name) for name in ("kg", "db", "model")}
        about |= {"preset": self.request.preset, "thread": self.request.thread}
        return self.served.document(self.state) | about

    def write_page(self, path: Path) -> None:
        """Write the page of the ended run, and say where it is. Raises as `write_page`."""
        request, context = self.request, self.served.context
        source = "db" if context.db else "kg"
        trace = trace_of(self.state, None if context.db else self.served.kg)
        about = {name: getattr(context, name) for name in dict.fromkeys((source, "model", *request.context))}
        about |= {"preset": request.preset, "triplewise": version("triplewise")}
        write_page(path, trace, about)
        say(f"the run as a page: {path}")


class Report:
    """Prints a run, ids as labels; `verbose`: with all of the proof, corrections and cost."""

    def __init__(self, console: Console, served: ServedGraph, verbose: bool = True) -> None:
        self.console, self._toolset, self._verbose = console, served.toolset, verbose
        self._kg, self._short, self._known = served.kg, served.kg.profile.short, dict[str, str]()

    def row(self, head: str, *bodies: Text | str, style: str = HEAD) -> None:
        """Print lines but those that are "", a heading in the margin; what is too long goes on below."""
        grid = Table.grid()
        grid.add_column(width=9, style=style)
        grid.add_column(overflow="fold")
        for body in (body for body in bodies if body != ""):
            grid.add_row("" if grid.row_count else head, body)
        if grid.row_count:
            self.console.print(grid)

    def _lines(self, head: str, lines: Iterable[Text]) -> None:
        """Print a heading with lines under it, which are never broken: they are there to be copied."""
        for line in ("", Text(head, HEAD), *lines):
            self.console.print(line, soft_wrap=True)

    def _tagged(self, short: str, label: str = "", style: str = "") -> Text:
        """Return a label with the id behind it; an id once."""
        label = label or self._known.get(short, short)
        tag = "" if label.replace(",", "") == short else "not in the graph" if MINTED in short else short
        return Text.assemble((label, style), (tag and f" ({tag})", QUIET))

    def _term(self, term: Term) -> Text:
        return self._tagged(self._short(term)) if isinstance(term, IRI) else Text(readable(term))

    def _named(self, text: str, tag: bool = False) -> Text:
        """Return text with every id in it that has a label replaced by the label, tagged if asked."""
        known = {i: label for i, label in self._known.items() if label != i}
        for i, label in known.items():  # which the text explains itself
            text = text.replace(f"{label} [{i}]", i).replace(f"{i} ({label})", i)
        parts: list[Any] = re.split(r"([^\s()\[\],.;]+)", text)
        parts[1::2] = [(self._tagged(i) if tag else known[i]) if i in known else i for i in parts[1::2]]
        return Text.assemble(*parts)

    def run(self, state: State) -> None:
        """Print how a run went: entities, plan, steps."""
        self.row("Question", state.question)
        self.plan(state, RULES, "`triplewise plan` shows all")
        for step in state.steps:
            self.step(step)

    def plan(self, state: State, most: int, rest: str) -> None:
        """Print entities, the first readings and rules, best first, and what was dropped and why."""
        self._known |= {e.id: e.label or e.id for e in state.linked}
        self.row("Entities", *(Text(f"{e.mention} is ") + self._tagged(e.id) for e in state.linked))
        if not state.linked and self._toolset.name not in DATABASE_TOOLSETS:
            self.row("Entities", Text("none found in the question", QUIET))
        chains: list[Any] = [*state.rules[:most], *state.dropped[:most]]
        anchors, relations = [c.anchor for c in chains if c.anchor], [r for c in chains for r in c.relations]
        self._known = names_of(self._kg, anchors, relations) | self._known
        lines: dict[str, list[Text]] = {"Plan": [], "Rules": [], "Dropped": []}
        for reading in state.readings:
            sure = f"{reading.confidence:.0%}; " if reading.features else ""
            lines["Plan"].append(Text.assemble(reading.text, (f"  [{sure}{reading.provenance}]", QUIET)))
        for rule in state.rules:
            figures = f"score {rule.score:.2f}"
            if rule.support:
                figures = f"support {rule.support}, precision {rule.precision:.2f}, recall {rule.recall:.2f}"
            source = "; ".join(filter(None, (rule.provenance, figures)))
            lines["Rules"].append(Text.assemble(self._named(rule.text()), (f"  [{source}]", QUIET)))
        lines["Dropped"] = [self._named(f"{d.text}: {d.reason}") for d in state.dropped]
        for head, texts in lines.items():
            self.row(head, *(Text(f"{n}. ") + text for n, text in enumerate(texts[:most], 1)))
            if len(texts) > most:
                self.row("", Text(f"and {len(texts) - most} more; {rest}", QUIET))

    def step(self, step: Step) -> None:
        """Print one step: thought, action, and what it showed."""
        feedback, action = step.feedback, self._toolset.actions.get(step.feedback.action)
        for fact in feedback.facts:
            self._known |= {self._short(IRI(node)): name for node, name in fact.labels.items()}
        nodes, relations = list(feedback.answers), list[str]()
        for parameter, argument in zip(action.parameters if action else (), feedback.arguments, strict=False):
            if parameter.kind == "relation":
                relations.append(argument)
            elif parameter.kind in ("node", "entity", "value") and not argument.startswith("?"):
                nodes.append(argument)
        shown = () if step.rolled_back or not step.observation else feedback.triples[:NAMES]
        self._known = names_of(self._kg, nodes, relations, shown) | self._known
        self.console.print()
        self.row(f"Step {step.number}", self._named(step.thought))
        self.row("", Text.assemble(("> ", "cyan"), self._named(step.call, tag=True)))
        if feedback.outcome and feedback.outcome not in ("rows", "empty"):
            failed = f"{feedback.outcome}: {feedback.message or step.observation}"
            self.row("", Text(failed[:LENGTH], "yellow"))
        if step.observation and not step.rolled_back:
            text = in_words(step.observation)
            self.row("", self._named(text if len(text) <= LENGTH else f"{text[:LENGTH].rstrip()} ..."))
        if step.rolled_back:
            self.row("", Text(f"undone by guideline {step.guideline}", BAD))

    def answer(self, answer: Answer, reading: Reading | None = None) -> None:
        """Print everything the run came to; `reading` is how the question was understood."""
        if self._verbose:
            self.console.print()
        self._values(answer)
        self.row("Why", answer.reason and f"{answer.reason}.")
        self.row("Note", "" if self._verbose else answer.note and self._named(answer.note))
        self.row("Sure", "" if answer.confidence is None else f"{answer.confidence:.0%}")
        self.row("Read as", reading.text if reading and answer.values and not self._verbose else "")
        if answer.status == "unsure":
            self.row("Or", *(f"{_first(r.labels)}  ({r.confidence:.0%}: {r.reading})" for r in answer.rivals))
        if query := answer.sparql or answer.sql:
            self._query(query, "SPARQL" if answer.sparql else "SQL")
        if answer.proof:
            self._proof(answer.proof, PROOF if self._verbose else SHORT_PROOF)
        if answer.rows:
            self._lines("Proof", [Text(f"  {row}") for row in answer.rows[:PROOF]])
            self._rest(len(answer.rows) - PROOF)
        if self._verbose:
            self._corrections(answer.corrections)
            self.console.print()
            self.row("Cost", Text(cost(answer.usage), QUIET))
        elif answer.corrections:
            caught = count(len(answer.corrections), "mistake", "mistakes")
            self.console.print()
            self.row("", Text(f"{caught} caught on the way; -v shows all", QUIET))

    def _values(self, answer: Answer) -> None:
        """Print the answers, as those of the likeliest reading where it is not sure."""
        is_unsure, is_truth = answer.status == "unsure", answer.labels in (("Yes",), ("No",))
        shown = list(zip(answer.labels if is_truth else answer.values, answer.labels, strict=True))
        if is_unsure:
            self.row("Answer", Text("not sure; the likeliest reading gives", DOUBTFUL))
        texts = [self._tagged(*pair, DOUBTFUL if is_unsure else GOOD) for pair in shown[:VALUES]]
        self.row("" if is_unsure else "Answer", *texts or [Text("none", BAD)])
        if (rest := len(shown) - VALUES) > 0:
            self.row("", Text(f"and {rest:,} more; --json or -q give all", QUIET))

    def held(self, held: Held | None) -> None:
        """Print what the graph holds where it has no sure answer, and what may help."""
        if held is None:
            return
        for facts in held.entities:
            relations = [("" if r.direction == "out" else "← ", r) for r in facts.relations if r.values]
            shown = [(f"  {side}{r.label}", ", ".join(v.label for v in r.values)) for side, r in relations]
            self._lines(f"What the graph holds about {facts.entity.label}", ())
            self.console.print(pairs("", shown))
        if held.near:
            self._lines("The closest names", [Text(f"  {m.label} ({m.kind}, {m.id})") for m in held.near])
        for cure in held.cures:
            self._lines(f"{cure.text}:", [Text(f"  {cure.command}")])

    def _query(self, query: str, language: str) -> None:
        """Print a query with its syntax in colours."""
        syntax = Syntax("", language.lower(), theme="ansi_dark", background_color="default")
        code = syntax.highlight(query.strip())
        self._lines(language, [Text("  ").append_text(line) for line in code.split("\n")])

    def _corrections(self, corrections: Sequence[Correction]) -> None:
        """Print what was caught on the way, and what was offered in its place."""
        lines = [] if corrections else [Text("  nothing: no step went wrong", QUIET)]
        for c in corrections:
            lines.append(Text.assemble(f"  step {c.step}: ", self._named(c.call), f" by {c.guideline}: "))
            lines[-1].append_text(self._named(c.reason or "a step in doubt"))
            lines += [Text("    offered ", QUIET).append_text(self._named(f)) for f in c.fixes]
        self._lines("Corrected", lines)

    def _proof(self, proof: Sequence[ProofTriple], most: int) -> None:
        """Print the facts that prove the answer, and where those from documents were read."""
        self._known = names_of(self._kg, facts=[p.triple for p in proof[:most]]) | self._known
        terms = [(p.triple.subject, p.triple.relation, p.triple.object) for p in proof[:most]]
        table = columns(("", "", ""), [[self._term(t) for t in fact] for fact in terms])
        table.show_header = False
        self._lines("Proof", ())
        self.console.print(Padding(table, (0, 0, 0, 2)))
        for p in (p for p in proof[:most] if p.fact):
            quote = Text(f"  read in {p.document}: ", QUIET).append(f'"{p.sentence}"')
            self.console.print(quote.append(f"  [fact {p.fact[:8]}]", QUIET), soft_wrap=True)
        if read := sum(bool(p.fact) for p in proof):
            note = f"  {read} of {len(proof)} from documents, not from the graph; see `triplewise facts`"
            self.console.print(Text(note, "yellow"))
        self._rest(len(proof) - most)

    def _rest(self, number: int) -> None:
        if number > 0:
            self.console.print(Text(f"  and {number:,} more; --json gives all", QUIET))


def _first(texts: Sequence[str]) -> str:
    rest = len(texts) - NAMES
    return ", ".join(texts[:NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


def count(number: int, one: str, many: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {one if number == 1 else many}"


def cost(usage: Usage) -> str:
    """Return what a run used, in one line."""
    parts = [count(usage.queries, "query", "queries"), count(usage.calls, "model call", "model calls")]
    if usage.calls:
        money = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
        parts += [f"{'about ' if usage.estimated else ''}{usage.tokens:,} tokens", money]
    return ", ".join([*parts, f"{usage.seconds:.1f} s"])
