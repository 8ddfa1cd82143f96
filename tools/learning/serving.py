"""A trained adapter brought to the server that answers for it, by vLLM's API.

vLLM loads adapters while it runs where it was started with `--enable-lora` and
`VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`; else it has to be started anew with `--lora-modules NAME=FOLDER`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from triplewise.tools.core.errors import ConfigurationError

SECONDS = 120.0
"""Seconds a server may take to load an adapter."""


def serve_adapter(url: str, name: str, folder: Path, *, base: str, rank: int, key: str) -> None:
    """See to it that a server answers for an adapter by its name.

    Args:
        url: of the server, `http://HOST:PORT/v1`. name: the model name to be. folder: the adapter's.
        base: the base model, and rank: the adapter's, for the command that starts the server.
        key: the server's key.

    Raises:
        ConfigurationError: it does not, and cannot be made to; says the command, and how to go on.
    """
    import openai

    with openai.OpenAI(base_url=url, api_key=key, timeout=SECONDS, max_retries=0) as client:
        try:
            if name not in {model.id for model in client.models.list()}:
                adapter = {"lora_name": name, "lora_path": str(folder.resolve())}
                client.post("/load_lora_adapter", cast_to=str, body=adapter)
                if name not in {model.id for model in client.models.list()}:
                    raise openai.OpenAIError("the model is still unknown")
        except openai.OpenAIError as error:
            module = shlex.quote(f"{name}={folder.resolve()}")
            raise ConfigurationError(
                f"the server at {url} does not load adapters while it runs ({error}). The adapter is trained "
                "and kept; start the server with it and go on with --resume:\n"
                f"  VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve {shlex.quote(base)} --enable-lora "
                f"--max-lora-rank {rank} --lora-modules {module}"
            ) from error
