"""The state every phase reads and updates: frozen values, valid JSON when dumped.

What grows (steps, corrections, facts) has a reducer: a phase returns what is new or changed. Pydantic reads
the state whenever a node starts, so one edited in Studio as plain JSON works too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from langgraph.channels import EphemeralValue, UntrackedValue
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.rules import DroppedRule, Rule
from triplewise.tools.core.terms import Triple
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.follow_up import Turn
from triplewise.tools.parsing.reading import Reading

T = TypeVar("T")
AnswerStatus = Literal["answered", "unsure", "not_found", "budget_spent"]
VerdictStatus = Literal["ok", "error", "finished", "spent"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used so far; usages can be added.

    `calls` are replies of a model; tokens are `estimated` where a server reports none; `cost` is USD at list
    price, None if a model without a known price was used; `queries` are those sent to a KG.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    estimated: bool = False
    queries: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        both: dict[str, Any] = {n: None if None in pair else sum(pair) for n, pair in pairs.items()}
        return Usage(**{**both, "estimated": self.estimated or other.estimated})

    @property
    def tokens(self) -> int:
        """Tokens in and out together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ScoredTriple:
    """A triple of the observation and its cosine to the question (ODA 2.1)."""

    triple: Triple
    score: float
    through: Triple | None = None  # the first hop, where a mediator or a member of a class lies between


