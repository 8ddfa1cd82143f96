"""The model server of the tests: `triplewise.evals.scripted_model`."""

from triplewise.evals.scripted_model import Fault, Messages, OpenAIServer, Request

__all__ = ["Fault", "Messages", "OpenAIServer", "Request"]
