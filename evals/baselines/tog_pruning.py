"""How Think-on-Graph chooses among what it found (section 2.1.2, "prune"): by the model, or by similarity.

The model scores the options of one path a call, as in the paper: at most N calls for relations and N for
entities at each depth. A reply without any readable score is no reason to stop or to ask for ever: the
similarity of vectors decides then, and the step says so. The published code retries without end where the
server fails, and stops exploring where it cannot read a reply.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from triplewise.evals.baselines.answering import BudgetedAsker
from triplewise.evals.baselines.tog_paths import UNNAMED, Path, Step, node_texts, path_lines, step_texts
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import State
from triplewise.tools.kg.protocol import Hop
from triplewise.tools.planning.lexical.question import MENTION, masked
from triplewise.tools.retrieval.pair_ranking import PairRanker

PROMPT = "tog"
UNREAD = "the reply had no readable score: the similarity of vectors decided"
"""What a step says where a model's reply could not be used."""
NEXT = 0.8
"""What the next likeliest entity behind a relation scores, as a share of the one before it."""
LEAST = 1e-6
"""Score of a chain that is not like the question at all: still better than no way on."""


@dataclass(slots=True)
class Pruner:
    """Scores the ways on from a path; 0 leaves a way out.

    Attributes:
        state, context: of the run; without a model similarity alone decides. width: options that are kept.
        notes: what a reader has to know.
    """

    state: State
    context: Context
    width: int
    notes: list[str] = field(default_factory=list)
    asker: BudgetedAsker | None = field(init=False)

    def __post_init__(self) -> None:
        embedded = self.context.embedded
        self.asker = None if embedded else BudgetedAsker(self.state, self.context, PROMPT)

    @property
    def over(self) -> str:
        """The budget that ran out meanwhile, in words; what was not asked for has score 0."""
        return self.asker.over if self.asker is not None else ""

    def relations(self, path: Path, ways: Sequence[Step]) -> list[float]:
        """Return scores of the path with each relation to go on over."""
        if not ways:
            return []
        kg = environment(self.context).kg
        longer = [path.toward(way, 0.0) for way in ways]
        if self.asker is not None:
            texts, short = step_texts(kg, ways), kg.profile.short
            tails = [Path(p.end, (), p.ahead) for p in longer]
            names = [(texts[w], short(w.relation), f"^{short(w.relation)}") for w in ways]
            scores = self._ask("relations", path, path_lines(kg, tails), names)
            if scores is not None:
                return scores
        words = step_texts(kg, (s for p in longer for s in p.steps))
        chains = [", ".join(words[s] for s in p.steps) for p in longer]
        similarity = [max(float(s), LEAST) for s in self._ranker().closeness(chains)]
        return self._instead(similarity, path) if self.asker is not None else similarity

    def entities(self, path: Path, hops: Sequence[Hop]) -> list[float]:
        """Return scores of the path longer by each fact.

        By similarity that of the chain for the likeliest entity, less for each next one, so that a beam is
        not filled with the entities of one chain. The model is not asked where all look the same.
        """
        kg = environment(self.context).kg
        ends = [path.over(hop, 0.0).end for hop in hops]
        names = node_texts(kg, ends)
        if self.asker is not None:
            if len(hops) == 1 or all(names[e] == UNNAMED for e in ends):
                return [path.score / len(hops)] * len(hops)
            options = [names[e] for e in ends]
            scores = self._ask("entities", path, options, [(names[e], kg.profile.short(e)) for e in ends])
            if scores is not None:
                return scores
        assert path.ahead is not None, "facts lie behind a relation"
        relation = step_texts(kg, [path.ahead])[path.ahead]
        similarity = [0.0] * len(hops)
        best = self._ranker().best([(relation, names[end]) for end in ends], self.width)
        for rank, (place, _) in enumerate(best):
            similarity[place] = path.score * NEXT**rank
        return self._instead(similarity, path) if self.asker is not None else similarity

    def _ranker(self) -> PairRanker:
        """Ranks by the question without the names of its entities, which are like everything around them."""
        spans = [(e.start, e.end) for e in self.state.linked if e.start >= 0]
        words = masked(self.state.question, spans).split()
        asked = " ".join(w for w in words if w != MENTION) or self.state.question
        return PairRanker(environment(self.context).kg, asked, environment(self.context).encoder)

    def _ask(
        self, part: str, path: Path, options: Sequence[str], names: Sequence[Collection[str]]
    ) -> list[float] | None:
        """The path's score times those of a reply for all options; None where it has none."""
        assert self.asker is not None, "there is a model to ask"
        line = path_lines(environment(self.context).kg, [path])[0]
        reply = self.asker.ask(part, path=line, options=list(options), limit=self.width)
        if reply is None:
            return [0.0] * len(options)
        scores = read_scores(reply, names)
        return [path.score * scores.get(i, 0.0) for i in range(len(options))] if scores else None

    def _instead(self, similarity: Sequence[float], path: Path) -> list[float]:
        """The likeliest options, on the scale of a model's scores."""
        self.notes.append(UNREAD)
        best = sorted(range(len(similarity)), key=lambda i: -similarity[i])[: self.width]
        total = sum(similarity[i] for i in best) or 1.0
        return [path.score * similarity[i] / total if i in best else 0.0 for i in range(len(similarity))]


