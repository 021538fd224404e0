"""Bounds the memory of one answer of OpenSearch's REST API."""

from __future__ import annotations

from headrace.services.opensearch.indexes.errors import SearchError

# OpenSearch's own bound is 95 % of its heap. Of headrace's process no answer takes more than this.
MOST_BYTES = 100 * 1024 * 1024
# About what an answer's members without its documents take.
_MEMBERS_BYTES = 500


class AnswerBytes:
    """Counts the documents of one answer. For one thread."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, text: str = "") -> None:
        """Count a document or a part of the answer. Raises OpenSearch's error for an answer that is too large."""
        self._bytes += len(text) + _MEMBERS_BYTES
        if self._bytes > MOST_BYTES:
            raise SearchError(
                429,
                "circuit_breaking_exception",
                f"[parent] Data too large, data for [<http_request>] would be [{self._bytes}/{self._bytes}b],"
                f" which is larger than the limit of [{MOST_BYTES}/{MOST_BYTES}b]",
                bytes_wanted=self._bytes,
                bytes_limit=MOST_BYTES,
                durability="TRANSIENT",
            )
