"""Random and hostile replies: what a broken, confused or malicious model might write instead of an action.

Every payload that could do harm carries `MARK`, so that it is recognised wherever it turns up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

MARK: Final = "zqxmark"
"""A word that stands in no graph, no query and no keyword."""

PAYLOADS: Final = (
    f"}} DELETE WHERE {{ ?{MARK} ?p ?o",
    f"}} ; DELETE DATA {{ <urn:{MARK}> <urn:b> <urn:c> }} #",
    f"}} INSERT DATA {{ <urn:{MARK}> <urn:b> <urn:c> }}",
    f"}} SERVICE <http://127.0.0.1/{MARK}> {{ ?s ?p ?o }} {{",
    f"LOAD <http://127.0.0.1/{MARK}>",
    f"DROP ALL # {MARK}",
    f'"; DROP TABLE film; -- {MARK}',
    f"'; DROP TABLE film; -- {MARK}",
    f"' OR '1'='1' /* {MARK} */",
    f"' UNION SELECT {MARK} FROM sqlite_master --",
    f"film); ATTACH DATABASE '{MARK}' AS x; --",
    f'"Alien" . ?{MARK} ?p ?o',
    f'"Alien"@en }} # {MARK}',
    f'"Alien"@en-{MARK}}} LIMIT 1',
    f'"5"^^<urn:{MARK}> }} CLEAR ALL #>',
    f'"5"^^xsd:integer) }} {MARK}',
    f'"5"^^{MARK}',
    f"<http://example.org/a> . ?{MARK} ?p ?o }} #",
    f"<http://example.org/a>}} DELETE {{<{MARK}>",
    f"<http://example.org/{MARK} x>",
    f"<javascript:{MARK}>",
    f"?x) }} # {MARK}",
    f"?x}} ASK {{ ?{MARK} ?p ?o",
    f"?x ?p ?{MARK} . ?y",
    f"\\u0022 }} {MARK}",
    f'\\" }} {MARK}',
    f'\\\\" }} {MARK}',
    f'"""{MARK}""" }}',
    f"'''{MARK}''' .",
    f"$x){MARK}",
    f"_:b0 . ?{MARK} <urn:p> _:b0",
    f"wd:Q1 . ?{MARK} wdt:P1 wd:Q2",
    f"p:P39/ps:P39|^{MARK}",
    f"P31*{MARK}",
    f"bif:sys_eval('{MARK}')",
    f"sql:{MARK}",
    f"{{{{ {MARK}.__class__ }}}}",
    f"{{% for x in {MARK} %}}",
    f"{MARK}\nAction 9: execute()",
    f"{MARK}\r\n}} DELETE WHERE {{ ?s ?p ?o }}",
    f"Observation: {MARK}",
    f"add_fact(?a, P1, {MARK})",
    f"#{MARK}",
    f"/* {MARK} */",
    f"-- {MARK}",
    f"%0A}}%20DELETE%20{MARK}",
    f"../../{MARK}",
    f"${{jndi:{MARK}}}",
    f"Q64 ({MARK})",
    f"{MARK}, ?x",
)
"""Texts that would do harm if they left the place of a value."""

ODD: Final = (
    *("", " ", "\t", "\x00", "\x0b", "\x0c", "\x85", "\u2028", "\u200b", "\u200e", "\u202e", "\ufeff"),
    *("\ufffd", "\ud800", "\udfff", "\ue000", "\ufffe", "\U0001f600", "e\u0301", "\u0660\u0661", "\u00bd"),
    *("\u00b2", "\uff1f\uff58", "\uff08", "\uff09", "\uff0c", "\u22125", "\u201cAlien\u201d", "\u2018"),
    *(
        "???",
        "?",
        "?1",
        "?_",
        "?x-y",
        "?\u0441",
        "-",
        "--",
        "(",
        ")",
        "((",
        "))",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
    ),
    *("<>", '"', "'", '"""', "\\", "`", "&", "|", ",", ",,", "NaN", "inf", "-0", "1e999", "0x10", "1_000"),
    *(
        "9" * 40,
        "1999-02-30",
        "0000-00-00",
        "-0001",
        "12345-01-01",
        "none",
        "null",
        "true",
        "a",
        "UNDEF",
        "*",
    ),
    *(
        "UnName_Entity",
        "#0",
        "#1",
        "#-1",
        "#99999999999999999999",
        "^P1",
        "http://x:port/",
        "<http://x:port/>",
    ),
)
"""Texts at the edge of what a name, a number or a variable may be."""

_NOISE: Final = "()[]{}<>\"'\\,;:#?!&|*/=^@%$`~.-_ \n\r\t0aZ\u00e9\u202e\u200b\ud83d"


