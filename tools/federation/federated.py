"""One KG of several: a query is cut into what each source holds, as federated engines do (FedX).

The sources of this process lie in one store, a named graph each. What one endpoint holds alone is its own
to answer. Of a query that crosses, each group of patterns that one endpoint holds is sent there, bound by
what is known by then (VALUES); its rows stand in its place, and the rest is run in this process. Nodes that
a bridge joins have one id, an endpoint's where one has it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, groupby, pairwise
from typing import Any, NamedTuple, Self, TypeAlias, TypeGuard, TypeVar

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.federation.bridges import SAME_NAME, Bridge
from triplewise.tools.kg import protocol
from triplewise.tools.kg.engine import NESTED, Refused, Token, read_query, tokenize
from triplewise.tools.kg.labels import LabelIndex
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Outcome, Result

T = TypeVar("T")
Items: TypeAlias = "list[str | tuple[str, Items]]"
"""What a group of a query holds: triples, filters and the like as texts; groups with what is before them."""
Known: TypeAlias = dict[str, list[str]]  # What variables may be, in SPARQL, by their names
LOCAL, SOURCE = "", "urn:triplewise:source:"
ROWS, BOUND, MOST_BOUND = 20_000, 300, 3_000
"""Most rows of an endpoint for a part of a query; values that it is handed at once, and that are known of."""
_STARTS = ("FILTER", "BIND", "VALUES", "OPTIONAL", "MINUS", "GRAPH", "SERVICE", "UNION")
_HEADS = ("SELECT", "ASK", "WHERE")
_NO_TRIPLE = re.compile(r"(?:FILTER|BIND|VALUES|GROUP|ORDER|HAVING|LIMIT|OFFSET)\b", re.IGNORECASE)
_COUNTED = re.compile(r"\*|SELECT(?!\s+DISTINCT)|\b(?:COUNT|SUM|AVG|MIN|MAX|SAMPLE|GROUP)\b", re.IGNORECASE)
_SELECT, _GRAPH = re.compile("SELECT", re.IGNORECASE), re.compile(f"GRAPH <{SOURCE}(.*?)>")
_VARIABLE, _STEP = re.compile(r"(?<!\w)\?(\w+)"), re.compile(r"step\d+__")
TRIPLE = re.compile(r"(\S+) ([^?\s].*?) (\".*|\S+)", re.DOTALL)  # with its relation or path
RELATION = re.compile(r"<[^<>]*>|\ba\b")
_LINE = re.compile(r"( *)(?!FILTER|VALUES|BIND|OPTIONAL)[^ {}][^{}]* \.")


class _Run(NamedTuple):
    """What holds for all parts of a query."""

    foreign: bool  # a person or a model wrote it
    deadline: Deadline
    cut: list[str]  # where there is more than was read
    once: set[str]  # variables that occur once where only distinct solutions count: no value is needed
    between: Iterator[str]  # names of variables for the nodes between the steps of a path

    def limits(self) -> dict[str, Any]:
        """The settings of a query for a part of it."""
        return {"timeout": self.deadline.left, "limit": ROWS, "foreign": self.foreign}


class _Part(NamedTuple):
    """Triples of a group, by their places in it, that the same members hold."""

    held: tuple[str, ...]
    triples: dict[int, str]

    @property
    def names(self) -> set[str]:
        return _named(" ".join(self.triples.values()))


class FederatedKG(KnowledgeGraph):
    """Several graphs. `members`: by "" those in this process, in one store, and each endpoint by its name.

    `sources`: the names of all. Where some are `silent`, the others answer.
    """

    def __init__(
        self, members: Mapping[str, KnowledgeGraph], sources: Sequence[str], bridges: Mapping[IRI, Bridge]
    ):
        super().__init__(members[LOCAL].profile, " + ".join(sources))
        self.members, self.sources, self.bridges = members, tuple(sources), bridges
        self.silent: dict[str, str] = {}
        self._ids = {bridge.node: bridge.one for bridge in bridges.values()}
        self.is_remote = any(kg.is_remote for kg in members.values())
        self.index = self.names if all(kg.index is not None for kg in members.values()) else None

    def session(self, **settings: Any) -> Self:
        """The same over sessions of the sources, which count the queries to them."""
        session = super().session(**settings)
        session.silent, settings["meter"] = {}, session.meter
        session.members = {name: kg.session(**settings) for name, kg in self.members.items()}
        return session

    @property
    def names(self) -> LabelIndex:
        """The names of all sources."""
        every = lambda: [_Names(self, n, i) for n, kg in self.members.items() for i in kg.names._names]  # noqa: E731
        return LabelIndex(every)  # type: ignore[arg-type]

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run tasks as a source that is far away does."""
        return max(self.members.values(), key=lambda kg: kg.is_remote).together(tasks)

    def _each(self, names: Iterable[str], ask: Callable[[KnowledgeGraph], Result]) -> dict[str, Result]:
        """What sources say, but for those that do not answer. Raises `QueryFailedError` where none does."""
        results = dict(zip(names, self.together([partial(ask, self.members[n]) for n in names]), strict=True))
        failed = {n: r for n, r in results.items() if not r.outcome.ok}
        self.silent |= {n: r.message for n, r in failed.items()}
        if len(failed) == len(results):
            next(iter(results.values())).check()
        return {n: r for n, r in results.items() if n not in failed}

    def _label_rows(self, subjects: Sequence[IRI], deadline: Deadline) -> Result:
        ones = defaultdict[Any, list[IRI]](list)
        for subject in subjects:
            ones[self._ids.get(subject, subject)].append(subject)
        results = list(self._each(self.members, lambda kg: kg._label_rows(list(ones), deadline)).values())
        rows = ((s, *row[1:]) for result in results for row in result.rows for s in ones[row[0]])
        return replace(results[0], _rows=tuple(rows))

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one SELECT or ASK over all sources; `SERVICE <NAME>` asks a part of it of one alone."""
        names = Counter(() if _COUNTED.search(sparql) else _VARIABLE.findall(sparql))
        once = {name for name, times in names.items() if times == 1}
        run = _Run(foreign, Deadline(self._seconds(timeout)), [], once, map("?step{}__".format, count()))
        limit = self.limit if limit is None else max(limit, 0)
        try:
            read_query(text := _text(items := self._read(sparql)))
            held = [self._holders(triple, source, foreign) for triple, source in _triples(items)]
            involved = list(dict.fromkeys(chain(*held))) or [LOCAL]
            if len(involved) > 1:
                text, involved = self._filled(items, {}, "", run), [LOCAL]
            member = self.members[involved[0]]
            text = text if involved == [LOCAL] else _GRAPH.sub("", text)
            result = member.query(text, timeout=run.deadline.left, limit=limit, foreign=foreign)
            if shown := [i for i, name in enumerate(result.variables) if not _STEP.fullmatch(name)]:
                rows = tuple(tuple(row[i] for i in shown) for row in result._rows)
                result = replace(result, variables=tuple(result.variables[i] for i in shown), _rows=rows)
        except Refused as refusal:
            return Result(Outcome.SYNTAX, message=str(refusal))
        except QueryFailedError as failed:
            return Result(Outcome(failed.outcome), message=failed.message)
        return replace(result, outcome=Outcome.TRUNCATED, message=run.cut[0]) if run.cut else result

    def _read(self, sparql: str) -> Items:
        """A query in groups: with full IRIs, one for each node, and `GRAPH <source>` for `SERVICE <name>`."""
        tokens, prefixes, pieces, end = tokenize(sparql), dict[str, str](), list[str](), 0
        for i, token in enumerate(tokens):
            prefix, _, local = token.text.partition(":")
            iri = token.text[1:-1] if token.kind == "iri" else prefixes.get(prefix, "") + local
            if token.keyword in ("GRAPH", "FROM"):
                raise Refused(f"{token.keyword} is refused here: SERVICE <NAME> asks one source alone.")
            if token.kind == "iri" and i > 1 and tokens[i - 2].keyword == "PREFIX":
                prefixes[tokens[i - 1].text[:-1]], pieces = iri, []
            elif token.kind != "iri" and (token.kind != "name" or prefix not in prefixes):
                continue
            elif i and tokens[i - 1].keyword == "SERVICE":
                if iri not in self.sources:
                    names = ", ".join(self.sources)
                    raise Refused(f"SERVICE <{iri}>: no source is called so; the sources are {names}.")
                pieces += sparql[end : tokens[i - 1].start], f"GRAPH <{SOURCE}{iri}>"
            else:
                pieces += sparql[end : token.start], self._ids.get(IRI(iri), IRI(iri)).n3()
            end = token.start + len(token.text)
        text = "".join([*pieces, sparql[end:]])
        return _groups(text, tokenize(text))[0]

    def _steps(self, subject: str, path: str, end: str, run: _Run) -> list[str]:
        """A triple for each step of a path whose relations several members hold.

        Raises `Refused` where it repeats steps of several members.
        """
        by_relation = (self._holders(f"?s__ {r} ?o__", "", run.foreign) for r in RELATION.findall(path))
        if "/" not in RELATION.sub("", path) or ("!" not in path and len(set(chain(*by_relation))) < 2):
            return [f"{subject} {path} {end}"]
        signs = [token for token in tokenize(path) if token.kind == "mark" and not token.depth]
        outer = [s.text for s in signs]
        if "|" not in outer and "/" in outer:
            slashes = [s.start for s in signs if s.text == "/"]
            steps = [path[a + 1 : b].strip() for a, b in pairwise([-1, *slashes, len(path)])]
            ends = zip(pairwise([subject, *(next(run.between) for _ in slashes), end]), steps, strict=True)
            return [triple for (a, b), step in ends for triple in self._steps(a, step, b, run)]
        if "|" not in outer and path.startswith("^"):
            return self._steps(end, path[1:].strip(), subject, run)
        if outer == ["(", ")"]:
            return self._steps(subject, path[1:-1].strip(), end, run)
        fix = "write a triple for each of its steps."
        raise Refused(f"the path {path} may lead through several sources: {fix}")

    def holders(self, triple: str, foreign: bool = False) -> tuple[str, ...]:
        """The sources that hold facts of a triple pattern in SPARQL, or of relations of its path; cached."""
        memory, parts = protocol.memory_of(self, "holders"), TRIPLE.fullmatch(triple)
        held: tuple[str, ...] | None = memory.get(triple)
        if held is not None:
            return held
        path = parts[2] if parts else ""
        relations = [f"?s__ {relation} ?o__" for relation in RELATION.findall(path)]
        if path and relations != [f"?s__ {path} ?o__"]:
            names = {name for relation in relations for name in self.holders(relation, foreign)}
            held = tuple(name for name in self.sources if name in names or "!" in path)
        else:
            is_narrower = relations and triple != relations[0]
            held = self.holders(relations[0], foreign) if is_narrower else self.sources
            held = self._holding(triple, held, foreign) if len(held) > 1 else held
        if not self.silent:
            memory[triple] = held
        return held

    def _holding(self, triple: str, sources: Sequence[str], foreign: bool) -> tuple[str, ...]:
        """Which of some sources hold facts of a triple pattern, by a query to each."""
        graphs, ask = f"SELECT DISTINCT ?g__ WHERE {{ GRAPH ?g__ {{ {triple} }} }}", f"ASK {{ {triple} }}"
        asked, local = {LOCAL, *sources}.intersection(self.members), self.members[LOCAL]
        hits = self._each(asked, lambda kg: kg.query(graphs if kg is local else ask, foreign=foreign))
        names = {name for name, result in hits.items() if name and result.boolean}
        names |= {graph.value.removeprefix(SOURCE) for graph in hits[LOCAL].column("g__")}
        return tuple(name for name in sources if name in names)

    def _holders(self, triple: str, source: str, foreign: bool) -> tuple[str, ...]:
        """The members that hold facts of a pattern, which may be restricted to one source."""
        held = (source,) if source else self.holders(triple, foreign)
        return tuple(dict.fromkeys(name if name in self.members else LOCAL for name in held))

    def _filled(self, items: Items, known: Known, source: str, run: _Run) -> str:
        """A group for this process, with what endpoints hold as VALUES."""
        given, items = items, []
        for item in given:
            path = TRIPLE.fullmatch(item) if _is_triple(item) and not source else None
            items += self._steps(path[1], path[2], path[3], run) if path else [item]
        known, filled = dict(known), [f"{item} ." if _is_triple(item) else item for item in items]
        for i, item in enumerate(items):
            if _is_subquery(item):
                result = self.query(_text(item[1]), **run.limits())
                is_alternative = any(after[0] == "UNION" for after in items[i + 1 : i + 2])
                filled[i] = f"{{ {_values(result, {} if is_alternative else known)} }}"
        here, there = self._parts(items, source, run)
        known |= self._known_here(here, {name for part in there for name in part.names}, run)
        while there:
            part = min(there, key=lambda part: _expected(part.triples.values(), known))
            there.remove(part)
            for place in part.triples:
                filled[place] = ""
            filled[min(part.triples)] = self._alternatives(part, known, run)
        return " ".join(i if isinstance(i, str) else self._group(*i, known, source, run) for i in filled)

    def _alternatives(self, part: _Part, known: Known, run: _Run) -> str:
        """What each member holds of some triples, an endpoint's as VALUES; `known` learns from a lone one."""
        text = " ".join(f"{triple} ." for _, triple in sorted(part.triples.items()))
        learnt = known if len(part.held) == 1 else dict(known)
        sides = [text if n == LOCAL else self._rows_of(n, text, learnt, run) for n in part.held]
        return " UNION ".join(f"{{ {side} }}" for side in sides) or "FILTER(false)"

    def _group(self, head: str, items: Items, known: Known, source: str, run: _Run) -> str:
        """A group in another one, with what is before it."""
        if graph := _GRAPH.match(head):
            source, head = graph[1], "" if graph[1] in self.members else head
        return f"{head} {{ {self._filled(items, {} if _SELECT.match(head) else known, source, run)} }}"

    def _parts(self, items: Items, source: str, run: _Run) -> tuple[list[str], list[_Part]]:
        """What this process knows of a group, and the triples that others hold.

        What one endpoint holds, and variables join, is one query.
        """
        here, there = list[str](), list[_Part]()
        for i, item in enumerate(items):
            if not _is_triple(item):
                here += [item] if isinstance(item, str) and item[:6].upper() == "VALUES" else []
            elif (held := self._holders(item, source, run.foreign)) == (LOCAL,):
                here.append(f"{item} .")
            else:
                part = _Part(held, {i: item})
                for met in [p for p in there if len(held) == 1 and p.held == held and p.names & part.names]:
                    there.remove(met)
                    part = _Part(held, met.triples | part.triples)
                there.append(part)
        return here, there

    def _known_here(self, here: Sequence[str], names: set[str], run: _Run) -> Known:
        """What variables may be by what this process knows."""
        known: Known = {}
        for name in sorted(names & _named(" ".join(here))):
            select = f"SELECT DISTINCT ?{name} WHERE {{ {' '.join(here)} }}"
            found = self.members[LOCAL].query(select, **run.limits())
            is_whole = found.outcome in (Outcome.ROWS, Outcome.EMPTY) and (None,) not in found.rows
            if is_whole and len(found.rows) <= MOST_BOUND:
                known[name] = [term.n3() for term in found.column(name)]
        return known

    def _rows_of(self, name: str, text: str, known: Known, run: _Run) -> str:
        """What an endpoint holds of some patterns, as VALUES; `known` is used, and learns."""
        member, names = self.members[name], sorted(_named(text) - run.once)
        bound = min((n for n in names if n in known), key=lambda n: len(known[n]), default="")
        parts = protocol.batches(known.get(bound, ()), BOUND)
        handed = [f"VALUES ?{bound} {{ {' '.join(part)} }}" for part in parts] if bound else [""]
        head = f"SELECT DISTINCT {' '.join(f'?{n}' for n in names)} WHERE" if names else "ASK"
        queries = [f"{head} {{ {values} {text} }}" for values in handed]
        results = member.together([partial(member.query, query, **run.limits()) for query in queries])
        for result in results:
            if result.outcome is Outcome.TRUNCATED:
                run.cut.append(f"more than {ROWS:,} rows of {name} match a part of the query")
            if not result.outcome.ok:
                self.silent[name] = result.message
                result.check()
        if not names:
            return "" if results[0].boolean else "FILTER(false)"
        rows = tuple(dict.fromkeys(row for result in results for row in result.rows))
        if any(term is not None and term.value.startswith("_:") for row in rows for term in row):
            run.cut.append(f"nodes of {name} without a name are left out")
        return _values(Result(Outcome.ROWS, tuple(names), rows), known)

    def remarks(self, proof: Iterable[Triple]) -> tuple[list[Triple], str]:
        """The bridges at which facts of several sources meet; in words, mere names, and who is silent."""
        met = defaultdict[Term, set[str]](set)
        for triple in proof:
            for node in (triple.subject, triple.object):
                met[node].update(self.holders(triple.n3().removesuffix(" .")))
        crossed, short = [b for b in self.bridges.values() if len(met[b.one]) > 1], self.profile.short
        names = ", ".join(f"{short(b.node)} = {short(b.one)}" for b in crossed if b.link == SAME_NAME)
        remarks = [f"joined by equal names only: {names}"] if names else []
        return [Triple(*bridge) for bridge in crossed], "; ".join(filter(None, (*remarks, self.silence)))

    def written(self, sparql: str) -> str:
        """A query that PyQL wrote, with a SERVICE block for each group of lines that one source holds."""
        header, lines = "".join(re.findall(r"^PREFIX .*\n", sparql, re.MULTILINE)), list[str]()

        def held(line: str) -> tuple[str, ...]:
            triples = _triples(self._read(f"{header}ASK {{ {line} }}")) if _LINE.fullmatch(line) else ()
            names = next((self.holders(triple) for triple, _ in triples), ())
            is_path = any(t.text == "/" for t in tokenize(line))  # whose steps may lie in several sources
            return names if len(names) < 2 or not is_path else ()

        for names, group in groupby(sparql.splitlines(), held):
            block, services = list(group), list[str]()
            match = _LINE.fullmatch(block[0])
            indent = match[1] if match else ""
            for i, name in enumerate(names):
                services += [f"{indent}{'} UNION ' if i else ''}{{"] if len(names) > 1 else []
                services += [f"{indent}SERVICE <{name}> {{", *(f"  {line}" for line in block), f"{indent}}}"]
            lines += [*services, f"{indent}}}"] if len(names) > 1 else services or block
        return "\n".join(lines) + "\n"


