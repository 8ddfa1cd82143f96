"""The MiniLM encoder learns choices: it ranks what was taken first, and is the same when opened again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.learning import encoder_training
from triplewise.tools.learning.encoder_training import (
    ChoiceLoss,
    model_with_adapter,
    train_encoder,
    training_rows,
)
from triplewise.tools.learning.exploration import Question, explore, refine
from triplewise.tools.learning.trajectory import Choice, Trajectory
from triplewise.tools.linking.linker import link
from triplewise.tools.parsing.chains import Chain, ChainGrower
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.local import index_for
from triplewise.tools.retrieval.encoder import (
    ADAPTER,
    EMBEDDED,
    Encoder,
    LearnedEncoder,
    open_encoder,
    vectors_of,
)
from triplewise.tools.retrieval.similarity import words_encoder

pytestmark = pytest.mark.usefixtures("one_thread")
RELATIONS = ("alpha", "beta", "gamma", "delta")
ASKED = {"alpha": "grumbled at", "beta": "twisted by", "gamma": "polished with", "delta": "sung under"}
SMALL = {"UPPER": 1, "RANK": 8, "EPOCHS": 8, "BATCH": 8, "NEGATIVES": 3, "RATE": 3e-3}
QUICK = {"RANK": 4, "EPOCHS": 1, "NEGATIVES": 2}


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Trainings of seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(encoder_training, name, value)
        yield


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    """Things with four relations whose names say nothing of what is asked."""
    file = tmp_path_factory.mktemp("kg") / "facts.nt"
    base = "http://example.org/"
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    facts = [f"<{base}t{i}> <{base}{r}> <{base}{r}{i}> ." for i in range(12) for r in RELATIONS]
    facts += [f'<{base}t{i}> {label} "Thing{i}" .' for i in range(12)]
    file.write_text("\n".join(facts) + "\n", encoding="utf-8")
    return open_kg(file)


def made(kg: KnowledgeGraph, number: int, relation: str) -> Trajectory:
    short = {r: kg.profile.short(kg.profile.expand(r) or _iri(r)) for r in RELATIONS}
    return Trajectory(
        f"{relation}{number}",
        f"what was thing{number} {ASKED[relation]}",
        (kg.profile.short(_iri(f"{relation}{number}")),),
        {f"thing{number}": kg.profile.short(_iri(f"t{number}"))},
        reward=1.0,
        f1=1.0,
        choices=(Choice(short[relation], tuple(short.values())),),
    )


def _iri(name: str) -> IRI:
    return IRI(f"http://example.org/{name}")


@pytest.fixture(scope="module")
def trajectories(kg: KnowledgeGraph) -> list[Trajectory]:
    return [made(kg, n, r) for n in range(6) for r in RELATIONS]


@pytest.fixture(scope="module")
def folder(
    kg: KnowledgeGraph, trajectories: list[Trajectory], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A learned encoder."""
    into = tmp_path_factory.mktemp("learned") / "encoder"
    train_encoder(trajectories, into, kg=kg)
    return into


def first(kg: KnowledgeGraph, encoder: str, trajectory: Trajectory) -> bool:
    """Whether the path taken is the likest of one relation."""
    opened = open_encoder(encoder)
    (row,) = training_rows([trajectory], kg, opened)
    paths = [row["path"], *(text for name, text in row.items() if name.startswith("negative"))]
    fits = opened.encode([p for p in paths if " " not in p]) @ opened.encode([row["question"]])[0]
    return int(np.argmax(fits)) == 0 and fits[0] > 0


def test_what_was_taken_ranks_first_for_entities_never_seen(kg: KnowledgeGraph, folder: Path) -> None:
    assert all(first(kg, str(folder), made(kg, 11, relation)) for relation in RELATIONS)


def test_another_way_to_say_the_chosen_path_is_no_negative(kg: KnowledgeGraph) -> None:
    """Two questions of a batch with the same path do not push it away from each other."""
    import torch

    model = model_with_adapter()
    loss = ChoiceLoss(model)
    columns = [model.tokenize(["who made it", "who built it"]), model.tokenize(["maker", "maker"])]
    assert loss(columns, torch.ones(2)).item() == pytest.approx(0.0, abs=1e-6)


def test_opened_again_it_is_the_same_and_what_was_trained_is_what_runs(folder: Path, tmp_path: Path) -> None:
    texts = ["what was entity twisted by", "beta"]
    one, other = LearnedEncoder(folder), LearnedEncoder(shutil.copytree(folder, tmp_path / "copied"))
    assert (one.encode(texts) == other.encode(texts)).all()
    trained = model_with_adapter(folder).encode(texts, normalize_embeddings=True)
    assert np.allclose(trained, one.encode(texts), atol=1e-3)