_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?|\.\d+)(?:\s*(%)|\s*/\s*(\d+))?(?![\w.]*\w)")
_OPTION = re.compile(r"[\W_]*(?:(?:option|relation|entity|no|nr)\.?\W*)?#?(\d{1,3})(?:\W+|$)", re.IGNORECASE)
_NUMBERING = re.compile(r"(?m)^[\s>*#|(\[-]*\d{1,3}\s*[.):\]|]+\s+(?=\S*[^\W\d])")
_SCORE = re.compile(r"(?i)\b(?:score|rating|weight|relevance|probability)\b")


def read_scores(reply: str, options: Sequence[Collection[str]]) -> dict[int, float]:
    """Return what a reply says of numbered options: place in `options` -> score, scaled to sum to 1.

    Lines of `number: score` are asked for; models also write names, tables, JSON, percentages, marks out of
    ten, or nothing but the scores in order. All are 0 where the reply gives every option it names 0, which
    says that none helps; {} where it gives no option a score, which says nothing.

    Args:
        reply: text of a model. options: the names of each, which were offered under numbers from 1.
    """
    names = [[_plain(n) for n in given if _plain(n)] for given in options]
    # JSON reads as lines of names and numbers, one object a line.
    text = reply.replace("}", "\n").replace("{", " ").replace('"', " ")
    scores = _by_name(text, names)
    words = {n for given in names for n in given if not n.isdigit()}
    for line in re.split(r"[\n;]|,(?=\s*\d{1,3}\s*:)", text):
        option = _OPTION.match(line)
        numbers = list(_NUMBER.finditer(line, option.end())) if option else []
        if (
            option
            and numbers
            and 0 < int(option[1]) <= len(names)
            and not any(w in _plain(line) for w in words)
        ):
            scores.setdefault(int(option[1]) - 1, _value(numbers[-1]))
    numbers = list(_NUMBER.finditer(text))
    if not scores and len(numbers) == len(names) and not re.search(r"[^\W\d_]{3,}", _SCORE.sub("", text)):
        scores = {i: _value(n) for i, n in enumerate(numbers)}  # nothing but scores: ToG's own prompt
    total = sum(scores.values())
    return {place: score / total if total else 0.0 for place, score in sorted(scores.items())}


def _by_name(reply: str, names: Sequence[Sequence[str]]) -> dict[int, float]:
    """Scores behind the names of options: the first number between one name and the next."""
    words = sorted({n for given in names for n in given if not n.isdigit()}, key=len, reverse=True)
    text = "\n".join(_plain(line) for line in reply.splitlines())
    pattern = rf"(?<![\w^])(?:{'|'.join(map(re.escape, words))})(?!\w)"
    matches = list(re.finditer(pattern, text)) if words else []
    scores: dict[int, float] = {}
    for match, after in itertools.zip_longest(matches, matches[1:]):
        part = _NUMBERING.sub("", text[match.end() : after.start() if after else len(text)])
        word = _SCORE.search(part)
        number = _NUMBER.search(part, word.end() if word else 0) or _NUMBER.search(part)
        places = [i for i, given in enumerate(names) if match[0] in given]
        # Of two options with one name, such as both directions of a relation, the number says which.
        option = _OPTION.match(text, text.rfind("\n", 0, match.start()) + 1)
        if option and int(option[1]) - 1 in places:
            places = [int(option[1]) - 1]
        for place in places if number else ():
            assert number is not None
            scores.setdefault(place, _value(number))
    return scores


def _plain(text: str) -> str:
    """A text as names are compared."""
    return " ".join(text.replace("_", " ").casefold().split())


def _value(match: re.Match[str]) -> float:
    """The value of a number, a percentage or a mark out of so many."""
    value, percent, most = float(match[1]), match[2], match[3]
    return value / 100 if percent else value / float(most) if most and float(most) else value
