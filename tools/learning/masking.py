"""Token ids and labels of a conversation: only what the agent wrote is learned (SymAgent, equation 8).

The text is made by the model's own chat template, in which every message is found again by its content; a
token has a label if it lies within what the agent wrote. Nothing is assumed on how a template marks turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.learning.dialogue import Lesson, Messages, lesson, shortened
from triplewise.tools.learning.trajectory import Trajectory

IGNORED = -100
"""The label of tokens without loss, as PyTorch has it."""

PLAIN = (
    "{% for message in messages %}{{ message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' else '\\n\\n' }}"
    "{{ '\\n\\n' if message['role'] == 'assistant' else '' }}{% endfor %}"
)
"""The chat template for a model that comes without one; saved with the adapter, to be served with it."""


class Example(NamedTuple):
    """A conversation as tokens; `labels` are the ids where the agent wrote them, else `IGNORED`."""

    input_ids: list[int]
    labels: list[int]

    @property
    def learned(self) -> int:
        """Tokens with loss; the first one of a text is never predicted."""
        return sum(label != IGNORED for label in self.labels[1:])


def with_template(tokenizer: Any) -> Any:
    """The tokenizer, with a chat template and a token to pad with, where it had none.

    Raises:
        ConfigurationError: it cannot say where its tokens stand in a text.
    """
    if not tokenizer.is_fast:
        raise ConfigurationError(
            f"the tokenizer of {tokenizer.name_or_path} gives no offsets; use a model with a fast tokenizer"
        )
    if not tokenizer.chat_template:
        tokenizer.chat_template = PLAIN
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return tokenizer


def render(tokenizer: Any, messages: Messages) -> tuple[str, Messages]:
    """The text of a conversation, and its messages as they stand in it.

    Templates that know no system message get it as the beginning of the first user message.

    Raises:
        ConfigurationError: the template refuses the conversation.
    """
    from jinja2 import TemplateError

    error: Exception | None = None
    for form in (messages, _without_system(messages)):
        try:
            return tokenizer.apply_chat_template(form, tokenize=False), form
        except TemplateError as refused:
            error = refused
    raise ConfigurationError(
        f"the chat template of {tokenizer.name_or_path} refuses conversations of the agent: {error}"
    )


def _without_system(messages: Messages) -> Messages:
    """The system message put before the first question, an empty one in its place left out."""
    system, asked, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{asked['content']}".strip()}, *rest]


def spans_of(text: str, messages: Messages, learned: Iterable[int]) -> list[tuple[int, int]]:
    """Where the learned messages stand in a text: (start, end) in characters, in order.

    Raises:
        ConfigurationError: the template rewrote a message.
    """
    wanted, spans, at = set(learned), [], 0
    for number, message in enumerate(messages):
        content = message["content"].strip()
        start = text.find(content, at)
        if start < 0:
            raise ConfigurationError(
                f"the chat template rewrites messages, so what the agent wrote cannot be told from the rest: "
                f"{content[:60]!r}; give the tokenizer a template that leaves them as they are"
            )
        at = start + len(content)
        if number in wanted:
            spans.append((start, at))
    return spans


def encode(tokenizer: Any, told: Lesson) -> Example:
    """Tokens and labels of a conversation, of any length."""
    text, messages = render(tokenizer, told.messages)
    moved = len(told.messages) - len(messages)
    spans = spans_of(text, messages, {i - moved for i in told.learned})
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = list(encoded["input_ids"]), list(encoded["offset_mapping"])
    learned = _inside(text, offsets, spans) | _ends(tokenizer, text, ids, offsets, spans)
    return Example(ids, [token if i in learned else IGNORED for i, token in enumerate(ids)])


def _inside(text: str, offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> set[int]:
    """The tokens that lie within a span; blanks around it may be part of its first and last ones."""
    found, left = set(), iter(spans)
    span = next(left, None)
    for i, (begin, finish) in enumerate(offsets):
        piece = text[begin:finish]
        start = begin + len(piece) - len(piece.lstrip()) if piece.strip() else begin
        end = begin + len(piece.rstrip()) if piece.strip() else finish
        while span is not None and start >= span[1]:
            span = next(left, None)
        if span is None:
            break
        if span[0] <= start < end <= span[1]:
            found.add(i)
    return found


def _ends(
    tokenizer: Any,
    text: str,
    ids: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    spans: Sequence[tuple[int, int]],
) -> set[int]:
    """The special token behind each span: to stop after an action is the agent's own doing too."""
    special = set(tokenizer.all_special_ids)
    special |= {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    found = set()
    for _, end in spans:
        behind = next((i for i, (start, _) in enumerate(offsets) if start >= end and ids[i] in special), None)
        if behind is not None and not text[end : offsets[behind][0]].strip():
            found.add(behind)
    return found


def examples_of(
    tokenizer: Any, trajectories: Sequence[Trajectory], max_tokens: int
) -> tuple[list[Example], int]:
    """Trajectories as examples of at most `max_tokens`, and how many had to be cut.

    Long observations are cut first, then the end. What is left without a token to learn is left out.
    """
    examples, cut = [], 0
    for trajectory in trajectories:
        example = encode(tokenizer, lesson(trajectory))
        whole = shorter = trajectory if len(example.input_ids) > max_tokens else None
        while shorter is not None and len(example.input_ids) > max_tokens:
            if (shorter := shortened(shorter)) is not None:
                example = encode(tokenizer, lesson(shorter))
        cut += whole is not None
        example = Example(example.input_ids[:max_tokens], example.labels[:max_tokens])
        if example.learned:
            examples.append(example)
    return examples, cut
