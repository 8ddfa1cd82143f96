"""How sure an answer is: evidence about its best derivation, and a calibrated probability of being right.

The share of an answer among the derivations of a question does not say whether any is right: a fact that the
graph lacks gives its nearest neighbour all of the mass. Boosted regression trees on the share and on what the
best derivation leaves uncovered or takes on weak evidence do, trained on questions of several graphs,
unanswerable ones among them (`evals/train_parser.py`); `triplewise calibrate` trains them on one's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import read_text
from triplewise.tools.core.terms import IRI, Literal, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.parsing.learn import Features, Share, own_file
from triplewise.tools.pyql.program import AnyOf, Fact, PyQL, Typed

if TYPE_CHECKING:
    from triplewise.tools.parsing.reading import Reading

FILE = "confidence.json"  # Name of the data file, in this package and next to the profile of a loaded graph
MODEL_FILE = "model_confidence.json"  # The same of answers by language models
_EVIDENCE = yaml.safe_load(files(__package__).joinpath("evidence.yaml").read_text("utf-8"))
SUMS: Mapping[str, tuple[int, str]] = {name: (sign, of) for name, (sign, of) in _EVIDENCE["sums"].items()}
FEATURES: Mapping[str, int] = _EVIDENCE["answer"] | {name: sign for name, (sign, _) in SUMS.items()}
"""Sums of features, and all evidence, as `evidence.yaml` describes them."""
DOUBTFUL, NEAR = 0.5, 0.1  # the highest probability where doubted, and the score by which a rival is near
MODEL_FEATURES: Mapping[str, int] = _EVIDENCE["model"]  # for the answer of a language model
Tree: TypeAlias = float | tuple[str, float, Any, Any]
"""A regression tree: a value, or a feature, a number, and the trees for values up to it and above it."""


def query_features(
    program: PyQL, values: Collection[str], readings: Iterable[Reading], profile: Profile
) -> dict[str, float]:
    """Return the evidence for the answer of a language model's query, by the names of `MODEL_FEATURES`.

    `agreement`: how sure the best reading is, by the shipped calibration; negative where it has another
    answer. `alike`: what share of their content (`content_of`) the query and a reading have in common, on
    average over readings by their shares. `same_operators`: the same of the operators of query and best
    reading. `size`: the logarithm of the number of values.
    """
    judged = [reading for reading in readings if reading.features]
    own, others = content_of(program), [content_of(PyQL.parse(r.program, profile)) for r in judged]
    sure = shipped().probability(judged[0].features) if judged else 0.0
    shares = [max(r.features.get("share", 0.0), 1e-6) for r in judged]
    alike = sum(share * _in_common(own, parts) for share, parts in zip(shares, others, strict=True))
    operators = [{part for part in parts if isinstance(part, tuple)} for parts in (own, *others[:1])]
    found = {
        "agreement": sure if judged and judged[0].has_answer(values) else -sure,
        "alike": alike / sum(shares) if judged else 0.0,
        "same_operators": _in_common(operators[0], operators[-1]) if judged else 0.0,
        "size": math.log1p(len(values)),
    }
    return {name: round(float(found[name]), 6) for name in MODEL_FEATURES}


def content_of(value: object) -> frozenset[object]:
    """Return the relations, classes and values that a program names, and its operators as tuples."""
    if isinstance(value, IRI | Literal):
        return frozenset((value,))
    if isinstance(value, tuple):
        return frozenset[object]().union(*map(content_of, value))
    if isinstance(value, Variable) or not is_dataclass(value):
        return frozenset()
    own = tuple(getattr(value, f.name) for f in fields(value) if f.name not in ("kind", "answer"))
    how = (type(value).__name__, *(part for part in own if isinstance(part, bool | str)))
    is_plain = isinstance(value, Fact | Typed | AnyOf) or how == (PyQL.__name__, False)
    return content_of(own) | frozenset(() if is_plain else (how,))


def _in_common(one: Set[object], other: Set[object]) -> float:
    """The share of common members (Jaccard); of two empty sets 1."""
    return len(one & other) / len(one | other) if one | other else 1.0


def is_answer(features: Features) -> bool:
    """Whether a derivation with such features has an answer, and more than what the question names."""
    return not (features.get("nothing") or features.get("answer_named"))


def trust_features(features: Sequence[Features], ranked: Sequence[Share], place: int = 0) -> dict[str, float]:
    """Return the evidence for the answer at a place of `ranked` (`shares`), by the names of `FEATURES`."""
    probability, best, score = ranked[place]
    others = [share for i, share in enumerate(ranked) if i != place]
    rival = max((share.probability for share in others), default=0.0)
    names = SUMS["uncovered"][1], SUMS["uncovered_names"][1]
    uncovered = [sum(_sum(words, features[share.best]) for words in names) for share in ranked]
    fair = sum(s.probability for s, n in zip(ranked, uncovered, strict=True) if n <= uncovered[place])
    found = {
        "share": probability,
        "lead": math.log(probability + 1e-4) - math.log(rival + 1e-4),
        "fair_share": probability / fair,
        "nothing": sum(s.probability for s in ranked if not is_answer(features[s.best])),
        "score": score,
        "near_rival": max(0.0, NEAR - score + max((share.score for share in others), default=-math.inf)),
        "answers": len(ranked),
        **{name: _sum(parts, features[best]) for name, (_, parts) in SUMS.items()},
    }
    return {name: round(float(found[name]), 6) for name in FEATURES}


def _sum(names: str, features: Features) -> float:
    """The sum of some features; those with - are taken away."""
    return sum(-features.get(n[1:], 0.0) if n[0] == "-" else features.get(n, 0.0) for n in names.split())


@dataclass(frozen=True, slots=True)
class Calibration:
    """Boosted regression trees on evidence, as the data file holds them."""

    names: Sequence[str]  # of the evidence
    bias: float  # log odds, to which every tree adds its value
    trees: Sequence[Tree]
    min_confidence: float  # from where an answer counts as answered
    floor: float = 0.0  # below which it helps nobody
    provenance: Mapping[str, Any] = field(default_factory=dict)  # what it was trained on, and figures

    def probability(self, features: Mapping[str, float]) -> float:
        """Return how probable it is that an answer with such evidence is exactly right."""
        z = self.bias + sum(value_of(tree, features) for tree in self.trees)
        probability = 1 / (1 + math.exp(-max(min(z, 30.0), -30.0)))
        doubted = any(features.get(name, 0.0) > most for name, most in _EVIDENCE["doubts"].items())
        return min(probability, DOUBTFUL) if doubted else probability

    def write(self, path: Path) -> None:
        """Write the data file, one attribute a line."""
        lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(self).items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def value_of(tree: Tree, features: Mapping[str, float]) -> float:
    """Return the value that a tree gives for some evidence."""
    while not isinstance(tree, (int, float)):
        name, most, low, high = tree
        tree = low if features[name] <= most else high
    return tree


def read_calibration(text: str, path: Path, names: Iterable[str] = FEATURES) -> Calibration:
    """Return the calibration of a data file. Raises `DataError` for another file, or other evidence."""
    try:
        data = json.loads(text)
        calibration = Calibration(**data)
        if set(calibration.names) != set(names):
            raise ValueError("it is of other evidence")
        calibration.probability(dict.fromkeys(names, 0.0))
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError) as error:
        reason = f"no calibration of this version ({error}); run `triplewise calibrate` again"
        raise DataError(reason, path) from error
    return calibration


@cache
def shipped(file: str = FILE) -> Calibration:
    """Return the calibration that comes with the package: `FILE`, or `MODEL_FILE` of any language model."""
    path, names = files(__package__).joinpath(file), FEATURES if file == FILE else MODEL_FEATURES
    return read_calibration(path.read_text("utf-8"), Path(str(path)), names)


def calibration_for(kg: KnowledgeGraph, file: str | None = None) -> Calibration:
    """Return the calibration of a file, else of the graph where it was calibrated, else the shipped one."""
    path = Path(file) if file is not None else own_file(kg, FILE)
    if path is None or (file is None and not path.is_file()):
        return shipped()
    return read_calibration(read_text(path), path)
