"""The settings of a run, all plain JSON, so that Studio, the server and a checkpoint can hold them."""
# ruff: noqa: RUF009 - defaults are made by a function that gives them their description

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from os import PathLike, fspath
from typing import Annotated, Any, Literal, Self, TypeAlias, get_type_hints

import pydantic

from triplewise.tools.actions import EXPLORE, MODEL_TOOLSETS, PYQL, SYMBOLIC
from triplewise.tools.core.addresses import hide_secrets, split_url
from triplewise.tools.core.errors import ConfigurationError

NAME_ONE = "name one as `model`, e.g. openai:gpt-4o-mini"  # what helps where a language model is needed
PRESET_DEFAULTS = ("toolset", "prompt", "max_steps")  # Settings whose None stands for the preset's own value
RESOURCES = (
    *("kg", "profile", "db", "documents", "facts", "seeds", "examples", "calibration", "guidelines"),
    *("prompt", "toolset"),
    *("model", "base_url", "api_key_env", "encoder", "ranking", "ranking_model"),
)
"""Settings that name what lies outside of a run: a file, an address, a model, an environment variable.

A server lets its clients choose among those alone that its operator names (`graphs/studio.py`).
"""
Count: TypeAlias = Annotated[int, pydantic.Field(gt=0, lt=2**31)]
CountOrNone: TypeAlias = Annotated[int, pydantic.Field(ge=0, lt=2**31)]
Share: TypeAlias = Annotated[float, pydantic.Field(ge=0, le=1)]
Seconds: TypeAlias = Annotated[float, pydantic.Field(gt=0, le=7 * 86_400)]
Connections: TypeAlias = Annotated[int, pydantic.Field(gt=0, le=64)]
Temperature: TypeAlias = Annotated[float, pydantic.Field(ge=0, le=100)]
Percent: TypeAlias = Annotated[float, pydantic.Field(gt=0, le=100)]


def _name_or_object(value: Any) -> Any:
    if not isinstance(value, str | None) and type(value).__module__ in ("builtins", "datetime", "decimal"):
        raise ValueError("should be a name or an object of it")
    if isinstance(value, str) and "\0" in value:
        raise ValueError(r"should be a name without \x00")
    return value


def _file_name(value: str) -> str:
    if "\0" in value or any(len(part.encode("utf-8", "replace")) > 255 for part in value.split("/")):
        raise ValueError(r"should be a name without \x00, of at most 255 bytes between slashes")
    return value


def _address(value: str) -> str:
    if value:
        split_url(value.strip(), "base_url", "http://localhost:8000/v1")
    return value


NameOrObject: TypeAlias = Annotated[
    Any, pydantic.WithJsonSchema({"type": "string"}), pydantic.AfterValidator(_name_or_object)
]
"""What names something; in Python, also the thing itself. Studio shows it as a text."""
FileName: TypeAlias = Annotated[str, pydantic.AfterValidator(_file_name)]
Address: TypeAlias = Annotated[str, pydantic.AfterValidator(_address)]


def _opt(default: Any, description: str) -> Any:
    """Return a dataclass field with the description that LangGraph Studio shows."""
    value: Any = {"default_factory": list} if isinstance(default, list) else {"default": default}
    return field(**value, metadata={"description": description})


