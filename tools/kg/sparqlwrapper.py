"""SPARQLWrapper as the endpoint engine uses it: what may be secret stays with the server it is meant for."""

from __future__ import annotations

from urllib.request import Request

from SPARQLWrapper import SPARQLWrapper

_OPEN = ("Accept", "User-agent", "Content-type")


class Wrapper(SPARQLWrapper):
    """A SPARQLWrapper whose own headers (a login, a key) are not sent on when the server redirects.

    urllib follows redirects to any host and would take `Authorization` along.
    """

    def _createRequest(self) -> Request:  # noqa: N802 - SPARQLWrapper's name
        request: Request = super()._createRequest()
        for name in [name for name in request.headers if name not in _OPEN]:
            request.add_unredirected_header(name, request.headers.pop(name))
        return request