@dataclass(frozen=True)
class Vocabulary:
    """What legal calls are made of.

    Attributes:
        actions: names with the kinds of their parameters.
        fitting: arguments that make sense, by kind of parameter.
    """

    actions: Sequence[tuple[str, tuple[str, ...]]]
    fitting: Mapping[str, Sequence[str]]

    @property
    def arguments(self) -> list[str]:
        """All arguments that make sense somewhere."""
        return [a for some in self.fitting.values() for a in some]


class Hostile:
    """An endless, seeded stream of replies."""

    def __init__(self, seed: int, vocabulary: Vocabulary) -> None:
        self.random, self.words = Random(seed), vocabulary
        self._sensible = vocabulary.arguments
        self._frames: tuple[Callable[[str], str], ...] = (
            str,
            lambda call: f"Thought 1: I go on.\nAction 1: {call}",
            lambda call: f"Action: {call}",
            lambda call: f"```python\n{call}\n```",
            lambda call: f"<think>{self.argument()}</think>\nAction 2: {call}",
            lambda call: f"Thought 3: {self.argument()}\nAction 3: {call}\nObservation 3: {self.argument()}",
            lambda call: f"**Action 4:** `{call}`",
            lambda call: f"{self.argument()} Action 1: {call} Action 2: {call}",
            lambda call: f"Thought: {call}",
            lambda call: f"Action 1: {call}\nAction 2: {self.call()}",
        )

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self.text()

    def text(self) -> str:
        """One reply."""
        framed = self.random.choice(self._frames)(self.call())
        roll = self.random.random()
        if roll < 0.15:
            return self._mutated(framed)
        if roll < 0.16:
            return self._swollen(framed)
        return "".join(self.random.choices(_NOISE, k=self.random.randrange(60))) if roll < 0.18 else framed

    def call(self) -> str:
        """A call of a legal action: most often of the right arity, with one argument that is hostile."""
        name, kinds = self.random.choice(self.words.actions)
        if self.random.random() < 0.03:
            name = self.random.choice(("", "drop", "query", "add_fact" * 2, MARK, "__import__", "Finish"))
        roll = self.random.random()
        if roll < 0.15:
            return f"{name}({', '.join(self.argument() for _ in range(self.random.randrange(7)))})"
        arguments = [self.random.choice(self.words.fitting[kind]) for kind in kinds]
        if arguments and roll < 0.75:
            arguments[self.random.randrange(len(arguments))] = self.argument()
        return f"{name}({', '.join(arguments)})"

    def argument(self) -> str:
        """A sensible argument, a payload, an oddity, or one inside the other."""
        roll = self.random.random()
        if roll < 0.3:
            return self.random.choice(self._sensible)
        if roll < 0.55:
            return self.random.choice(PAYLOADS)
        if roll < 0.7:
            return self.random.choice(ODD)
        return self._nested()

    def _nested(self) -> str:
        """Hostile text where a literal, an IRI, a pattern or a variable is expected."""
        inner = self.random.choice((*PAYLOADS, *ODD))
        known = self.random.choice(self._sensible)
        forms = (
            *(f'"{inner}"', f"'{inner}'", f'"{inner}"@en', f'"{inner}"^^xsd:integer', f'"5"^^<{inner}>'),
            *(
                f'"5"^^<urn:{inner}>',
                f'"5"@{inner}',
                f"<{inner}>",
                f"<http://example.org/{inner}>",
                f"?{inner}",
            ),
            *(
                f"?x{inner}",
                f"({known}, {inner}, ?y)",
                f"(?x, a, {inner})",
                f"(?x, >, {inner}) & (?x, P1, ?y)",
            ),
            *(f"[{inner}]", f"{{{inner}}}", f"{known}{inner}", f"{inner}{known}", f"{known} ({inner})"),
            *(f"name={inner}", f"wd:{inner}", f"({inner}", f"{inner})", f'"{inner}'),
        )
        return self.random.choice(forms)

    def _mutated(self, text: str) -> str:
        """The text with some characters dropped, doubled, swapped or put in."""
        letters = list(text)
        for _ in range(self.random.randrange(1, 5)):
            at = self.random.randrange(len(letters) + 1)
            match self.random.randrange(4):
                case 0:
                    del letters[at : at + self.random.randrange(1, 4)]
                case 1:
                    letters[at:at] = letters[at : at + 5]
                case 2:
                    letters[at:at] = [self.random.choice(_NOISE)]
                case _:
                    letters = letters[:at] if self.random.random() < 0.3 else letters[at:] + letters[:at]
        return "".join(letters)

    def _swollen(self, text: str) -> str:
        """The text with something in it many times over."""
        many = self.random.choice((50, 500, 3000))
        inner = self.random.choice(
            ("(", ")", '"', "'", "<", "((?x, ", "a, ", "\\", "\n", "Action 1: ", "**", "?x ", "-1")
        )
        at = self.random.randrange(len(text) + 1)
        return text[:at] + inner * many + text[at:]
