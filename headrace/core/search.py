"""The protocol by which Firehose finds the server of an OpenSearch domain. All implementations are thread-safe."""

from __future__ import annotations

from typing import Protocol


class SearchDomainNotFound(Exception):
    """No such OpenSearch domain or collection; the text is one sentence that says so."""


class SearchServer(Protocol):
    """A server that speaks OpenSearch's REST."""

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Return an answer's status and body."""
        ...


class SearchDomains(Protocol):
    """Finds the servers of OpenSearch domains: the index in the data directory, or a real one, by its URL."""

    def of_domain(self, name: str, *, account: str, region: str) -> SearchServer | str:
        """Return a domain's server. Raises SearchDomainNotFound."""
        ...

    def of_endpoint(self, url: str, *, account: str, region: str) -> SearchServer | str:
        """Return the server that a cluster's or a collection's endpoint leads to. Raises SearchDomainNotFound."""
        ...
