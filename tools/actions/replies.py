"""From a model's reply to its actions: what it thought, and what it calls.

Small and large models write calls in many loose forms; all that mean exactly one action are read, the others
become interpreter feedback (QueryAgent, table 12).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from triplewise.tools.actions.toolset import Call, whole
from triplewise.tools.core.errors import ActionError
from triplewise.tools.pyql.text import scan_arguments

_OPENING = re.compile(r"(?<![\w?:/.#-])([A-Za-z_]\w*)\s*\(")
_QUERY = re.compile(r"(?i)\s*(?:SELECT|WITH|PREFIX|BASE|ASK)\b(?!\s*\()")
_QUERY_TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|<[^<>\s]*>|[()]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_FENCE = re.compile(r"^\s*```[\w-]*\s*$", re.MULTILINE)
_THINKING = re.compile(r"(?s)<think(?:ing)?>(.*?)</think(?:ing)?>")
_MARK = r"[ \t>*_#`-]*{word}[ \t]*{number}[ \t*_`]*[:：][ \t*_]*"
_OBSERVATION = re.compile("(?im)^" + _MARK.format(word="Observation", number=r"\d*"))
_HEAD = re.compile(
    "(?im)^"
    + _MARK.format(word="(?P<line>Thought|Action)", number=r"(?P<n>\d*)")
    + r"|(?<=\s)\**(?P<inline>Thought|Action)[ \t]*(?P<m>\d+)\**[ \t]*[:：]\**[ \t]*"
)
_KEYWORD = re.compile(r"^[a-z]\w*\s*=\s*(?=[?\"'<\w(])")
_NO_ACTION = "the reply has no action: write Action: name(argument, ...)"
_FIELD = re.compile(r"(?m)^\s*[A-Za-z][A-Za-z_ ]*?\d*\s*:\s*(\S.*)$")


class _Part(NamedTuple):
    kind: str
    number: str
    text: str


def parse_call(text: str, legal: Collection[str] = ()) -> Call:
    """The one call in a text; fences, quotes and words around it are ignored.

    legal: action names, for telling calls from words before a bracket; empty takes any name. Raises
    `ActionError`: `no_action`, or `several_actions` (detail `first`: the first call).
    """
    plain = _FENCE.sub("", whole(text)).strip().strip("`").strip()
    calls = _calls(plain, legal)
    if not calls:
        message = f"no action in {plain[:120]!r}: write name(argument, ...)"
        raise ActionError("no_action", message, legal=sorted(legal))
    if len(calls) > 1:
        names = [c.text() for c in calls]
        message = f"{len(calls)} actions in one reply, exactly one is due: {'; '.join(names)}"
        raise ActionError("several_actions", message, first=names[0], actions=names)
    return calls[0]


def _calls(text: str, legal: Collection[str]) -> list[Call]:
    """The calls of legal names in a text, none from inside another; else the first call of any name."""
    calls, place = list[Call](), 0
    while match := _OPENING.search(text, place):
        start, depth = match.end(), 0
        if _QUERY.match(text, start):  # a query of another language, up to the bracket that closes
            for token in _QUERY_TOKEN.finditer(text, start):
                depth += (token[0] == "(") - (token[0] == ")")
                if depth < 0:
                    break
            place = token.start() if depth < 0 else len(text)
            calls.append(Call(match[1], (text[start:place].strip(),)))
            place += 1
            continue
        # A call stays on its line where its bracket closes there, so that later prose is not swallowed.
        line = text[:start] + text[start:].partition("\n")[0]
        arguments, place = scan_arguments(line, start)
        if place == len(line) < len(text) and not line.rstrip().endswith((")", "]", "}")):
            of_all, end = scan_arguments(text, start)
            if text[end - 1] in ")]}":
                arguments, place = of_all, end
        # Without backticks, bold marks or `name=` before a value.
        bare = (_KEYWORD.sub("", " ".join(a.split("\n"))).strip().strip("`*").strip() for a in arguments)
        calls.append(Call(match[1], tuple(bare)))
    if calls:
        return [c for c in calls if c.name in legal] or calls[:1] if legal else calls
    # A name alone, or with its arguments on lines `Field: value` (ODA, table 5).
    first, _, rest = text.partition("\n")
    name = _NAME.match(first := first.strip())
    if name is None or name[0] not in legal:
        return []
    after = first[name.end() :].strip(" .")
    values = _FIELD.findall(f"{after}\n{rest}")
    return [] if after and not values else [Call(name[0], tuple(v.strip() for v in values))]


def parse_react(text: str) -> tuple[str, str]:
    """Thought and action of a ReAct reply, `Thought n: … Action n: …` in the forms models produce.

    A made-up observation, and all after it, is cut off. Raises `ActionError`: `no_action`, `several_thoughts`
    or `several_actions`; detail `thought` and `action` hold the first ones.
    """
    text = whole(text)
    parts = _parts(text)
    thoughts = [p for p in parts if p.kind == "thought"]
    actions = [p.text for p in parts if p.kind == "action" and p.text]
    thought = " ".join(p.text for p in thoughts if p.number == thoughts[0].number).strip()
    thought = thought or " ".join(m.strip() for m in _THINKING.findall(text))
    detail: dict[str, Any] = {"thought": thought, "action": actions[0] if actions else ""}
    if not actions:
        raise ActionError("no_action", _NO_ACTION, **detail)
    if len(set(actions)) > 1:
        message = f"{len(actions)} actions in one reply, exactly one is due"
        raise ActionError("several_actions", message, **detail, first=actions[0], actions=actions)
    if len({p.number for p in thoughts}) > 1:
        message = f"{len(thoughts)} thoughts in one reply, exactly one is due"
        raise ActionError("several_thoughts", message, **detail)
    return thought, actions[0]


def parse_actions(text: str, legal: Collection[str] = ()) -> tuple[str, list[Call]]:
    """The thought of a reply that may hold several actions, and its calls in order; raises `no_action`."""
    parts = _parts(whole(text))
    thought = " ".join(p.text for p in parts if p.kind == "thought").strip()
    calls = [c for p in parts if p.kind == "action" for c in _calls(p.text.strip("`"), legal)]
    if not calls:
        raise ActionError("no_action", _NO_ACTION, thought=thought)
    return thought, calls


def _parts(text: str) -> list[_Part]:
    """The marked parts of a reply up to a made-up observation; an unmarked reply is a bare action."""
    text = _THINKING.sub("", text)
    heads = list(_HEAD.finditer(text))
    if not heads:
        return [_Part("action", "", text.strip())] if _OPENING.search(text) else [_Part("thought", "", text)]
    if observed := _OBSERVATION.search(text, heads[0].start() + 1):
        text = text[: observed.start()]
        heads = [h for h in heads if h.end() <= len(text)]
    parts = []
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : following.start() if following else len(text)]
        kind, number = head["line"] or head["inline"], head["n"] or head["m"] or ""
        parts.append(_Part(kind.lower(), number, _FENCE.sub("", body).strip().strip("*_` \n")))
    before = text[: heads[0].start()].strip()
    if before and not any(p.kind == "thought" for p in parts):
        parts.insert(0, _Part("thought", "", before))
    return parts
