"""Self-learning: its phases, and a kill in any of them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.films import FILMS, write_graph, write_questions
from tests.support.learning_kills import NoteLearner
from triplewise.graphs.learning import JOBS, LearningConfig, LearningState, learn, reason_to_stop
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import exclusive
from triplewise.tools.learning.trajectory import Trajectory, read_trajectories

ROOT = Path(__file__).parent.parent.parent
POINTS = (
    "validated 0 1",
    "torn 2",
    "explored 1 3",
    "torn 3",
    "refined 1 2",
    "update",
    "validated 1 1",
    "explored 2 4",
    "update",
)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    write_graph(folder / "films.nt")
    write_questions(folder / "questions.jsonl")
    write_questions(folder / "birth.jsonl", "which one glimmers at {}?")
    return folder


def config(films: Path, **values: Any) -> LearningConfig:
    given = {"questions": str(films / "questions.jsonl"), "share": 0.3, "epsilon": -1.0, **values}
    return LearningConfig(
        **{**given, "context": {"kg": str(films / "films.nt"), **values.get("context", {})}}
    )


def run(films: Path, into: Path, learner: Any = None, **values: Any) -> LearningState:
    return learn(config(films, **values), into, learner=learner or NoteLearner())


@pytest.fixture(scope="module")
def whole(films: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    into = tmp_path_factory.mktemp("whole") / "run"
    run(films, into)
    return into


def test_a_run_explores_refines_merges_updates_and_validates(whole: Path) -> None:
    report = json.loads((whole / "report.json").read_text())
    assert [s["iteration"] for s in report["scores"]] == [0, 1, 2]
    assert [r["explored"]["questions"] for r in report["rounds"]] == [8, 8]
    assert report["settings"] == {"draw_seed": 3}
    assert report["stopped"] == "all 2 iterations are done"
    made = read_trajectories(whole / "trajectories.jsonl")
    attempts = [t for t in made if t.origin != "validated"]
    assert Counter((t.iteration, t.origin) for t in attempts) == {
        (i, origin): 8 for i in (0, 1) for origin in ("explored", "refined")
    }
    alien = next(t for t in attempts if t.id == "Vertigo")
    assert (alien.reward, alien.f1, alien.predicted) == (1.0, 1.0, ("Alfred Hitchcock",))
    assert [t.call for t in alien.turns] == ["get_rules", "-[directed_by]->", "finish"]
    assert [(c.chosen, set(c.offered)) for c in alien.choices] == [
        ("directed_by", {"directed_by", "release_year"})
    ]
    (learned,) = whole.glob("policy-1-*/weights")  # the ids of what it learned from
    assert learned.read_text() == "".join(t.id for t in attempts[:8] if t.reward > 0)
    held_out = {t.id for t in made} - {t.id for t in attempts}
    assert len(held_out) == 3


def test_a_kill_in_any_phase_loses_nothing_and_repeats_nothing(
    films: Path, whole: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(asdict(config(films))))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.learning_kills", str(tmp_path), *POINTS],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=ROOT,
    )
    children = [json.loads(line) for line in done.stdout.splitlines()]
    assert [c["status"] for c in children] == [-signal.SIGKILL] * len(POINTS) + [0], done.stderr
    final = children[-1]["kept"]
    begun = [json.loads(line) for line in (tmp_path / "begun.jsonl").read_text().splitlines()]
    for number, killed in enumerate(children):
        later = {c["pid"] for c in children[number + 1 :]}
        for name, text in killed["kept"].items():
            complete = text[: text.rfind("\n") + 1]
            assert final[name].startswith(complete), f"lost by the kill at {killed['point']!r}"
            there = {
                tuple(json.loads(line)[k] for k in ("iteration", "origin", "id"))
                for line in complete.splitlines()
            }
            again = [b for b in begun if b[3] in later and tuple(b[:3]) in there]
            assert again == [], f"made twice after the kill at {killed['point']!r}"
    found, wanted = (read_trajectories(at / "trajectories.jsonl") for at in (tmp_path / "run", whole))
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    same = ["report.json", "settings.yaml", *(str(p.relative_to(whole)) for p in whole.glob("policy-*/*"))]
    assert all((tmp_path / "run" / n).read_text() == (whole / n).read_text() for n in same)


def test_results_do_not_depend_on_the_number_of_jobs(
    films: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JOBS, "embedded", 4)
    run(films, tmp_path)
    for path in (whole / "report.json", *whole.glob("policy-*/*")):
        assert (tmp_path / path.relative_to(whole)).read_text() == path.read_text()


def test_a_run_that_has_ended_is_not_run_again(films: Path, whole: Path) -> None:
    told: list[tuple[Any, ...]] = []
    state = learn(config(films), whole, learner=NoteLearner(), report=lambda *given: told.append(given))
    assert state.stopped == "all 2 iterations are done"
    assert told == []


def test_refining_finds_what_no_word_of_the_question_says(films: Path, tmp_path: Path) -> None:
    """The way to the answer is in no plan; the reward of the chains around the topic shows it."""
    answers = {film: where for film, (_, where, _) in FILMS.items()}
    path = films / "birth.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({**r, "answers": [answers.get(r["id"], "x")]}) + "\n" for r in records)
    )
    done = run(films, tmp_path, questions=str(path), iterations=1).rounds[0]
    assert done["refined"]["reward"] > 0.8 > done["explored"]["reward"]


class Worsener(NoteLearner):
    """Makes the policy worse: it has no time."""

    def __call__(
        self, trajectories: Sequence[Trajectory], into: Path, settings: Any, progress: Any
    ) -> dict[str, Any]:
        return {"max_seconds": 1e-6}


def test_learning_ends_without_a_gain_and_the_best_policy_is_kept(films: Path, tmp_path: Path) -> None:
    state = run(films, tmp_path, Worsener(), epsilon=0.001)
    assert state.iteration == 1
    assert "the gain in validation F1 is negligible (-" in state.stopped
    assert state.settings == {"max_seconds": 1e-6}
    assert state.best == {}
    assert "max_seconds" not in (tmp_path / "settings.yaml").read_text()


@pytest.mark.parametrize(
    ("f1", "said"),
    [
        ((0.5,), ""),
        ((0.5, 0.6), ""),
        ((0.5, 0.5005), "negligible"),
        ((0.5, 0.4), "negligible"),
        ((0.5, 0.6, 0.7), "all 2 iterations are done"),
    ],
)
def test_when_to_stop(f1: tuple[float, ...], said: str) -> None:
    found = reason_to_stop([{"f1": value} for value in f1], 2, 0.001)
    assert said in found
    assert bool(said) == bool(found)


def test_without_any_reward_there_is_nothing_to_learn(films: Path, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    records = [json.loads(line) for line in (films / "questions.jsonl").read_text().splitlines()]
    path.write_text("".join(json.dumps({**r, "answers": ["nobody"]}) + "\n" for r in records))
    state = run(films, tmp_path / "run", questions=str(path))
    assert "nothing to learn from" in state.stopped
    assert state.iteration == 0


def test_a_question_about_something_unknown_does_not_end_the_run(films: Path, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    records = [json.loads(line) for line in (films / "questions.jsonl").read_text().splitlines()]
    records[0]["entities"], records[1]["entities"] = {"Alien": "http://films.example/No"}, {"Nothing": None}
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    state = run(films, tmp_path / "run", questions=str(path), iterations=1)
    assert state.rounds[0]["explored"]["crashed"] + state.scores[0]["crashed"] == 2
    made = read_trajectories(tmp_path / "run" / "trajectories.jsonl")
    said = {t.status for t in made if t.status.startswith("crashed")}
    assert any("has no entity" in status for status in said)
    assert any("is called 'Nothing'" in status for status in said)


def test_what_cannot_be_learned_is_refused(films: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds a run with other settings"):
        learn(config(films, iterations=9), whole, learner=NoteLearner())
    with pytest.raises(ConfigurationError, match="cannot learn with --model embedded"):
        run(films, tmp_path / "model", policy="model")
    (tmp_path / "one").mkdir()
    with (
        exclusive(tmp_path / "one" / "lock", AssertionError()),
        pytest.raises(ConfigurationError, match="another process is learning"),
    ):
        learn(config(films), tmp_path / "one", learner=NoteLearner())


@pytest.mark.parametrize("content", ["", "[" * 100_000, '{"scores": 5}', '{"scores": [{"f1": "x"}]}', "\x00"])
def test_a_damaged_state_is_named(films: Path, whole: Path, tmp_path: Path, content: str) -> None:
    into = Path(shutil.copytree(whole, tmp_path / "run"))
    (into / "report.json").write_text(content)
    with pytest.raises(DataError, match=r"report\.json: holds no state of learning"):
        run(films, into)