@dataclass(frozen=True, slots=True)
class Step:
    """Thought, action, feedback and observation; the program to roll back to; the guideline that matched."""

    number: int
    thought: str
    call: str
    feedback: Feedback
    observation: str
    program_before: str = ""
    guideline: str = ""
    rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of `inspect` on the last step."""

    status: VerdictStatus
    guideline: str = ""  # the id of the one that matched
    source: str = ""  # the part of the environment whose feedback shows it
    text: str = ""  # what a correction shows the agent
    note: str = ""  # what a step without an error gets, or a spent budget
    reason: str = ""  # explains it to a person


@dataclass(frozen=True, slots=True)
class Correction:
    """One mistake that was caught: what the agent was shown, verified fixes, and the reason in words."""

    step: int
    call: str
    guideline: str
    source: str
    text: str
    fixes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProofTriple:
    """A fact that proves the answer, with labels for people, and where it was read if in a document."""

    triple: Triple
    labels: tuple[str, str, str]
    document: str = ""
    source: str = ""
    sentence: str = ""
    fact: str = ""

    @property
    def text(self) -> str:
        """The fact in one line."""
        return f"({', '.join(self.labels)})"


@dataclass(frozen=True, slots=True)
class Rival:
    """Another reading of the question, in words, with some of its answers, its query and its confidence."""

    reading: str
    values: tuple[str, ...]
    labels: tuple[str, ...]
    sparql: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a run.

    `values` are short ids, literals, or "true"/"false", `labels` in the same order; of several variables each
    row is a value, its cells joined by commas. A database gives `sql` and `rows` in place of `sparql` and
    `proof`. `confidence` is the calibrated probability that the answer is exactly right, None where it is
    unknown; `unaccounted` are the words of the question that the query does not account for,
    `rivals` other readings, most probable first, `note` what guidelines note on the step that gave it.
    """

    status: AnswerStatus
    values: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    text: str = ""
    sparql: str = ""
    sql: str = ""
    rows: tuple[str, ...] = ()
    proof: tuple[ProofTriple, ...] = ()
    reason: str = ""
    corrections: tuple[Correction, ...] = ()
    usage: Usage = field(default_factory=Usage)
    confidence: float | None = None
    unaccounted: tuple[str, ...] = ()
    rivals: tuple[Rival, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        """Return two lines: the answer, and how sure it is with the query that gave it."""
        sure = "" if self.confidence is None else f", {self.confidence:.0%} sure"
        query = " ".join((self.sparql or self.sql).split())
        return f"{self.text}\n[{self.status.replace('_', ' ')}{sure}] {query or self.reason}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain JSON values; terms of the proof as N-Triples."""
        plain = asdict(self)
        terms = [{name: getattr(p.triple, name).n3() for name in Triple.__slots__} for p in self.proof]
        plain["proof"] = [p | {"triple": t} for p, t in zip(plain["proof"], terms, strict=True)]
        return plain


class Input(BaseModel):
    """What a caller gives."""

    question: str = Field(description="The question, in plain language.")
    entities: dict[str, str | None] = Field({}, description="Mention -> id, or null to have it linked.")
    turns: tuple[Turn, ...] = Field((), description="Questions before it that it may lean on, newest first.")


Reducer: TypeAlias = Callable[[tuple[T, ...], Iterable[T] | None], tuple[T, ...]]


def merging(kind: type[T], key: Callable[[T], Any]) -> Reducer[T]:
    """Return a reducer: new values are appended, those with a known key replace it; None empties it all."""
    adapter: TypeAdapter[tuple[T, ...]] = TypeAdapter(tuple[kind, ...])  # type: ignore[valid-type]

    def merged(values: tuple[T, ...], new: Iterable[T] | None) -> tuple[T, ...]:
        if new is None:
            return ()
        return tuple({key(v): v for v in (*values, *adapter.validate_python(new))}.values())

    return merged


add_steps = merging(Step, lambda step: step.number)
add_corrections = merging(Correction, lambda correction: correction.step)
add_facts = merging(ExtractedFact, lambda fact: fact.triple)
REDUCERS: dict[str, Reducer[Any]] = {"steps": add_steps, "corrections": add_corrections, "facts": add_facts}
"""Keys of the state to which updates add."""


class State(Input):
    """The state of one question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Ephemeral: entities given with one question of a thread must not reach the next one.
    entities: Annotated[dict[str, str | None], EphemeralValue] = Field(
        {}, description="Entities given by the caller, until they are linked."
    )
    linked: tuple[LinkedEntity, ...] = Field((), description="Entities found in the question.")
    readings: tuple[Reading, ...] = Field((), description="What the question may mean, best first.")
    rules: tuple[Rule, ...] = Field((), description="Rules that a model is shown, best first (SymAgent 4.1).")
    dropped: tuple[DroppedRule, ...] = Field((), description="Rules that were dropped, each with the reason.")
    attempt: int = Field(0, description="Index of the reading being followed (offline policy).")
    focus: tuple[str, ...] = Field((), description="Task-relevant entities (ODA).")
    observed: tuple[str, ...] = Field((), description="The entities the observation was made from.")
    observation: tuple[ScoredTriple, ...] = Field((), description="Observation subgraph.")
    observation_cuts: tuple[str, ...] = Field((), description="What the observation left out.")
    program: str = Field("", description="The PyQL program so far, one action a line.")
    pending: tuple[Call, ...] = Field((), description="Actions of the last reply still to be carried out.")
    steps: Annotated[tuple[Step, ...], add_steps] = Field((), description="Thoughts, actions, observations.")
    verdict: Verdict | None = Field(None, description="The verdict on the last step.")
    corrections: Annotated[tuple[Correction, ...], add_corrections] = Field((), description="Mistakes.")
    memory: tuple[tuple[Triple, ...], ...] = Field((), description="Memory: a network of paths (ODA).")
    written: tuple[str, ...] = Field((), description="Facts that the model wrote itself: they prove nothing.")
    facts: Annotated[tuple[ExtractedFact, ...], add_facts] = Field((), description="Read from documents.")
    usage: Usage = Field(Usage(), description="Calls, tokens, cost, queries, seconds.")
    answer: Answer | None = Field(None, description="The answer, once there is one.")

    @property
    def last(self) -> Step:
        """The newest step. Raises IndexError before the first."""
        return self.steps[-1]

    @property
    def standing(self) -> list[Step]:
        """The steps that were not rolled back."""
        return [step for step in self.steps if not step.rolled_back]

    @property
    def is_spent(self) -> bool:
        """Whether a budget ended the run."""
        return self.verdict is not None and self.verdict.status == "spent"

    @property
    def closing_note(self) -> str:
        """The notes of guidelines on the step that finished the run."""
        return self.verdict.reason if self.verdict and self.verdict.status == "finished" else ""

    @property
    def followed(self) -> Reading | None:
        """The reading that is followed without a model; None if there is none."""
        return self.readings[self.attempt] if self.attempt < len(self.readings) else None

    @property
    def unreviewed(self) -> tuple[ExtractedFact, ...]:
        """Facts of the run that nobody has decided on."""
        return tuple(f for f in self.facts if f.status == "proposed")

    def restored(self) -> State:
        """Return the state validated again: a checkpoint turns nested tuples into lists."""
        plain = {name: getattr(self, name) for name in State.model_fields}
        return State.model_construct(**vars(_Restored(**plain)))


class _Restored(State):
    model_config = ConfigDict(revalidate_instances="always")


class Working(State):
    """The state as the nodes see it: with the environment of the run, which no checkpoint keeps."""

    env: Annotated[Any, UntrackedValue] = Field(None, exclude=True, repr=False)


def fresh_state() -> dict[str, Any]:
    """Return the update that removes everything of an earlier question of the same thread."""
    empty = State(question="").model_dump(exclude={"question", "entities", "turns"})
    return {**empty, **dict.fromkeys(REDUCERS), "usage": Usage()}