class _Names:
    """The names of a source; none where it does not answer."""

    def __init__(self, kg: FederatedKG, source: str, names: Any) -> None:
        self._kg, self._source, self._names, self.most_words = kg, source, names, names.most_words

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def ask(*given: Any) -> Any:
            try:
                return getattr(self._names, method)(*given)
            except QueryFailedError as error:
                self._kg.silent[self._source] = str(error)
                return {"exact": {}, "node": None}.get(method, [])

        return ask


def _groups(text: str, tokens: Sequence[Token], i: int = 0, depth: int = 0) -> tuple[Items, int]:
    """The items of a group from a token on, of that depth, and where it ends."""
    items, start, subject = list[Any](), i, ""
    while i < len(tokens) and tokens[i].text != "}":
        token, first, is_here = tokens[i], tokens[start].keyword, tokens[i].depth == depth
        if token.text == "{" and first == "VALUES":
            i = next((j for j in range(i, len(tokens)) if tokens[j].text == "}"), i)
            items, start = items + _item(text, tokens[start : i + 1], depth, subject), i + 1
        elif token.text == "{":
            if depth > NESTED:
                raise Refused(f"the query is too deep: over {NESTED} brackets")
            before = _item(text, tokens[start:i], depth, subject)
            if before and first not in (*_STARTS, *_HEADS):  # a triple without its dot
                items, before = items + before, []
            sub, i = _groups(text, tokens, i + 1, depth + 1)
            items, start, subject = [*items, ("".join(before), sub)], i + 1, ""
        elif is_here and (token.text in ".;" or (token.text == ")" and first in ("FILTER", "BIND"))):
            items += _item(text, tokens[start : i + (token.text == ")")], depth, subject)
            subject = (subject or f"{tokens[start].text} ") if token.text == ";" else ""
            start = i + 1
        elif is_here and token.keyword in _STARTS and i > start:
            items, start, subject = items + _item(text, tokens[start:i], depth, subject), i, ""
        i += 1
    return items + _item(text, tokens[start:i], depth, subject), i