@dataclass(kw_only=True)
class Context:
    """What a run is given besides the question.

    Python callers may give live objects for four settings: a `KnowledgeGraph` or an rdflib graph as `kg`, any
    LangChain chat model as `model`, any LangChain retriever as `documents`, and a `Toolset` as `toolset`.

    A setting that is not given takes the preset's own value. Raises `ConfigurationError` on values that
    cannot work, when it is built. A password in a URL is kept apart: the setting has `***` for it.
    """

    kg: NameOrObject = _opt(
        "demo",
        '"demo", a loaded folder, an RDF file, or the URL of an endpoint; several, databases among them, as '
        '"NAME=ONE + NAME=OTHER", in Python also as a list or a dictionary.',
    )
    profile: FileName | None = _opt(None, "Profile name or YAML file; None infers it.")
    model: NameOrObject = _opt(
        "embedded",
        '"embedded" (no key, no network), "openai:NAME" on any compatible server, or "provider:NAME" through '
        "the provider's LangChain package.",
    )
    base_url: Address | None = _opt(None, "Address of the model's server, e.g. http://localhost:8000/v1.")
    api_key_env: str = _opt("OPENAI_API_KEY", "Environment variable that holds the model's key.")
    calling: Literal["react", "tools"] = _opt("react", "How a model acts: text, or native tool calls.")
    max_actions: Count = _opt(1, "Actions that a reply of a model may hold; each is inspected in turn.")
    temperature: Temperature = _opt(0.0, "Sampling temperature of the model.")
    reasoning_effort: Literal["low", "medium", "high"] | None = _opt(None, "How long the model reasons.")
    max_reply_tokens: Count = _opt(1024, "Longest reply of the model, in tokens.")
    model_timeout: Seconds = _opt(60.0, "Seconds without an answer after which a try has failed.")
    model_retries: CountOrNone = _opt(4, "Further tries of a call, on 429, 5xx, time-outs and the like.")
    encoder: FileName = _opt("embedded", 'Sentence encoder: "embedded", or a folder by `triplewise learn`.')
    toolset: NameOrObject = _opt(None, "pyql, explore, symbolic, agentbench, or module:name of your own.")
    prompt: FileName | None = _opt(None, "Prompt name or YAML file.")
    guidelines: list[FileName] = _opt([], "Guideline YAML files tried before the shipped ones.")
    seeds: FileName | None = _opt(None, 'Seed questions as JSON lines; None: those of the KG; "none": none.')
    examples: FileName | None = _opt(None, 'Solved questions shown; None: those marked right; "none": none.')
    documents: NameOrObject = _opt(None, 'wiki_search reads a folder of text and HTML, or "wikipedia".')
    facts: FileName | None = _opt(None, "SQLite file of facts read from documents; None is the KG's own.")
    overlay: Literal["none", "accepted", "proposed"] = _opt("none", "Kept facts that queries see.")
    review: bool = _opt(False, "Stop and wait for a person's yes before a fact read is used.")
    seed_count: Count = _opt(5, "Closest seed questions that the planner reads.")
    plan_hops: Count = _opt(3, "Longest path of a rule, in relations.")
    plan_rules: Count = _opt(8, "Readings of a question, and rules that a model is shown, at most.")
    observe_depth: Count = _opt(3, "Hop depth D of an observation (ODA, section 2.1).")
    observe_width: Count = _opt(50, "Top N triples kept at each hop (ODA, section 2.1).")
    observe_keep: Percent = _opt(10.0, "Top P percent whose tails come next (ODA, section 2.1).")
    reflect_limit: Count = _opt(15, "Most reflected triples an iteration, K (ODA, section 2.3).")
    draw_seed: Count = _opt(1, "Seed of samples in observation, and of random reflection.")
    guess: bool = _opt(False, "Give the likeliest answer, as unsure, however improbable it is.")
    min_confidence: Share | None = _opt(
        None, "Confidence below which an answer is unsure; None is what gives 92 percent precision."
    )
    model_confidence: bool = _opt(True, "Say how sure the answer of a model is, `unsure` below .5.")
    interactive: bool = _opt(False, "Where the answer is unsure, wait for a person to pick a reading.")
    calibration: FileName | None = _opt(None, "File of `triplewise calibrate`; None: the graph's or ours.")
    relation_cut: Count = _opt(40, "Relations offered at once (QueryAgent, appendix B.3).")
    ranking: Literal["none", "hybrid", "sentence-transformers", "openai"] = _opt(
        "sentence-transformers",
        "How relations are ranked: by the encoder's vectors, together with BM25 (hybrid), by an embedding "
        "server (openai), or not at all.",
    )
    shuffle_seed: CountOrNone | None = _opt(None, "Seed to shuffle offered relations with; None does not.")
    ranking_model: str = _opt("text-embedding-3-small", "Model of the ranking `openai`, at the same server.")
    db: str | None = _opt(None, "SQLAlchemy URL of a relational database, queried instead of a KG.")
    verify_corrections: bool = _opt(True, "Try computed fixes on the KG and offer those that find rows.")
    history: Literal["short", "full", "chat"] = _opt(
        "short", "How a model sees past steps: without repetitions, as the papers do, or as a conversation."
    )
    earlier: str | None = _opt(None, "An earlier attempt for a model to improve on (SymAgent 4.3.1).")
    cascade: Share | None = _opt(None, "Confidence from which the offline reading needs no model call.")
    max_steps: Count | None = _opt(None, "Actions a question may take.")
    max_corrections: Count = _opt(12, "Corrections a question may take.")
    max_model_calls: Count = _opt(60, "Model calls a question may take.")
    max_tokens: Count = _opt(400_000, "Model tokens, in and out, a question may take.")
    max_queries: Count = _opt(2_000, "KG queries a question may take.")
    max_seconds: Seconds = _opt(300.0, "Seconds a question may take.")
    query_timeout: Seconds = _opt(30.0, "Seconds one KG query may take.")
    row_limit: Count = _opt(10_000, "Rows one KG query may return.")
    connections: Connections = _opt(4, "Requests that go to a SPARQL endpoint at a time.")

    def __new__(cls, **given: Any) -> Self:
        """Note which settings the caller gave: they win over the preset's, defaults too."""
        if unknown := given.keys() - {setting.name for setting in fields(cls)}:
            raise ConfigurationError.unknown("setting", min(unknown), [s.name for s in fields(cls)])
        context = super().__new__(cls)
        context.__dict__["_given"] = frozenset(given)
        return context

    def __post_init__(self) -> None:
        if isinstance(self.kg, list | tuple | dict):
            from triplewise.tools.federation.sources import join_sources

            self.kg = join_sources(self.kg)
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, PathLike):
                setattr(self, setting.name, fspath(value))
            elif isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
                message = "a NUL or half a character, which no name has"
                raise ConfigurationError(f"setting {setting.name}: {message}, got {value[:80]!a}")
            elif setting.name in RESOURCES:
                setattr(self, setting.name, hide_secrets(value))
        check_settings(vars(self))
        if self.documents is not None and self.offline:
            fix = "name one, e.g. --model openai:gpt-4o-mini"
            raise ConfigurationError(f"documents are read by a language model: {fix}")

    def changed(self, **settings: Any) -> Self:
        """These settings with some changed; those that nobody gave stay open to the preset."""
        given = {name: getattr(self, name) for name in self.__dict__["_given"]}
        return type(self)(**{**given, **settings})

    def resolved(self, preset: Mapping[str, Any]) -> Self:
        """Return the settings of a run: those that the caller gave, then the preset's, then the defaults."""
        closed = self.__dict__["_given"] - {name for name in PRESET_DEFAULTS if getattr(self, name) is None}
        resolved = replace(self, **{name: value for name, value in preset.items() if name not in closed})
        if resolved.toolset in MODEL_TOOLSETS:
            resolved.require_model("asking a database" if resolved.db else f"the toolset {resolved.toolset}")
        # Without a model readings are carried out, by PyQL's actions in every preset.
        is_read = resolved.offline and resolved.toolset in (EXPLORE.name, SYMBOLIC.name)
        return replace(resolved, toolset=PYQL.name) if is_read else resolved

    @property
    def offline(self) -> bool:
        """Whether the run uses no language model."""
        return isinstance(self.model, str) and self.model == "embedded"

    def require_model(self, doing: str = "asking a database") -> None:
        """Raise `ConfigurationError` where something takes a language model and there is none."""
        if self.offline:
            graph = "; without one, its file is read as a graph: give it as `kg`" if self.db else ""
            raise ConfigurationError(f"{doing} needs a language model; {NAME_ONE}{graph}")

    def name_of(self, setting: str) -> str:
        """Return what a setting names; of a live object, a readable name of it."""
        value = getattr(self, setting)
        if value is None or isinstance(value, str):
            return value or ""
        names = (getattr(value, attribute, None) for attribute in ("name", "model_name", "model"))
        return next((name for name in names if isinstance(name, str) and name), type(value).__name__)


def check_settings(given: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` on the first of some settings that is not of its type."""
    # Several graphs are joined to one.
    one = {n: v for n, v in given.items() if n != "kg" or not isinstance(v, list | dict)}
    try:
        _settings().model_validate(one)
    except pydantic.ValidationError as error:
        wrong = error.errors()[0]
        place, message = wrong["loc"][0], wrong["msg"].removeprefix("Value error, ").lower()
        raise ConfigurationError(f"setting {place}: {message}, got {wrong['input']!r}"[:500]) from None


@cache
def _settings() -> type[pydantic.BaseModel]:
    """Return the model that checks the settings of a context."""
    hints: dict[str, Any] = {n: (h, None) for n, h in get_type_hints(Context, include_extras=True).items()}
    strict = pydantic.ConfigDict(strict=True, arbitrary_types_allowed=True)
    settings: type[pydantic.BaseModel] = pydantic.create_model("Settings", __config__=strict, **hints)
    return settings
