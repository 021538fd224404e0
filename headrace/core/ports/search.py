"""The protocol by which Firehose finds the server of an OpenSearch domain. All implementations are thread-safe."""

from __future__ import annotations

from typing import Protocol


class SearchDomainNotFound(Exception):
    """No such OpenSearch domain or collection; the message is one sentence."""


class SearchServer(Protocol):
    """A server that answers OpenSearch's REST API."""

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return the answer's status and body."""
        ...


class SearchDomains(Protocol):
    """Finds the servers of OpenSearch domains: the index in the data directory, or a real OpenSearch at its URL."""

    def of_domain(self, name: str, *, account: str, region: str) -> SearchServer | str:
        """Return a domain's server. Raises SearchDomainNotFound."""
        ...

    def of_endpoint(self, url: str, *, account: str, region: str) -> SearchServer | str:
        """Return the server at the endpoint of a domain or collection. Raises SearchDomainNotFound."""
        ...
