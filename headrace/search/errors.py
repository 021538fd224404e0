"""The errors of the small OpenSearch, in OpenSearch's form: a status, a type, and a reason."""

from __future__ import annotations

from typing import Any


class SearchError(Exception):
    """A request is refused. `type_` is OpenSearch's word for why."""

    def __init__(self, status: int, type_: str, reason: str, **members: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.type = type_
        self.reason = reason
        self.members = members

    def cause(self) -> dict[str, Any]:
        """Return the `error` of an item of `_bulk`."""
        return {"type": self.type, "reason": self.reason, **self.members}

    def body(self) -> dict[str, Any]:
        """Return the body of an answer."""
        return {"error": {"root_cause": [self.cause()], **self.cause()}, "status": self.status}


def not_supported(what: str) -> SearchError:
    """OpenSearch does this and headrace's index does not: it is refused by name."""
    return SearchError(
        400,
        "not_supported_by_headrace",
        f"headrace's own index does not support {what}; a real OpenSearch does: headrace up --opensearch URL",
    )


def no_index(name: str) -> SearchError:
    """There is no index of that name."""
    return SearchError(
        404, "index_not_found_exception", f"no such index [{name}]", index=name, index_uuid="_na_"
    )


def unreadable(reason: str) -> SearchError:
    """A body or a query that is not in its form."""
    return SearchError(400, "parsing_exception", reason)