def _item(text: str, tokens: Sequence[Token], depth: int, subject: str) -> list[str]:
    """The item that tokens of a group make, behind a subject that it shares; [] for no tokens."""
    for mark in [t.text for t in tokens if t.depth == depth and t.text in ",["]:
        raise Refused(f"{mark} is refused over several sources: write each triple by itself.")
    return [subject + text[tokens[0].start : tokens[-1].start + len(tokens[-1].text)]] if tokens else []


def _text(items: Items) -> str:
    """A group in SPARQL."""
    texts = (f"{i[0]} {{ {_text(i[1])} }}" if isinstance(i, tuple) else i for i in items)
    return " ".join(t if _NO_TRIPLE.match(t) or t.endswith("}") else f"{t} ." for t in texts)


def _is_triple(item: str | tuple[str, Items]) -> TypeGuard[str]:
    return isinstance(item, str) and not _NO_TRIPLE.match(item)


def _is_subquery(item: str | tuple[str, Items]) -> TypeGuard[tuple[str, Items]]:
    """Whether a group is a query in itself."""
    first = item[1][:1] if isinstance(item, tuple) and not item[0] else []
    return any(isinstance(group, tuple) and _SELECT.match(group[0]) for group in first)


def _triples(items: Items, source: str = "") -> list[tuple[str, str]]:
    """The triple patterns of a group, each with the source that it is sent to ("" for all)."""
    found = list[tuple[str, str]]()
    for item in items:
        if isinstance(item, tuple):
            graph = _GRAPH.match(item[0])
            found += _triples(item[1], graph[1] if graph else source)
        elif _is_triple(item):
            found.append((item, source))
    return found


def _named(text: str) -> set[str]:
    return set(_VARIABLE.findall(text))


def _expected(texts: Collection[str], known: Known) -> int:
    """How many rows patterns may have: by what is known of them, else by the names in them."""
    sizes = [len(known[name]) for text in texts for name in _named(text) if name in known]
    return min(sizes, default=BOUND if any(len(_named(text)) < 2 for text in texts) else ROWS)


def _values(result: Result, known: Known) -> str:
    """A result as a VALUES block, and as what is known of its variables; blank nodes have no name."""
    rows = [row for row in result.rows if not any(t is not None and t.value.startswith("_:") for t in row)]
    for i, name in enumerate(result.variables):
        if None not in (values := [row[i] for row in rows]):
            known[name] = [value.n3() for value in dict.fromkeys(values)]  # type: ignore[union-attr]
    cells = " ".join(f"({' '.join('UNDEF' if t is None else t.n3() for t in row)})" for row in rows)
    return f"VALUES ({' '.join(f'?{name}' for name in result.variables)}) {{ {cells} }}"
