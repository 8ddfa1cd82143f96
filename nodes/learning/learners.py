"""The learner that an order asks for."""

from __future__ import annotations

from triplewise.nodes.context import Context
from triplewise.nodes.learning.course import Order
from triplewise.nodes.model_settings import api_key_for, base_url_for, is_openai, model_name
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.learners import EmbeddedLearner, ModelLearner
from triplewise.tools.learning.lora import LoraSettings
from triplewise.tools.learning.policies import Learner


def learner_of(order: Order, context: Context, kg: KnowledgeGraph) -> Learner:
    """What updates the order's policy. Raises `ConfigurationError` on settings that cannot work."""
    if order.policy == "embedded":
        return EmbeddedLearner(kg, context.encoder, order.seed)
    if context.calling != "react" or context.history != "chat":
        raise ConfigurationError(
            "the model policy learns from conversations of Thought and Action texts: it needs the settings "
            "calling=react and history=chat"
        )
    given = dict(order.learner)
    base = str(given.pop("base_model", "") or model_name(context.model))
    url = base_url_for(context.base_url)
    if is_openai(url):
        raise ConfigurationError(
            "the model policy needs --base-url: the server (vLLM) that serves the model and its adapters"
        )
    key = api_key_for(None, context.api_key_env, url)
    return ModelLearner(base, url, key, LoraSettings.of({"seed": order.seed, **given}))
