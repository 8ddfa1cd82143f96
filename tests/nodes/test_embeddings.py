"""Embeddings of a server over real HTTP, and relations ranked by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.openai_server import Fault, OpenAIServer
from tests.support.opened import close_all
from triplewise.nodes import models
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.models import BATCH, OpenAIEncoder, open_embeddings
from triplewise.nodes.reasoning import ranker
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError, OutOfTimeError
from triplewise.tools.retrieval.encoder import Encoder

Start = Callable[..., OpenAIServer]


def letters(text: str) -> Sequence[float]:
    """Counts of letters: vectors whose cosines can be followed by hand."""
    return [text.lower().count(chr(97 + i)) + 0.001 for i in range(26)]


def encoder_on(server: OpenAIServer, model: str = "scripted", **settings: Any) -> OpenAIEncoder:
    return open_embeddings(
        Context(ranking_model=model, base_url=server.url, **{"model_retries": 3, **settings})
    )


def test_unit_vectors_of_texts_each_sent_once(openai_server: Start) -> None:
    server = openai_server(embed=letters)
    encoder = encoder_on(server)
    vectors = encoder.encode(["abba", "b", "abba"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    expected = np.array(letters("abba")) / np.linalg.norm(letters("abba"))
    assert np.allclose(vectors[0], expected, atol=1e-6)
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(encoder.encode(["b"])[0], vectors[1])
    assert server.embedded == [["abba", "b"]]
    assert isinstance(encoder, Encoder)
    assert (encoder.dimension, encoder.encode([]).shape) == (26, (0, 26))


def test_many_texts_go_in_batches_and_an_empty_one_is_no_reason_to_be_refused(openai_server: Start) -> None:
    server = openai_server()
    texts = [f"text {i}" for i in range(2 * BATCH)]
    vectors = encoder_on(server).encode([*texts, ""])
    assert [len(batch) for batch in server.embedded] == [BATCH, BATCH, 1]
    assert np.array_equal(encoder_on(server).encode(texts[-2:]), vectors[-3:-1])


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.CUT])
def test_what_passes_is_tried_again(openai_server: Start, fault: Fault) -> None:
    server = openai_server(faults=[fault])
    assert encoder_on(server).encode(["a"]).shape == (1, 32)
    assert len(server.embedded) == 2


def test_a_server_that_stays_broken_is_given_up(openai_server: Start) -> None:
    with pytest.raises(ModelUnavailableError, match="given up after 4 tries"):
        encoder_on(openai_server(faults=[Fault.SERVER_ERROR] * 9)).encode(["a"])
    with pytest.raises(ModelUnavailableError, match="did not send a list of embeddings"):
        encoder_on(openai_server(faults=[Fault.EMPTY_CHOICES] * 9)).encode(["a"])


def test_vectors_of_another_length_are_refused(openai_server: Start) -> None:
    encoder = encoder_on(openai_server(embed=lambda text: [1.0] * len(text)))
    assert encoder.encode(["four"]).shape == (1, 4)
    with pytest.raises(ModelUnavailableError, match="expected 1 vectors of equal length"):
        encoder.encode(["seventh"])
    with pytest.raises(ModelUnavailableError):
        encoder.encode(["ragged", "lengths"])


def test_what_the_person_must_set_right(openai_server: Start) -> None:
    server = openai_server(key="sk-right")
    with pytest.raises(ConfigurationError, match="check the key in environment variable OPENAI_API_KEY"):
        encoder_on(server).encode(["a"])
    with pytest.raises(ConfigurationError, match="is empty"):
        open_embeddings(Context(ranking_model="openai: ", base_url=server.url))
    with pytest.raises(ConfigurationError, match="no key for https://api"):
        open_embeddings(Context())


@pytest.fixture(autouse=True)
def no_encoder_of_an_earlier_server() -> None:
    """A server of an earlier test may have had the same port."""
    models._encoder.cache_clear()


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A film with four relations, and a cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "films.txt"
    file.write_text("Alien|directed_by|Scott\nAlien|release_year|1979\nAlien|has_genre|Horror\nAlien|zzz|Z\n")
    return str(file)


def test_relations_are_ranked_by_the_server(
    openai_server: Start, films: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = openai_server(models=["letters"], embed=letters, key="sk-ranked")
    context = Context(kg=films, ranking="openai", ranking_model="letters", base_url=server.url)
    monkeypatch.setenv(context.api_key_env, "sk-ranked")
    rank = ranker("zzzz", Environment(context))
    forward, backward = rank(["directed_by", "has_genre", "zzz"], ["zzz"])
    rank(["directed_by", "has_genre", "zzz"], [])
    assert (forward[0], backward) == ("zzz", ["zzz"])
    assert server.embedded == [["zzzz"], ["directed by", "has genre", "zzz"]]


def test_a_run_waits_for_vectors_as_long_as_it_may(openai_server: Start, films: str) -> None:
    server = openai_server(faults=[Fault.SLOW], slow=30.0)
    env = Environment(Context(kg=films, ranking="openai", base_url=server.url))
    env.deadline.restart(0.5)
    with pytest.raises(OutOfTimeError, match="left to the run"):
        ranker("zzzz", env)(["directed_by"], [])


@pytest.mark.parametrize("ranking", ["openai", "sentence-transformers"])
def test_the_next_process_embeds_no_relation_again(openai_server: Start, films: str, ranking: Any) -> None:
    server = openai_server(models=["letters"], embed=letters)
    context = Context(kg=films, ranking=ranking, ranking_model="letters", base_url=server.url)
    first = ranker("zzzz", Environment(context))(["directed_by", "has_genre", "zzz"], [])
    close_all()  # another KG object and another encoder: only what lies on disk is left
    models._encoder.cache_clear()
    again = ranker("zzzz", Environment(context))(["directed_by", "has_genre", "zzz"], [])
    assert again == first
    assert [t for batch in server.embedded for t in batch].count("has genre") == (ranking == "openai")


def test_without_ranking_nothing_is_embedded(films: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triplewise.nodes.environment.open_encoder", None)
    context = Context(kg=films, ranking="none", relation_cut=2)
    rank = ranker("anything", Environment(context))
    assert rank(["directed_by", "has_genre"], ["zzz"]) == (["directed_by", "has_genre"], [])
