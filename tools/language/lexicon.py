"""Words of English that are grammar (`lexicon.yaml`); function words of other languages (`de.yaml`, ...)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import yaml

from triplewise.tools.language.text import singular, stem, tokenise

LANGUAGES = ("de", "fr", "es")
SHORT_ROOT = 3  # letters of a root that is too short to be told from others with a prefix
_LEAST_GRAMMAR = 2  # least function words of another language in a question that is in it


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective of degree: its sign (1: much, -1: little) and what it measures, the likeliest first.

    `opposites` are quantities of which it means the contrary: what is fast takes little time.
    """

    sign: int
    quantities: tuple[str, ...]
    opposites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The parts of `lexicon.yaml` that are used in another form; the file says what each is for."""

    units: Mapping[str, str]  # a form of a unit -> the unit
    kinds: Mapping[str, tuple[str, ...]]
    operators: Mapping[tuple[str, ...], str]  # the words of an operator -> its name in the file
    adjectives: Mapping[str, Adjective]
    quantities: Mapping[str, tuple[str, ...]]
    lemmas: Mapping[str, str]  # a form of a word -> the word: `wrote` -> `write`

    @property
    def hints(self) -> tuple[str, ...]:
        """All words that adjectives, quantities and wh-words are looked up as."""
        groups = [*(a.quantities + a.opposites for a in self.adjectives.values()), *self.kinds.values()]
        return tuple(dict.fromkeys(word for group in (*groups, *self.quantities.values()) for word in group))

    def adjective_of(self, word: str, ending: str) -> str | None:
        """The adjective of a superlative (`est`), listed or not, or of a comparative (`er`); else None."""
        irregular = section("irregular")
        forms: Mapping[str, str] = irregular["superlatives" if ending == "est" else "comparatives"]
        if word in forms:
            return forms[word]
        if not word.endswith(ending) or len(word) < len(ending) + 2 or word in irregular["none"].split():
            return None
        base = word[: -len(ending)]
        undoubled = base[:-1] if base[-1:] == base[-2:-1] else base
        likely = (base, base + "e", undoubled, base[:-1] + "y")
        unlisted = base if ending == "est" and len(base) > 3 else None
        return next((form for form in likely if form in self.adjectives), unlisted)


@cache
def _yaml(name: str) -> Any:
    return yaml.safe_load(resources.files(__package__).joinpath(name).read_text("utf-8"))


def section(name: str) -> Any:
    """A part of `lexicon.yaml` as it stands there. Raises KeyError for one that does not exist."""
    return _yaml("lexicon.yaml")[name]


@cache
def word_list(name: str) -> frozenset[str]:
    """A part of `lexicon.yaml` that is a list of words. Raises KeyError for one that does not exist."""
    listed = section(name)
    return frozenset(listed.split() if isinstance(listed, str) else listed)


@cache
def lexicon() -> Lexicon:
    """The lexicon, read once."""
    return Lexicon(
        kinds={word: tuple(kinds.split()) for word, kinds in section("kinds").items()},
        operators={tuple(text.split()): name for name, of in section("operators").items() for text in of},
        adjectives={word: _adjective(*entry) for word, entry in section("adjectives").items()},
        quantities={word: tuple(names.split()) for word, names in section("quantities").items()},
        units={form: unit for unit, forms in section("units").items() for form in (unit, *forms.split())},
        lemmas={form: lemma for lemma, forms in section("lemmas").items() for form in forms},
    )


def _adjective(sign: int, quantities: str) -> Adjective:
    words = quantities.split()
    opposites = tuple(word[1:] for word in words if word.startswith("-"))
    return Adjective(sign, tuple(word for word in words if not word.startswith("-")), opposites)


@lru_cache(maxsize=100_000)
def root(word: str) -> str:
    """What the forms of a word and its derivations share: discovered, discoverer, discovery; wrote, writer.

    Snowball keeps the endings of who does something (-er, -or) and of what is done (-ery, -ory).
    """
    found = stem(lexicon().lemmas.get(word, singular(word)))
    return re.sub(r"(?:[eo]ri|[eo]r)$", "", found) if len(found) > 4 else found


@cache
def _meanings() -> tuple[Mapping[str, set[str]], Mapping[str, set[str]], Mapping[str, set[str]]]:
    """Roots of listed words -> the roots of words of the same meaning, of the contrary, of the converse."""
    same, contrary, converse = (defaultdict[str, set[str]](set) for _ in range(3))
    listed = [(pair, contrary) for pair in section("opposites")["pairs"]]
    listed += [((words, ""), contrary) for words in section("synonyms")]
    listed += [(pair, converse) for pair in section("converses")]
    for sides, others in listed:
        one, other = ({root(word) for word in side.split()} for side in sides)
        for own, theirs in (one, other), (other, one):
            for word in own:
                same[word] |= own - {word} if others is contrary else set()
                others[word] |= theirs
    return same, contrary, converse


@lru_cache(maxsize=100_000)
def synonyms(word: str) -> frozenset[str]:
    """The roots of listed words that mean the same as a word."""
    return frozenset(_meanings()[0].get(root(word), ()))


@lru_cache(maxsize=100_000)
def converses(word: str) -> frozenset[str]:
    """The roots of listed words for the other side of the relation that a word names."""
    return frozenset(_meanings()[2].get(root(word), ()))


@lru_cache(maxsize=100_000)
def opposites(word: str) -> frozenset[str]:
    """The roots of words that mean the contrary of a word, by the list and by prefix (paid, unpaid)."""
    own = root(word)
    found = frozenset(_meanings()[1].get(own, ()))
    if len(own) <= SHORT_ROOT or word in word_list("stop"):
        return found
    prefixes = section("opposites")["prefixes"].split()
    bases = {root(word.removeprefix(p)) for p in prefixes if len(word) > len(p) + SHORT_ROOT}
    return (found | bases | {root(p + word) for p in prefixes}) - {own}


@cache
def _function_words(language: str) -> Mapping[str, str]:
    """Function words of a language -> the English word each is read as."""
    grammar = _yaml(f"{language}.yaml").items()
    return {word: english for english, words in grammar for word in words.split()}


@lru_cache(maxsize=1_024)
def grammar_of(question: str) -> Mapping[str, str]:
    """The function words of the language that has most of a question's words, with the English ones."""
    words = [token.text.lower() for token in tokenise(question)]
    grammar = max(map(_function_words, LANGUAGES), key=lambda found: sum(word in found for word in words))
    english = [word in word_list("function") for word in words]
    is_english = english[:1] == [True] and words[0] not in grammar
    least = max(_LEAST_GRAMMAR, sum(english) + 1)
    return {} if is_english or sum(word in grammar for word in words) < least else grammar
