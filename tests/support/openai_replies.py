"""The JSON of the OpenAI API that the loopback server answers with."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any


def completion(reply: Mapping[str, Any], body: dict[str, Any], report_usage: bool) -> dict[str, Any]:
    """A chat completion object."""
    text, calls = reply.get("text"), [_tool_call(i, *c) for i, c in enumerate(reply.get("tool_calls", ()))]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    finish = reply.get("finish_reason") or ("tool_calls" if calls else "stop")
    completion: dict[str, Any] = {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if report_usage:
        completion["usage"] = reply.get("usage") or _word_counts(body, text or "")
    return completion


def _tool_call(index: int, name: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """A tool call; arguments given as a string are sent as they are, broken JSON included."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": text}}


def _word_counts(body: dict[str, Any], text: str) -> dict[str, int]:
    """Words stand for tokens."""
    words = sum(len(str(m.get("content") or "").split()) for m in body["messages"])
    said = len(text.split())
    return {"prompt_tokens": words, "completion_tokens": said, "total_tokens": words + said}


def chunks(completion: dict[str, Any], with_usage: bool) -> list[dict[str, Any]]:
    """A completion cut into stream chunks: role, words, tool calls, end, usage."""
    choice = completion["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": part} for part in _pieces(message["content"] or "")]
    deltas += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(message.get("tool_calls", ()))]
    base = {
        "id": completion["id"],
        "object": "chat.completion.chunk",
        "created": 0,
        "model": completion["model"],
    }
    chunks = [{**base, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if with_usage and "usage" in completion:
        chunks.append({**base, "choices": [], "usage": completion["usage"]})
    return chunks


def _pieces(text: str, size: int = 12) -> list[str]:
    """Text in small pieces."""
    return [text[i : i + size] for i in range(0, len(text), size)]


def vector(item: object, dimensions: int = 32) -> list[float]:
    """A unit vector that depends on nothing but the input."""
    seed = json.dumps(item).encode()
    blocks = (hashlib.sha256(seed + bytes([i])).digest() for i in range(-(-dimensions // 8)))
    numbers = struct.unpack(f"<{-(-dimensions // 8) * 8}i", b"".join(blocks))[:dimensions]
    length = math.sqrt(sum(n * n for n in numbers)) or 1.0
    return [n / length for n in numbers]


def packed(values: list[float]) -> str:
    """Little-endian 32-bit floats in base64."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
