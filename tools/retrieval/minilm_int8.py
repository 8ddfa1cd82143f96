"""The embedded encoder in whole numbers of eight bits: rough vectors in less than half the time.

Good for telling which of many texts are worth an exact vector, and for nothing that is kept. Weights are
rounded column by column when a process first needs them; activations as they come (dynamic quantisation).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from triplewise.tools.retrieval.minilm import (
    GRAPH_VERSION,
    WEIGHTS_SHA256,
    Graph,
    Weights,
    build_graph,
    kept_graph,
    session,
)

_LARGEST = 127


def rough_session(weights: Weights, cache: Path, threads: int | None) -> ort.InferenceSession:
    """The model with rounded weights, ready to run; its graph is kept in the cache folder."""
    rounded_weights = rounded(weights)
    path = cache / f"minilm-{WEIGHTS_SHA256[:16]}-v{GRAPH_VERSION}-rough.onnx"
    graph = kept_graph(path, lambda: build_graph(rounded_weights, _RoughGraph()))
    return session(graph, rounded_weights, threads)


def rounded(weights: Weights) -> Weights:
    """The weights with each matrix of a layer as int8 (in, out) and a scale for each output."""
    tensors: dict[str, np.ndarray] = {}
    for name, tensor in weights.tensors.items():
        if not name.startswith("encoder.") or tensor.ndim != 2:
            tensors[name] = tensor
            continue
        stem = name.removesuffix(".weight")
        scale = np.maximum(np.abs(tensor).max(axis=1), 1e-12) / _LARGEST
        tensors[f"{stem}.scale"] = scale.astype(np.float32)
        tensors[f"{stem}.rough"] = np.ascontiguousarray(np.rint(tensor / scale[:, None]).T, np.int8)
    return Weights(weights.path, tensors)


class _RoughGraph(Graph):
    """Multiplies in whole numbers."""

    def linear(self, source: str, weights: str, output: str) -> str:
        """`source` x W^T + b, roughly."""
        inputs = [source, f"{weights}.rough", f"{weights}.scale", "", f"{weights}.bias"]
        return self.add("DynamicQuantizeMatMul", inputs, output, fused=True)
