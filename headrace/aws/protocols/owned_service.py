"""Answers the requests of an owned service: by its raw hook, or by parsing, running (`operations`) and serializing.

`headrace up --strict`: refuses a call with a member that would be ignored, and names the member.

Finds parameters that the installed botocore has but this headrace does not know: they have no effect.

headrace takes any botocore in a range, and AWS adds parameters every week. The shapes in `headrace.aws.shapes` were
generated from the botocore that headrace was written with; what the installed one has beyond them is reported as
ignored by `/_headrace/fidelity`, and refused by `--strict`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, cast

import botocore
from botocore.model import ListShape, MapShape, OperationNotFoundError, Shape, StructureShape

from headrace.aws.calls.errors import (
    AwsError,
    internal_failure,
    serialization_error,
    unknown_operation,
)
from headrace.aws.calls.http import HttpRequest, HttpResponse, NeedsThread
from headrace.aws.calls.operation import (
    Action,
    Call,
    changes_policies,
    operation_model,
    operation_name,
    protocol_of,
    service_model,
)
from headrace.aws.protocols import codec_json, codec_moto
from headrace.aws.protocols.service import FidelityTable, RawAnswer, ServiceApi
from headrace.aws.protocols.validate import validate
from headrace.aws.shapes import MODULES, read_members
from headrace.core.ports import FidelityLevel


def with_newer(service: str, operations: Iterable[str], table: FidelityTable) -> FidelityTable:
    """Return a service's table of parameters with those that only the installed botocore has, as ignored."""
    fidelity_levels: dict[str, Mapping[str, FidelityLevel]] = dict(table)
    for operation in operations:
        newer: dict[str, FidelityLevel] = dict.fromkeys(
            newer_parameters(service, operation), "ignored"
        )
        if newer:
            fidelity_levels[operation] = {**newer, **table.get(operation, {})}
    return fidelity_levels


@functools.cache
def newer_parameters(service: str, operation: str) -> tuple[str, ...]:
    """Return the paths of an operation's parameters that its generated shapes do not have; lists as `Tags[]`."""
    shape = operation_model(service, operation).input_shape
    if service not in MODULES or not isinstance(shape, StructureShape):
        return ()
    written = read_members(MODULES[service])
    return tuple(_newer(shape, f"{operation}Input", written, "", ()))


def _newer(
    shape: StructureShape,
    name: str,
    written: Mapping[str, frozenset[str]],
    path: str,
    above: tuple[str, ...],
) -> Iterator[str]:
    """Yield the members, at any depth, that a structure has beyond its generated shape."""
    own = written.get(name, written.get(shape.name))
    if own is None or shape.name in above:
        return
    for member, value in shape.members.items():
        here = f"{path}{member}"
        if member not in own:
            yield here
            continue
        inner, suffix = _inside(value)
        if isinstance(inner, StructureShape):
            yield from _newer(inner, inner.name, written, f"{here}{suffix}.", (*above, shape.name))


def _inside(shape: Shape) -> tuple[Shape, str]:
    """Return what lists hold, and how a path says that it is theirs; what maps hold is not followed."""
    suffix = ""
    while isinstance(shape, ListShape):
        shape, suffix = shape.member, "[]"
    return (shape, suffix) if not isinstance(shape, MapShape) else (shape.key, "")


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


log = logging.getLogger(__name__)
# Longer than any operation's name.
_NAME_LENGTH = 128


# Runs the operations of an owned service: checks the caller's permission, validates the input, calls the action.


class Operations:
    """The operations of one service, independent of the wire protocol. Thread-safe.

    With `strict`, parameters that would be ignored are refused.
    """

    def __init__(
        self, api: ServiceApi, strict: bool, before_policies_change: Callable[[], None]
    ) -> None:
        self._api = api
        self._before_policies_change = before_policies_change
        self._strictness = Strictness.of(api.name, api.actions, api.fidelity) if strict else None
        self._actions: dict[str, Action] = api.by_name()
        self._changing = frozenset(filter(changes_policies, self._actions))

    @functools.cached_property
    def protocol(self) -> str:
        """The service's protocol, as botocore names it."""
        return protocol_of(self._api.name)

    def run(
        self, operation: str, params: Mapping[str, Any], call: Call, *, is_permitted: bool = False
    ) -> dict[str, Any]:
        """Run an operation and return its output; `is_permitted`: the call's permit has been asked.

        Raises AwsError only.
        """
        api = self._api
        action = self._actions.get(operation)
        if action is None:
            log.warning("headrace does not implement %s:%s", api.name, operation)
            raise unknown_operation(operation, api.name, api.instead.get(operation, ""))
        try:
            if call.permit is not None and not is_permitted:
                account, region = call.account, call.region
                call.permit.ask(api.name, operation, params, account=account, region=region)
            protocol = self.protocol
            if protocol != "rest-xml":
                code = "ValidationError" if protocol == "query" else "ValidationException"
                validate(api.name, operation, params, code=code, wording=api.wording)
            if self._strictness is not None:
                self._strictness.check(operation, params)
            if operation in self._changing:
                self._before_policies_change()
            output = action(api.backend, call, params)
        except Exception as error:
            raise self.error_of(error, operation) from error
        return dict(output) if output else {}

    def error_of(self, error: Exception, operation: str) -> AwsError:
        """Return the AWS error for an exception of an operation; log it when it is a defect of headrace."""
        if isinstance(error, AwsError):
            return error
        if isinstance(error, RecursionError):  # a document inside the request, such as a policy
            return serialization_error("The request is nested too deeply")
        translated = self._api.translate(error)
        if translated is not None:
            return translated
        log.error("%s:%s failed", self._api.name, operation, exc_info=error)
        return internal_failure()


