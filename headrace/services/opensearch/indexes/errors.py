"""The errors of the small OpenSearch, in OpenSearch's form: a status, a type, and a reason."""

from __future__ import annotations

from typing import Any


class SearchError(Exception):
    """A request is refused. `type_` is OpenSearch's error type; `root` is its root cause if that is another one."""

    def __init__(self, status: int, type_: str, reason: str, **members: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.type = type_
        self.reason = reason
        self.members = members
        self.root: dict[str, Any] | None = None

    def cause(self) -> dict[str, Any]:
        """Return the `error` member of a `_bulk` item."""
        return {"type": self.type, "reason": self.reason, **self.members}

    def body(self) -> dict[str, Any]:
        """Return the answer's body."""
        root = self.root or self.cause()
        return {"error": {"root_cause": [root], **self.cause()}, "status": self.status}


def not_supported(what: str) -> SearchError:
    """Return the error for a feature that OpenSearch has and headrace's index has not; it names the feature."""
    return SearchError(
        400,
        "not_supported_by_headrace",
        f"headrace's own index does not support {what}; a real OpenSearch does: headrace up --opensearch URL",
    )


def no_index(name: str) -> SearchError:
    """Return the error for a missing index."""
    return SearchError(
        404, "index_not_found_exception", f"no such index [{name}]", index=name, index_uuid="_na_"
    )


def unreadable(reason: str) -> SearchError:
    """Return the error for a malformed body or query."""
    return SearchError(400, "parsing_exception", reason)


def too_many_clauses(reason: str) -> SearchError:
    """Return the error for a query with too many clauses.

    Status 400: https://github.com/opensearch-project/OpenSearch/pull/21725 (documented); older versions answer 500.
    """
    return SearchError(400, "too_many_clauses", reason)


def bad_argument(reason: str, **members: Any) -> SearchError:
    """Return the error for an argument that OpenSearch refuses."""
    return SearchError(400, "illegal_argument_exception", reason, **members)


def not_valid(*reasons: str) -> SearchError:
    """Return the error for a request that lacks something or contradicts itself."""
    numbered = "".join(f"{number}: {reason};" for number, reason in enumerate(reasons, 1))
    return SearchError(400, "action_request_validation_exception", f"Validation Failed: {numbered}")
