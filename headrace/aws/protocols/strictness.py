"""`headrace up --strict`: refuses a call with a member that would be ignored, and names the member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.model import operation_model, protocol_of
from headrace.aws.calls.operation import Action, operation_name
from headrace.aws.protocols import codec_moto
from headrace.aws.protocols.newer_parameters import with_newer
from headrace.aws.protocols.service import FidelityTable, RawAnswer

# Idempotency tokens: the CDK and the SDKs send them with every call. headrace ignores them, and answers a repeated call
# by the state that it finds.
_TOKENS = frozenset({"ClientToken", "ClientRequestToken"})


class Strictness:
    """Refuses the parameters that a service would ignore, by its fidelity table. Thread-safe.

    A parameter that is false or empty has no effect, and is accepted.
    """

    def __init__(self, service: str, table: FidelityTable) -> None:
        self._service = service
        self._ignored = {
            operation: [
                path
                for path, level in levels.items()
                if level == "ignored" and path.rpartition(".")[2] not in _TOKENS
            ]
            for operation, levels in table.items()
        }

    @classmethod
    def of(cls, service: str, actions: Iterable[Action], table: FidelityTable) -> Strictness:
        """Make one from a service's table, and the actions' parameters that only the installed botocore has."""
        return cls(service, with_newer(service, map(operation_name, actions), table))

    def check(self, operation: str, params: Mapping[str, Any]) -> None:
        """Refuse parameters that would be ignored. Raises AwsError."""
        paths = self._ignored.get(operation, ())
        self._refuse(
            operation, [path for path in paths if any(_find_values(params, path.split(".")))]
        )

    def check_head(
        self, operation: str, headers: Mapping[str, str], query: Mapping[str, str]
    ) -> None:
        """Refuse parameters in headers (names in small letters) or in the query. Raises AwsError."""
        unknown_names: list[str] = []
        members = cast("Any", operation_model(self._service, operation)).input_shape.members
        for name in self._ignored.get(operation, ()):
            serialization: dict[str, str] = members[name].serialization if name in members else {}
            sent = serialization.get("name", name)
            if serialization.get("location") == "header" and headers.get(sent.lower()):
                unknown_names.append(name)
            if serialization.get("location") == "querystring" and query.get(sent):
                unknown_names.append(name)
        self._refuse(operation, unknown_names)

    def guard(self, raw: Callable[[HttpRequest], RawAnswer]) -> Callable[[HttpRequest], RawAnswer]:
        """Return a `raw` hook that first checks the request's head; for services of rest-json."""

        def answer(request: HttpRequest) -> RawAnswer:
            operation = codec_moto.operation_name(self._service, request)
            if operation:
                self.check_head(operation, request.headers, request.query_params())
            return raw(request)

        return answer

    def _refuse(self, operation: str, names: list[str]) -> None:
        if not names:
            return
        sentence = (
            f"headrace --strict refuses parameters of {operation} that it would ignore: "
            + ", ".join(names)
        )
        protocol = protocol_of(self._service)
        if protocol == "rest-xml":
            raise AwsError("NotImplemented", sentence, 501)
        raise AwsError(
            "ValidationError" if protocol == "query" else "ValidationException", sentence
        )


def _find_values(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values at a path, in each item of lists on the path; empty and false values are left out."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _find_values(item, path)
    elif not path:
        if value:
            yield value
    elif isinstance(value, Mapping):
        yield from _find_values(
            cast("Mapping[str, Any]", value).get(path[0].removesuffix("[]")), path[1:]
        )
