"""Tiny language models with random weights and a tokenizer of their own, made in a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = (
    "You answer questions from a knowledge graph. Thought 1: Action 1: search_neighbor(Q1, P57) finish(Q2)",
    "Question: who directed Alien? Entities: Alien: Q103569. Observation 1: Ridley Scott [Q56005].",
)


def tiny_tokenizer(template: str | None = CHATML, texts: Sequence[str] = TEXTS) -> Any:
    """A byte-level BPE tokenizer trained on a few texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        ),
    )
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = template
    return tokenizer


def tiny_model(folder: Path, kind: Literal["llama", "qwen2"] = "llama", template: str | None = CHATML) -> str:
    """Save a model of two layers with its tokenizer; the folder, as a base model is named."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    tokenizer = tiny_tokenizer(template)
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.3,
    }
    torch.manual_seed(0)
    model: Any = (
        LlamaForCausalLM(LlamaConfig(**sizes)) if kind == "llama" else Qwen2ForCausalLM(Qwen2Config(**sizes))
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