class OwnedService:
    """Answers the requests of one owned service. Thread-safe.

    With `strict`, it refuses parameters that headrace would ignore.

    Attributes:
        operations: validates and runs a parsed request.
    """

    def __init__(
        self,
        api: ServiceApi,
        *,
        strict: bool = False,
        before_policies_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.api = api
        self.operations = Operations(api, strict, before_policies_change)

    def answer(self, request: HttpRequest, call: Call) -> HttpResponse | Future[HttpResponse]:
        """Answer a request; the service's raw hook, if it has one, sees it first. Never raises."""
        raw = self.api.raw
        if raw is None:
            return self._answer_parsed(request, call)
        try:
            answer = raw(request)
        except NeedsThread:
            raise
        except Exception as error:  # noqa: BLE001 - one of the two places where errors become answers
            answer = self._error_answer(
                self.operations.error_of(error, "raw request"), request, call
            )
        if answer is None:
            return self._answer_parsed(request, call)
        if isinstance(answer, HttpResponse):
            if call.waits:
                self._wait_for(answer, request, call)
            answer.shared = call.shared
        return answer

    def _answer_parsed(self, request: HttpRequest, call: Call) -> HttpResponse:
        try:
            if self.operations.protocol == "json":
                response = self._answer_json(request, call)
            else:
                response = self._answer_moto_codec(request, call)
        except Exception:
            log.exception("a request to %s failed outside its operation", self.api.name)
            return self._failure(request, call)
        if call.waits:
            self._wait_for(response, request, call)
        return response

    def _wait_for(self, response: HttpResponse, request: HttpRequest, call: Call) -> None:
        """Return the answer to send when the call's waits are done, or the failure when one of them fails."""

        def failure() -> HttpResponse:
            failed = self._failure(request, call)
            failed.headers.append(("x-amzn-RequestId", call.request_id))
            return failed

        response.waits, response.failure = call.waits, failure

    def _failure(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Return the error for a defect of headrace, in the service's protocol."""
        return self._error_answer(internal_failure(), request, call)

    def _error_answer(self, error: AwsError, request: HttpRequest, call: Call) -> HttpResponse:
        if self.operations.protocol == "json":
            return self._json_error(error, request)
        return codec_moto.serialize_error(self.api.name, None, error, call.request_id)

    def _answer_json(self, request: HttpRequest, call: Call) -> HttpResponse:
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        operation = request.headers.get("x-amz-target", "").rpartition(".")[2]
        try:
            try:
                operation_model(self.api.name, operation)
            except OperationNotFoundError:
                sentence = (
                    f"headrace does not implement {self.api.name}:{operation[:_NAME_LENGTH]}:"
                    f" botocore {botocore.__version__}, which is installed, does not know it"
                )
                log.warning("%s", sentence)
                # AWS says nothing more (kinesalite, observed); here it is what a newer client's user needs.
                raise AwsError("UnknownOperationException", sentence if operation else "") from None
            if request.body_file is not None:
                raise AwsError("RequestEntityTooLargeException", "Request is too large", 413)
            params = codec_json.decode_input(self.api.name, operation, request.body, content_type)
            output = self.operations.run(operation, params, call)
        except AwsError as error:
            return self._json_error(error, request)
        headers = [("Content-Type", codec_json.answer_type(content_type))]
        body = codec_json.encode_output(self.api.name, operation, output, content_type)
        return HttpResponse(200, headers, body)

    def _json_error(self, error: AwsError, request: HttpRequest) -> HttpResponse:
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        return HttpResponse(
            error.status,
            [
                ("Content-Type", codec_json.answer_type(content_type)),
                ("x-amzn-ErrorType", error.code),
            ],
            codec_json.encode_error(error, content_type),
        )

    def _answer_moto_codec(self, request: HttpRequest, call: Call) -> HttpResponse:
        operation: str | None = None
        try:
            if request.body_file is not None:
                raise AwsError("RequestEntityTooLargeException", "Request is too large", 413)
            operation, params = codec_moto.parse_request(self.api.name, request)
            output = self.operations.run(operation, params, call)
            return codec_moto.serialize_output(self.api.name, operation, output, call.request_id)
        except AwsError as error:
            return codec_moto.serialize_error(self.api.name, operation, error, call.request_id)


def check_api(api: ServiceApi) -> None:
    """Raise ValueError when a service declares operations that AWS does not have.

    A test calls it, not every start: loading six models takes a fifth of a second.
    """
    unknown = set(api.by_name()) - set(service_model(api.name).operation_names)
    if unknown:
        raise ValueError(f"{api.name} declares operations AWS does not have: {sorted(unknown)}")
    if not api.inline <= set(api.by_name()):
        raise ValueError(f"{api.name} answers operations inline that it does not have")
