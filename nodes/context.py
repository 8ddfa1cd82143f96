"""The settings of a run, all plain JSON, so that Studio, the server and a checkpoint can hold them."""
# ruff: noqa: RUF009 - defaults are made by a function that gives them their description

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from math import isfinite
from os import PathLike
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args, get_origin, get_type_hints

from triplewise.tools.core.addresses import hide_secrets
from triplewise.tools.core.errors import ConfigurationError

PRESET_DEFAULTS = ("toolset", "prompt", "max_steps")
"""Settings whose None stands for the preset's own value."""

RESOURCES = (
    *("kg", "profile", "db", "documents", "facts", "seeds", "calibration", "guidelines", "prompt", "prices"),
    "toolset",
    *("model", "base_url", "api_key_env", "encoder", "ranking", "ranking_model"),
)
"""Settings that name what lies outside of a run: a file, an address, a model, an environment variable.

A server lets its clients choose among those alone that its operator names (`graphs/studio.py`).
"""

MAY_BE_ZERO = ("temperature", "model_retries", "shuffle_seed", "min_confidence")
"""Numbers that need not be above 0."""


MOST: Mapping[str, float] = {
    **dict.fromkeys(("min_confidence", "cascade"), 1.0),
    **dict.fromkeys(("query_timeout", "max_seconds", "model_timeout"), 7 * 86_400.0),
    "connections": 64,
}
"""Largest values of numbers; of any other it is `LARGEST`."""
LARGEST = 2**31 - 1