def test_the_same_trajectories_give_the_same_encoder(
    kg: KnowledgeGraph, trajectories: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in QUICK.items():
        monkeypatch.setattr(encoder_training, name, value)
    for name in "ab":
        train_encoder(trajectories, tmp_path / name, kg=kg)
    assert (tmp_path / "a" / ADAPTER).read_bytes() == (tmp_path / "b" / ADAPTER).read_bytes()


def test_base_vectors_and_chains_by_words_stay_as_they_are(kg: KnowledgeGraph, folder: Path) -> None:
    base, learned = open_encoder(EMBEDDED), open_encoder(str(folder))
    assert not np.allclose(base.encode(["twisted by"]), learned.encode(["twisted by"]), atol=1e-3)
    assert words_encoder(base) is base
    assert words_encoder(learned) is base
    assert vectors_of(kg, learned) is not vectors_of(kg, base)
    (row,) = training_rows([made(kg, 0, "beta")], kg, base)
    index = index_for(kg, base, "", tuple)
    text = row["question"].replace("entity", "t0")
    question = ground(text, index, link(text, kg, {"t0": kg.profile.short(_iri("t0"))}, base))
    (topic,) = question.of_kind("entity")

    def chains(encoder: Encoder) -> dict[str, Chain]:
        found = [c for c in ChainGrower(question, [topic], kg, encoder).chains(topic) if len(c.path) == 1]
        return {kg.profile.short(index.rels[c.path[0][0]].path[0][0]): c for c in found}

    plain, better = chains(base), chains(learned)
    assert {chain.learned for chain in plain.values()} == {0.0}
    names = list(plain)
    added = [better[name].score - plain[name].score for name in names]
    cosines = learned.encode(names) @ learned.encode([row["question"]])[0]
    assert np.allclose(added, learned.path_weight * cosines, atol=1e-5)  # type: ignore[attr-defined]


def test_a_killed_training_leaves_nothing(
    kg: KnowledgeGraph, trajectories: list[Trajectory], tmp_path: Path
) -> None:
    def kill(what: str, done: int, total: int | None) -> None:
        if what == "training" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_encoder(trajectories, tmp_path / "killed", kg=kg, progress=kill)
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_left_is_cleared_and_learning_goes_on_from_a_learned_encoder(
    kg: KnowledgeGraph,
    trajectories: list[Trajectory],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / ".next.loading-killed").mkdir()
    monkeypatch.setattr(encoder_training, "EPOCHS", 1)
    train_encoder(trajectories, tmp_path / "next", base=str(folder), kg=kg)
    assert [path.name for path in tmp_path.iterdir()] == ["next"]
    assert first(kg, str(tmp_path / "next"), made(kg, 11, "gamma"))
    written = (tmp_path / "next" / ADAPTER).stat().st_mtime_ns
    train_encoder(trajectories, tmp_path / "next", kg=kg)
    assert (tmp_path / "next" / ADAPTER).stat().st_mtime_ns == written


def test_too_little_to_learn_from_is_told(kg: KnowledgeGraph, tmp_path: Path) -> None:
    bad = [Trajectory(str(n), "what", ("a",), reward=1.0) for n in range(9)]
    with pytest.raises(ConfigurationError, match="only 0 of 9 trajectories chose relations"):
        train_encoder(bad, tmp_path / "none", kg=kg)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / ADAPTER).write_bytes(b"x"), "no learned encoder"),
        (lambda f: (f / "encoder.json").write_text("{"), "no learned encoder"),
        (
            lambda f: (f / "encoder.json").write_text('{"scale": 1, "path_weight": 1, "weights": "0"}'),
            "other weights",
        ),
    ],
)
def test_a_damaged_folder_is_told(
    folder: Path, tmp_path: Path, damage: Callable[[Path], object], said: str
) -> None:
    copied = shutil.copytree(folder, tmp_path / "copied")
    damage(copied)
    with pytest.raises(DataError, match=said):
        open_encoder(str(copied))


def test_the_policy_explores_refines_and_learns(kg: KnowledgeGraph, tmp_path: Path) -> None:
    asked = [
        Question(f"{r}{n}", f"what was Thing{n} {ASKED[r]}", {f"Thing{n}": kg.profile.short(_iri(f"t{n}"))},
                 (kg.profile.short(_iri(f"{r}{n}")),))
        for n in range(4) for r in RELATIONS
    ]  # fmt: skip
    base = open_encoder(EMBEDDED)
    explored = [explore(kg, base, q, q.attempt()) for q in asked]
    refined = [refine(kg, base, q, t) for q, t in zip(asked, explored, strict=True)]
    assert all(r.reward >= e.reward and r.f1 >= e.f1 for r, e in zip(refined, explored, strict=True))
    assert all(r.f1 == 1.0 and r.choices[0].chosen.endswith(q.id.rstrip("0123456789"))
               for r, q in zip(refined, asked, strict=True))  # fmt: skip
    train_encoder(refined, tmp_path / "e", kg=kg)
    learned = open_encoder(str(tmp_path / "e"))
    fresh = Question("new", f"what was Thing9 {ASKED['delta']}", {"Thing9": kg.profile.short(_iri("t9"))},
                     (kg.profile.short(_iri("delta9")),))  # fmt: skip
    assert explore(kg, learned, fresh, fresh.attempt()).f1 == 1.0
