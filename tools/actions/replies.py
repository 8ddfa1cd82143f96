"""From a model's reply to its actions: what it thought, and what it calls.

Small and large models write calls in many loose forms; all that mean exactly one action are read, the others
become interpreter feedback (QueryAgent, table 12).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

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
_FIELD = re.compile(r"(?m)^\s*[A-Za-z][A-Za-z_ ]*?\d*\s*:\s*(\S.*)$")


class _Part(NamedTuple):
    kind: str
    number: str
    text: str


def parse_reply(text: str, legal: Collection[str] = (), most: int = 1) -> tuple[str, list[Call]]:
    """The thought of a reply, `Thought n: … Action n: …` in the forms models write, and its calls in order.

    A made-up observation, and all after it, is cut off. `legal` action names tell calls from words before a
    bracket; without any, each name will do. Where `most` is 1, exactly one thought and one action are due.
    Raises `ActionError`: `no_action`, `several_thoughts` or `several_actions`; its detail holds the `thought`
    and the actions as `written`.
    """
    parts = _parts(whole(text))
    thoughts = [part for part in parts if part.kind == "thought"]
    actions = [part.text for part in parts if part.kind == "action" and part.text]
    of_first = (part.text for part in thoughts if most > 1 or part.number == thoughts[0].number)
    thought = " ".join(of_first).strip() or " ".join(map(str.strip, _THINKING.findall(text)))
    if most == 1:
        actions = list(dict.fromkeys(actions))
        if len(actions) < 2 and len({part.number for part in thoughts}) > 1:
            about = {"thought": thought, "written": "; ".join(actions)}
            raise ActionError("several_thoughts", "several thoughts in one reply, one is due", **about)
    calls = [call for action in actions for call in _calls(action, legal)]
    if not calls:
        about = {"thought": thought, "written": "; ".join(actions)}
        raise ActionError("no_action", "the reply has no action: write Action: name(argument, ...)", **about)
    if most == 1 and max(len(calls), len(actions)) > 1:
        written = "; ".join(call.text() for call in calls)
        message = f"{len(calls)} actions in one reply, exactly one is due: {written}"
        raise ActionError("several_actions", message, thought=thought, written=written)
    return thought, calls[:most]


def _calls(text: str, legal: Collection[str]) -> list[Call]:
    """The calls of legal names in a text, none from inside another; else the first call of any name."""
    text = _FENCE.sub("", text).strip().strip("`").strip()
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
