"""A trained adapter brought to the server that answers for it, by vLLM's API.

vLLM loads adapters while it runs where it was started with `--enable-lora` and
`VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`; else it has to be started anew with `--lora-modules NAME=FOLDER`.
"""

from __future__ import annotations

import json
import shlex
import urllib.error
import urllib.request
from pathlib import Path

from triplewise.tools.core.errors import ConfigurationError

SECONDS = 120.0
"""Seconds a server may take to load an adapter."""


def serve_adapter(url: str, name: str, folder: Path, *, base: str, rank: int, key: str | None = None) -> None:
    """See to it that a server answers for an adapter by its name.

    Args:
        url: of the server, `http://HOST:PORT/v1`. name: the model name to be. folder: the adapter's.
        base: the base model, and rank: the adapter's, for the command that starts the server.
        key: the server's key.

    Raises:
        ConfigurationError: it does not, and cannot be made to; says the command, and how to go on.
    """
    if name in _served(url, key):
        return
    adapter = json.dumps({"lora_name": name, "lora_path": str(folder.resolve())}).encode()
    address = f"{url.rstrip('/')}/load_lora_adapter"
    status, reply = _request(urllib.request.Request(address, adapter, _headers(key)))
    if status == 200 and name in _served(url, key):
        return
    raise ConfigurationError(
        f"the server at {url} does not load adapters while it runs ({status or 'no answer'}: {reply}). The "
        f"adapter is trained and kept; start the server with it and go on with --resume:\n"
        f"  {serve_command(base, name, folder, rank)}"
    )


def serve_command(base: str, name: str, folder: Path, rank: int) -> str:
    """The command that serves an adapter with its base model."""
    module = shlex.quote(f"{name}={folder.resolve()}")
    return (
        f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve {shlex.quote(base)} --enable-lora "
        f"--max-lora-rank {rank} --lora-modules {module}"
    )


def _served(url: str, key: str | None) -> set[str]:
    """The models that a server names; none where it does not answer."""
    _, body = _request(urllib.request.Request(f"{url.rstrip('/')}/models", headers=_headers(key)))
    try:
        return {str(entry["id"]) for entry in json.loads(body)["data"]}
    except (ValueError, KeyError, TypeError):
        return set()


def _request(request: urllib.request.Request) -> tuple[int, str]:
    """Return status and text of the answer; status 0 where nobody answers."""
    if not request.full_url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{request.full_url} is no address of a model server")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return int(answer.status), answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")[:300].strip()
    except OSError as error:
        return 0, str(error)


def _headers(key: str | None) -> dict[str, str]:
    """Headers of a request with JSON."""
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
