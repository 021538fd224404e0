"""Answers frequent requests in their plain form from moto's state, without moto's way to its handlers.

moto makes a web request of each request, parses it by the model and serializes its answer by the model: most of the
time of a small call. A service's room reads the plain form itself (`QuickCall`), acts on the same state by the same
functions, and leaves everything else, such as every refusal, to moto. Property tests hold the two ways equal
(tests/unit/moto/test_quick.py).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl

import msgspec

from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import Call
from headrace.aws.signatures.credential_scopes import SIGV4, scope_of
from headrace.core.ids import Ids
from headrace.moto.requests.preparation import URL_TABLES
from headrace.moto.storage.changes import CHANGES

# Larger bodies take long anyway, and would hold up others on the event loop's thread.
MOST_BYTES = 64 * 1024
_JSON = "application/x-amz-json-1."
_FORM = "application/x-www-form-urlencoded"


class NotPlain(Exception):
    """A request is for moto to answer; nothing has been changed."""


class QuickRequest(NamedTuple):
    """What a quick call gets.

    Attributes:
        backend: moto's state of the service, for the caller's account and region; None for a call that uses none.
        request_id: the answer's.
        ids: what seeds come from.
        seed: of the request's random numbers, for a call that `is_whole`.
    """

    call: Call
    body: bytes
    backend: Any
    request_id: str
    ids: Ids
    seed: int = 0

    def fields(self, names: Collection[str]) -> dict[str, str]:
        """Return the parameters of a form, without what names its operation.

        Raises NotPlain if it has one twice, or others than `names`.
        """
        try:
            pairs = parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True)
        except ValueError:
            raise NotPlain from None
        fields = dict(pairs)
        for name in ("Action", "Version"):
            if fields.pop(name, None) is None:
                raise NotPlain
        is_plain = len(fields) + 2 == len(pairs) and fields.keys() <= set(names)
        # The parser's mark of what is not UTF-8.
        if not is_plain or any("\ufffd" in text for text in fields.values()):
            raise NotPlain
        return fields


Answer = Callable[[QuickRequest], bytes]


def reader_of(answer: Callable[[QuickRequest, Any], bytes], *forms: type[msgspec.Struct]) -> Answer:
    """Return the quick answer to the JSON requests of one of the forms."""
    decoders = [msgspec.json.Decoder(form).decode for form in forms]

    def read(request: QuickRequest) -> bytes:
        for decode in decoders:
            try:
                asked = decode(request.body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            return answer(request, asked)
        raise NotPlain

    return read


@dataclass(frozen=True, slots=True)
class QuickCall:
    """An operation that is answered quickly in its plain form.

    Attributes:
        name: the request's target; for a form, its first field.
        service: botocore's name of the service, and moto's package.
        answer: returns the body of an answer, or raises NotPlain. It waits for nothing, and notes the rows that it
            changes. Its caller holds `MOTO_LOCK`.
        is_whole: it changes more of the service's state than rows. To store that takes long: never on the event loop's
            thread.
        frees: it frees disk space.
        has_checksum: its answers have a checksum.
        content_type: of its answers; empty for none.
        is_motos: moto would answer it, and add headers.
        is_own: the cloud's own calls go this way, too: all members are texts, numbers, times (as ISO 8601 writes them),
            lists and structures.
        is_clients: requests go this way.
        uses_state: it acts on the service's state, which moto makes at its first use.
        signed_as: the service's name in signatures; empty where it is the same.
    """

    name: str
    service: str
    answer: Answer
    is_whole: bool = False
    frees: bool = False
    has_checksum: bool = False
    content_type: str = "application/x-amz-json-1.0"
    is_motos: bool = True
    is_own: bool = False
    is_clients: bool = True
    uses_state: bool = True
    signed_as: str = ""


class QuickCalls:
    """Finds the quick call for a request; there are none until they are loaded. Thread-safe."""

    def __init__(self, *, waits_for_disk: bool) -> None:
        """`waits_for_disk`: what a call changes is on the disk before it is answered."""
        self._waits_for_disk = waits_for_disk
        self.load(())

    def load(self, calls: Sequence[QuickCall]) -> None:
        """Take the quick calls."""
        targets = [call for call in calls if "=" not in call.name and call.is_clients]
        self._targets = {call.name: call for call in targets}
        self._fields = {call.name.encode(): call for call in calls if "=" in call.name}
        self._own = {(one.service, one.name.partition(".")[2]): one for one in calls if one.is_own}

    def request_of(
        self, service: str, operation: str, params: Mapping[str, Any], call: Call
    ) -> tuple[HttpRequest, QuickCall] | None:
        """Return the request that one of the cloud's own calls is; None for a call that is not quick."""
        quick = self._own.get((service, operation))
        body = b"" if quick is None else msgspec.json.encode(params)
        if quick is None or len(body) > MOST_BYTES:
            return None
        scope = f"{call.account}/20231114/{call.region}/{service}/aws4_request"
        headers = {
            "x-amz-target": quick.name,
            "content-type": quick.content_type,
            "authorization": f"{SIGV4} Credential={scope}, SignedHeaders=host, Signature=0",
        }
        return HttpRequest("POST", "/", headers=headers, body=body, call=call), quick

    def may_be_at_once(self, request: HttpRequest) -> bool:
        """Whether a request may be answered on the event loop's thread."""
        quick = None if self._waits_for_disk else self.find(request)
        return quick is not None and not quick.is_whole

    def find(self, request: HttpRequest) -> QuickCall | None:
        """Return the quick call of a request that may be plain, by its head and the start of its body."""
        headers, body = request.headers, request.body
        target = headers.get("x-amz-target")
        if len(body) > MOST_BYTES or not body:
            return None
        if target is not None:
            call, kind = self._targets.get(target), _JSON
        else:
            call, kind = self._fields.get(body[: body.find(b"&")]), _FORM
        if (
            call is None
            or not headers.get("content-type", "").startswith(kind)
            or request.query
            or request.path != "/"
            or request.method != "POST"
            or "content-encoding" in headers
            # moto takes a region from there.
            or "region/" in headers.get("user-agent", "")
        ):
            return None
        scope = scope_of(request)
        is_signed = scope.algorithm == SIGV4 and not scope.is_query
        return call if is_signed and scope.service == (call.signed_as or call.service) else None


def find_state(quick: QuickCall, call: Call) -> Any:
    """Return moto's state of a service for a call. Raises NotPlain where moto itself must answer.

    It must where the service is not imported, loaded or used before, and where moto notes the key's last use. The
    caller holds `MOTO_LOCK`.
    """
    service = quick.service
    if service not in URL_TABLES or not CHANGES.deferred.keys().isdisjoint((service, "iam")):
        raise NotPlain
    iam: Any = dict.get(_backends_of("iam"), call.account) or {}
    if any(call.access_key in backend.access_keys for backend in iam.values()):
        raise NotPlain
    if not quick.uses_state:
        return None
    backend = find_backend(service, call.account, call.region)
    if backend is None:
        raise NotPlain
    return backend


def find_backend(service: str, account: str, region: str) -> Any | None:
    """Return moto's state of a service; None where it was not used: moto's own lookup would make it, and note that.

    The caller holds `MOTO_LOCK`.
    """
    return dict.get(dict.get(_backends_of(service), account) or {}, region)


@functools.cache
def _backends_of(service: str) -> Any:
    import moto.backends

    return moto.backends.get_backend(cast("Any", service))
