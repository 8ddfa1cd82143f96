"""The learner that an order asks for."""

from __future__ import annotations

from triplewise.nodes.context import Context
from triplewise.nodes.learning.course import Order
from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.learning.learners import EmbeddedLearner
from triplewise.tools.learning.policies import Learner


def learner_of(order: Order, context: Context, kg: KnowledgeGraph) -> Learner:
    """What updates the order's policy. Raises `ConfigurationError` on settings that cannot work."""
    if order.policy == "embedded":
        return EmbeddedLearner(kg, context.encoder, order.seed)
    raise NotImplementedError