class _Named:
    """Shows a setting as a text to Studio, where no object can be given."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string"}


NameOrObject: TypeAlias = Annotated[Any, _Named()]
"""What names something; in Python, also the thing itself."""


def _setting(default: Any, description: str) -> Any:
    """Return a dataclass field with the description that LangGraph Studio shows."""
    if isinstance(default, list):
        return field(default_factory=list, metadata={"description": description})
    return field(default=default, metadata={"description": description})


@dataclass(kw_only=True)
class Context:
    """What a run is given besides the question.

    Python callers may give live objects for four settings: a `KnowledgeGraph` or an rdflib graph as `kg`, any
    LangChain chat model as `model`, any LangChain retriever as `documents`, and a `Toolset` as `toolset`.

    A setting that is not given takes the preset's own value. Raises `ConfigurationError` on values that
    cannot work, when it is built. A password in a URL is kept apart: the setting has `***` for it.
    """

    kg: NameOrObject = _setting(
        "demo", 'Knowledge graph: "demo", a loaded folder, an RDF file, or an endpoint URL.'
    )
    profile: str | None = _setting(None, "Profile name or YAML file; None infers it.")
    model: NameOrObject = _setting(
        "embedded",
        '"embedded" (no key, no network), "openai:NAME" on any compatible server, or "provider:NAME" through '
        "the provider's LangChain package.",
    )
    base_url: str | None = _setting(None, "Address of the model's server, e.g. http://localhost:8000/v1.")
    api_key_env: str = _setting("OPENAI_API_KEY", "Environment variable that holds the model's key.")
    calling: Literal["react", "tools"] = _setting(
        "react", "How a model acts: Thought/Action text, or native tool calls."
    )
    max_actions: int = _setting(1, "Actions that a reply of a model may hold; each is inspected in turn.")
    temperature: float = _setting(0.0, "Sampling temperature of the model.")
    reasoning_effort: Literal["low", "medium", "high"] | None = _setting(
        None, "How long the model reasons, for models with this parameter; None leaves it out."
    )
    max_reply_tokens: int = _setting(1024, "Longest reply of the model, in tokens.")
    model_timeout: float = _setting(60.0, "Seconds without a word of the model after which a try has failed.")
    model_retries: int = _setting(4, "Further tries of a model call, on 429, 5xx, time-outs and the like.")
    prices: str | None = _setting(None, "YAML file of prices per million tokens, over the shipped ones.")
    encoder: str = _setting("embedded", 'Sentence encoder: "embedded" or any sentence-transformers model.')
    toolset: NameOrObject = _setting(
        None, "Actions: pyql, explore, symbolic, agentbench, or module:name of your own."
    )
    prompt: str | None = _setting(None, "Prompt name or YAML file.")
    guidelines: list[str] = _setting([], "Guideline YAML files tried before the shipped ones.")
    seeds: str | None = _setting(
        None, 'JSON lines of seed questions; None takes those kept for the KG, "none" takes none.'
    )
    documents: NameOrObject = _setting(
        None, 'What wiki_search reads: a folder of text and HTML, or "wikipedia" (online).'
    )
    facts: str | None = _setting(None, "SQLite file of facts read from documents; None is the KG's own.")
    overlay: Literal["none", "accepted", "proposed"] = _setting(
        "none", "Kept facts that queries see; those read for the question always are."
    )
    review: bool = _setting(False, "Stop and wait for a person's yes before a fact read is used.")
    seed_count: int = _setting(5, "Closest seed questions that the planner reads.")
    plan_hops: int = _setting(3, "Longest path of a rule, in relations.")
    plan_rules: int = _setting(8, "Readings of a question, and rules that a model is shown, at most.")
    plan_seed: int = _setting(1, "Seed of the samples that mining draws where a cap is exceeded.")
    observe_depth: int = _setting(3, "Hop depth D of an observation (ODA, section 2.1).")
    observe_width: int = _setting(50, "Top N triples kept at each hop (ODA, section 2.1).")
    observe_keep: float = _setting(10.0, "Top P percent whose tails are observed next (ODA, section 2.1).")
    observe_direction: Literal["both", "outgoing"] = _setting(
        "both", "Neighbouring triples: both directions, or outgoing ones only (ODA as published)."
    )
    observe_seed: int = _setting(1, "Seed of the samples an observation draws.")
    reflect_limit: int = _setting(15, "Most reflected triples an iteration, K (ODA, section 2.3).")
    reflect_seed: int = _setting(1, "Seed of the random reflection (ablation, ODA 4.2).")
    path_seconds: float | None = _setting(
        None, "Seconds one get_path may take; None: 1, or query_timeout on an endpoint."
    )
    closed_world: bool = _setting(
        False,
        "Answer claims and yes-or-no questions that the graph does not decide too: false, or true where it "
        "links all that a claim names; the reason says that it is assumed.",
    )
    guess: bool = _setting(
        False,
        "Give the likeliest answer, as unsure, even where it is so improbable that none is shown otherwise.",
    )
    min_confidence: float | None = _setting(
        None,
        "Probability of being right from which an answer counts as answered; below it, it is unsure. None is "
        "what the calibration gives for 92 percent precision, 0 takes every answer for answered.",
    )
    interactive: bool = _setting(False, "Where the answer is unsure, wait for a person to pick a reading.")
    calibration: str | None = _setting(
        None, "File of `triplewise calibrate`; None is the loaded graph's, else the shipped one."
    )
    relation_cut: int = _setting(40, "Relations offered at once (QueryAgent, appendix B.3).")
    ranking: Literal["none", "hybrid", "sentence-transformers", "openai"] = _setting(
        "sentence-transformers",
        "How relations are ranked: by the encoder's vectors, together with BM25 (hybrid), by an embedding "
        "server (openai), or not at all.",
    )
    shuffle_seed: int | None = _setting(None, "Shuffle offered relations with this seed; None does not.")
    ranking_model: str = _setting(
        "text-embedding-3-small", "Model of the ranking `openai`, at the same server."
    )
    db: str | None = _setting(None, "SQLAlchemy URL of a relational database, queried instead of a KG.")
    verify_corrections: bool = _setting(True, "Try computed fixes on the KG and offer those that find rows.")
    repair_queries: int = _setting(12, "KG queries that fixes may take at one correction.")
    repair_offers: int = _setting(3, "Fixes offered at one correction.")
    history: Literal["short", "full", "chat"] = _setting(
        "short",
        "How a model sees past steps: without repetitions, as the papers concatenate them, or as a "
        "conversation, the form that a model is trained in.",
    )
    earlier: str | None = _setting(None, "An earlier attempt for a model to improve on (SymAgent 4.3.1).")
    label_batch: bool = _setting(True, "Fetch labels many at once; off is one query a label, as published.")
    reuse_answers: bool = _setting(True, "Ask the KG no query twice for one question; off asks every time.")
    fast_path: bool = _setting(False, "Run the best reading as one program; steps where anything objects.")
    cascade: float | None = _setting(
        None,
        "Confidence from which the embedded reading is taken without a model call; None never does so.",
    )
    max_steps: int | None = _setting(None, "Actions a question may take.")
    max_corrections: int = _setting(12, "Corrections a question may take.")
    max_model_calls: int = _setting(60, "Model calls a question may take.")
    max_tokens: int = _setting(400_000, "Model tokens, in and out, a question may take.")
    max_queries: int = _setting(2_000, "KG queries a question may take.")
    max_seconds: float = _setting(300.0, "Seconds a question may take.")
    query_timeout: float = _setting(30.0, "Seconds one KG query may take.")
    row_limit: int = _setting(10_000, "Rows one KG query may return.")
    connections: int = _setting(4, "Requests that go to a SPARQL endpoint at a time.")

    def __new__(cls, **given: Any) -> Self:
        """Note which settings the caller gave: they win over the preset's, defaults too."""
        if unknown := given.keys() - {setting.name for setting in fields(cls)}:
            raise ConfigurationError.unknown("setting", min(unknown), [s.name for s in fields(cls)])
        context = super().__new__(cls)
        context.__dict__["_given"] = frozenset(given)
        return context

    def changed(self, **settings: Any) -> Self:
        """These settings with some changed; those that nobody gave stay open to the preset."""
        given = {name: getattr(self, name) for name in self.__dict__["_given"]}
        return type(self)(**{**given, **settings})

    def resolved(self, preset: Mapping[str, Any]) -> Self:
        """Return the settings of a run: those that the caller gave, then the preset's, then the defaults."""
        given: frozenset[str] = self.__dict__["_given"]
        own = {
            n: v
            for n, v in preset.items()
            if n not in given or (n in PRESET_DEFAULTS and getattr(self, n) is None)
        }
        return replace(self, **own)

    def __post_init__(self) -> None:
        for name in RESOURCES:
            if isinstance(value := getattr(self, name), str) and "://" in value:
                setattr(self, name, hide_secrets(value))
        for setting in fields(self):
            name, value = setting.name, getattr(self, setting.name)
            kind, _, optional = str(setting.type).partition(" | ")
            if optional and value is None:
                continue
            if kind == "str" and not isinstance(value, str | PathLike):
                raise ConfigurationError(f"setting {name} must be a text, got {value!r}")
            if kind == "bool" and not isinstance(value, bool):
                raise ConfigurationError(f"setting {name} must be true or false, got {value!r}")
            if kind in ("int", "float"):
                _check_number(name, value, kind == "int")
        if not isinstance(self.guidelines, list | tuple) or not all(
            isinstance(path, str | PathLike) for path in self.guidelines
        ):
            raise ConfigurationError(f"setting guidelines must be a list of texts, got {self.guidelines!r}")
        for name in ("kg", "model", "documents", "toolset"):
            if isinstance(value := getattr(self, name), int | float | bytes | list | tuple | set | dict):
                raise ConfigurationError(f"setting {name} must be a name or an object of it, got {value!r}")
        for name, choices in _choices().items():
            if (value := getattr(self, name)) not in choices:
                raise ConfigurationError.unknown(name, value, filter(None, choices))
        if self.documents is not None and self.embedded:
            raise ConfigurationError(
                "documents are read by a language model: name one, e.g. --model openai:gpt-4o-mini"
            )

    @property
    def embedded(self) -> bool:
        """Whether the run uses no language model."""
        return isinstance(self.model, str) and self.model == "embedded"

    def name_of(self, setting: str) -> str:
        """Return what a setting names; of a live object, a readable name of it."""
        value = getattr(self, setting)
        if value is None or isinstance(value, str):
            return value or ""
        for attribute in ("name", "model_name", "model"):
            if isinstance(name := getattr(value, attribute, None), str) and name:
                return name
        return type(value).__name__


def _check_number(name: str, value: Any, is_whole: bool) -> None:
    legal = isinstance(value, int if is_whole else int | float) and isfinite(value)
    if not legal or isinstance(value, bool) or value < 0 or (value == 0 and name not in MAY_BE_ZERO):
        least = "of at least" if name in MAY_BE_ZERO else "above"
        number = "a whole number" if is_whole else "a number"
        raise ConfigurationError(f"setting {name} must be {number} {least} 0, got {value!r}")
    if value > (most := MOST.get(name, LARGEST)):
        raise ConfigurationError(f"setting {name} must be at most {most:,g}, got {value!r}")


@cache
def _choices() -> dict[str, tuple[str | None, ...]]:
    """Return the settings that are one of some words, with these."""
    choices: dict[str, tuple[str | None, ...]] = {}
    for name, hint in get_type_hints(Context).items():
        kinds = [kind for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal]
        if kinds:
            choices[name] = (*get_args(kinds[0]), *([None] if kinds[0] is not hint else []))
    return choices
