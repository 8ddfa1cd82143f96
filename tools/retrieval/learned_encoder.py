"""The embedded encoder with what it has learned: LoRA on all-MiniLM-L6-v2, merged when it is opened.

A folder holds `adapter_model.safetensors` and `adapter_config.json` as peft writes them (some 1 MB), and
`encoder.json`: how the adapter was made and how much its judgement weighs. The weights of the installed
package stay as they are; the merged ones run on ONNX Runtime, as fast as the embedded encoder, without torch.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from triplewise.tools.core.errors import DataError
from triplewise.tools.retrieval.encoder import (
    EMBEDDED,
    LEARNED,
    WEIGHTS_SHA256,
    EmbeddedEncoder,
    Encoder,
    map_weights,
    open_encoder,
    weights_file,
)

ADAPTER = "adapter_model.safetensors"
_LORA_A = re.compile(r"(encoder\.layer\..+)\.lora_A(?:\.default)?\.weight$")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `encoder.json`.

    Attributes:
        scale: what the product of an adapter's two matrices is multiplied with (LoRA's alpha / rank).
        path_weight: weight of the similarity of question and path beside the score of single words.
        sure: similarity that most right paths have; the softmax of the training says nothing of its size.
        base: the encoder learned from. weights: sha256 of the published model's weights.
        seed, trajectories, iteration: of the training.
        accuracy: share of held-out choices that are right, at `path_weight`. before: the same, at weight 0.
    """

    scale: float
    path_weight: float
    sure: float = 0.5
    base: str = EMBEDDED
    weights: str = ""
    seed: int = 0
    trajectories: int = 0
    iteration: int = 1
    accuracy: float = 0.0
    before: float = 0.0


class LearnedEncoder(EmbeddedEncoder):
    """The encoder that a folder of self-learning holds; see `triplewise.tools.planning.lexical.score`.

    Attributes:
        manifest: how it was made, and how much its judgement weighs.

    Raises:
        DataError: the folder is incomplete, damaged, or made for other weights.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LEARNED
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            names = {f.name for f in fields(Manifest)}
            self.manifest = Manifest(**{key: value for key, value in record.items() if key in names})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"no learned encoder ({error}); learn again", path) from error
        if self.manifest.weights not in ("", WEIGHTS_SHA256):
            raise DataError("made for other weights than those installed; learn again", path)
        super().__init__(name=str(folder), learned=_merged(folder / ADAPTER, self.manifest.scale))

    @property
    def words(self) -> Encoder:
        """The encoder of single words, about which nothing was learned."""
        return open_encoder(EMBEDDED)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a learned encoder."""
    (folder / LEARNED).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")


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
