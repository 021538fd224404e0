"""Runs moto in process: prepares a request, runs it, saves what it changed, answers.

The state is moto's, in memory; a request's changes are in the database before the request is answered. Requests that
may change state run one at a time; reads run concurrently, and wait until the changes that they may have seen are
stored. moto is imported and its state loaded on first use (or by `warm_up`). A process has one moto: the cloud that was
called last has it, and another cloud loads its own state again when it is called: moto is cleared, as in a new process.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import functools
import sqlite3
import threading
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse, NeedsThread
from headrace.aws.protocols.codec_moto import check_body, moto_request, without_controls
from headrace.aws.protocols.moto_imports import IMPORTING
from headrace.aws.protocols.service import Profile
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.moto.current_cloud import ANSWERED, ANSWERS_CLIENT, CURRENT, NOTHING, Connections
from headrace.moto.long_polls import wait_for_messages
from headrace.moto.memory import MotoMemory, account_of
from headrace.moto.patches.core import new_request_id
from headrace.moto.patching import Patches, start_empty
from headrace.moto.requests.checks import AnswerWithoutMoto, CheckStrictly, check_required
from headrace.moto.requests.kinds import Kind
from headrace.moto.requests.models import model_of
from headrace.moto.requests.preparation import (
    PROFILES,
    Preparation,
    PreparedRequest,
    method_for,
    operation_of,
    service_of,
)
from headrace.moto.requests.quick import (
    NotPlain,
    QuickCall,
    QuickCalls,
    QuickRequest,
    find_state,
)
from headrace.moto.requests.refusals import error_response, find_missing_action, refusal
from headrace.moto.storage.changes import CHANGES, MOTO_LOCK, DeliveryRows
from headrace.moto.storage.pickles import note_held
from headrace.moto.storage.storage import Entry, MotoStorage
from headrace.store.database import Database

if TYPE_CHECKING:
    from headrace.moto.in_process import InProcessCalls

# How long a call waits for loading, or for another call, before it gets a retryable error.
LONGEST_WAIT_S = 50.0


class _Owner:
    """Whose state moto holds."""

    engine: MotoEngine | None = None


def run_entry(entry: Entry, endpoint_host: str) -> HttpResponse:
    """Run a request in moto's function for it, with the random numbers of its seed.

    Raises AwsError, and what moto raises.
    """
    from moto.moto_api._internal import mock_random
    from werkzeug.exceptions import HTTPException

    url, _, query = entry.url.partition("?")
    method = method_for(url)
    assert method is not None
    # moto builds URLs, such as queue URLs, from the request's host: they must lead to this cloud.
    path = url.partition("://")[2].partition("/")[2]
    request = moto_request(
        entry.method, endpoint_host, f"/{path}", query, entry.headers, entry.body
    )
    mock_random.seed(entry.seed)
    try:
        status, headers, body = method[1](request, request.raw_url, request.headers)
    except HTTPException as error:
        status = error.code or 500
        headers, body = dict(error.get_headers()), error.get_body()
    except NotImplementedError as error:
        raise AwsError(
            "UnknownOperationException", f"moto does not implement {error}", 501
        ) from error
    kept = {str(k): str(v) for k, v in headers.items() if k.lower() != "content-length"}
    kind = str(headers.get("Content-Type") or headers.get("content-type") or "")
    asked = str(request.headers.get("Content-Type") or "").partition(";")[0]
    if kind in ("", "application/json") and asked.startswith("application/x-amz-json-"):
        # moto gives some services' answers another type, or none; AWS's is the protocol's.
        kind = asked
        kept = {k: v for k, v in kept.items() if k.lower() != "content-type"}
        kept["Content-Type"] = kind
    return HttpResponse(
        int(status),
        list(kept.items()),
        without_controls(body.encode() if isinstance(body, str) else bytes(body or b""), kind),
    )


def _response_of(call: QuickCall, body: bytes, request_id: str, now_ms: int) -> HttpResponse:
    """Return an answer with the headers that it gets the long way."""
    headers = [("Content-Type", call.content_type)] if call.content_type else []
    if call.is_motos:
        headers.append(("server", "amazon.com"))
        headers.append(("date", _date_of(now_ms // 1000)))
        headers.append(("x-amzn-requestid", request_id))
    if call.has_checksum:
        headers.append(("x-amz-crc32", str(zlib.crc32(body))))
    return HttpResponse(200, headers, body)


@functools.lru_cache(4)
def _date_of(now_s: int) -> str:
    return formatdate(now_s, usegmt=True)


class MotoEngine:
    """All of moto's services. Thread-safe.

    Args:
        outbox: the deliveries of moto's services: rows that are always loaded.
        endpoint_host: returns this cloud's host and port.
        patches: returns what headrace changes in moto; called when moto is loaded.
        quick: returns the calls that are answered without moto in their plain form; called then, too.
        sessions: the role sessions, whose credentials moto does not know.

    Attributes:
        memory: answers other parts of the cloud about moto's state.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        ids: Ids,
        patches: Callable[[], Patches],
        outbox: DeliveryRows,
        endpoint_host: Callable[[], str],
        answer_without_moto: AnswerWithoutMoto,
        sessions: RoleSessions | None = None,
        check_strictly: CheckStrictly | None = None,
        quick: Callable[[], Sequence[QuickCall]] | None = None,
    ) -> None:
        self._load_quick_calls = quick if check_strictly is None else None
        # Of moto without state nothing is answered quickly.
        self._quick = QuickCalls(waits_for_disk=database.fsync)
        # See `headrace.aws.gateway.control_plane.MotoServices.may_be_quick`.
        self.may_be_quick = self._quick.may_be_at_once
        self._ids = ids
        self._kept = MotoStorage(database, always=[outbox])
        self._clock, self._patches, self._outbox = clock, patches, outbox
        self._endpoint_host, self._sessions = endpoint_host, sessions
        self._ready, self._failure = threading.Event(), ""
        self._preparation = Preparation(
            ids=ids,
            endpoint_host=endpoint_host,
            sessions=sessions,
            answer_without_moto=answer_without_moto,
            check_strictly=check_strictly,
        )
        self._connections = NOTHING
        # moto's package, or "outbox" -> functions called when more than its rows may have changed, and once loaded.
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self.memory = MotoMemory(self.warm_up, self._ready.is_set)

    @functools.cached_property
    def _calls(self) -> InProcessCalls:
        from headrace.moto.in_process import InProcessCalls

        return InProcessCalls(
            self._answer, self._ids, self._clock,
            quick=self._quick, answer_quickly=self._answer_quickly,
        )  # fmt: skip

    def connect(self, connections: Connections) -> None:
        """Say what moto's services may call; once, before the first request."""
        self._connections = connections

    def listen(self, package: str, changed: Callable[[], None]) -> None:
        """Call `changed` when moto's package may have changed more than its rows, and whenever state is loaded.

        The package `outbox` stands for the deliveries.
        """
        self._listeners.setdefault(package, []).append(changed)

    def _tell(self, package: str) -> None:
        for changed in self._listeners.get(package, ()):
            changed()

    # --- loading ------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether moto is imported and its state loaded."""
        return self._ready.is_set()

    def is_loaded(self) -> bool:
        """Whether moto currently holds this cloud's state."""
        return self._ready.is_set() and _Owner.engine is self

    def status(self) -> dict[str, Any]:
        """Return the health page's status: ready; loading, with progress; or failed, with the reason."""
        if self._ready.is_set():
            return {"moto": "ready"}
        if self._failure:
            return {"moto": "failed", "moto_failure": self._failure}
        progress = self._kept.progress
        return {"moto": "loading", "moto_loading": {"done": progress.done, "all": progress.all}}

    def warm_up(self) -> None:
        """Import moto and load the state, once; later calls wait for the first. Raises AwsError when it takes long."""
        if self._ready.is_set() and _Owner.engine is self:
            return
        with self._alone(), IMPORTING:
            if self._ready.is_set() and _Owner.engine is self:
                return
            try:
                self._load()
            except Exception as error:
                self._failure = f"{type(error).__name__}: {error}"
                raise
            self._failure = ""

    def _load(self) -> None:
        _Owner.engine = None
        start_empty(self._patches())
        if self._load_quick_calls is not None:
            self._quick.load(self._load_quick_calls())
        CURRENT.enter(self._clock, self._sessions, self._connections.guard)
        self._outbox.clear()
        CHANGES.take()
        self._kept.load(lambda entry: self._run_entry(entry).status)
        CURRENT.connect(self._connections)
        _Owner.engine = self
        self._ready.set()
        for package in self._listeners:
            self._tell(package)

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """Hold moto's lock. Raises AwsError when another request has held it for too long."""
        if not MOTO_LOCK.acquire(timeout=LONGEST_WAIT_S):
            raise AwsError("ServiceUnavailable", self._busy(), 503)
        try:
            yield
        finally:
            MOTO_LOCK.release()

    def _busy(self) -> str:
        if self._ready.is_set():
            return f"headrace has been busy with another request for {LONGEST_WAIT_S:.0f} s."
        of = self._kept.progress
        return f"headrace is loading the state of moto's services: {of.done} of {of.all}."

    # --- requests -----------------------------------------------------------------------------

    # See `headrace.aws.gateway.control_plane.MotoServices.profiles`.
    profiles: Mapping[str, Profile] = PROFILES

    def service_of(self, request: HttpRequest, service: str) -> str:
        """See `headrace.aws.gateway.control_plane.MotoServices.service_of`."""
        return model_of(service_of(request, service), request)

    def account_of(self, access_key: str) -> str | None:
        """See `headrace.aws.gateway.control_plane.MotoServices.account_of`."""
        return account_of(access_key) if self._ready.is_set() else None

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        """See `headrace.aws.gateway.control_plane.MotoServices.handle`; never raises."""
        token = ANSWERS_CLIENT.set(True)
        try:
            return self._answer(request, service, is_from_outside=True)
        finally:
            ANSWERS_CLIENT.reset(token)

    def call(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str,
        is_for_client: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """See `headrace.aws.gateway.control_plane.MotoServices.call`."""
        if is_for_client:
            check_required(service, operation, params)
        token = ANSWERS_CLIENT.set(is_for_client)
        try:
            return self._calls.call(service, operation, params, account=account, region=region)
        finally:
            ANSWERS_CLIENT.reset(token)

    def _answer(
        self, request: HttpRequest, service: str, *, is_from_outside: bool = False
    ) -> HttpResponse:
        try:
            if is_from_outside:
                answer = self._answer_quickly(request, self._quick.find(request))
                if answer is not None:
                    return answer
            self._require()
            check_body(request)
            prepared = self._preparation.prepare(request, service, is_from_outside=is_from_outside)
            if prepared.answer is not None:
                return prepared.answer
            if prepared.kind.is_long_poll:
                return wait_for_messages(lambda: self._run(prepared), self._clock)
            return self._run(prepared)
        except AwsError as error:
            return error_response(service_of(request, service), request, error)

    def _answer_quickly(self, request: HttpRequest, quick: QuickCall | None) -> HttpResponse | None:
        """Answer a plain request of a quick call; None for another one.

        Raises AwsError; and NeedsThread instead of None for a request that is to be answered at once.
        """
        answer = None
        if quick is not None and self.is_loaded():
            if MOTO_LOCK.acquire(timeout=0 if request.at_once else LONGEST_WAIT_S):
                try:
                    answer = self._run_quickly(quick, request)
                finally:
                    MOTO_LOCK.release()
            elif not request.at_once:
                raise AwsError("ServiceUnavailable", self._busy(), 503)
        if answer is None and request.at_once:
            raise NeedsThread
        return answer

    def _run_quickly(self, quick: QuickCall, request: HttpRequest) -> HttpResponse | None:
        call = request.call
        assert call is not None
        if _Owner.engine is not self or self._kept.journalled:
            return None
        request_id, package, seed = new_request_id(), "", 0
        if quick.is_whole:
            package, seed = quick.service, self._ids.seed()
            CHANGES.is_watching = True
        try:
            backend = find_state(quick, call)
            asked = QuickRequest(call, request.body, backend, request_id, self._ids, seed)
            body = quick.answer(asked)
            # What changed is stored before this leaves.
            return _response_of(quick, body, request_id, call.now_ms)
        except NotPlain:
            package = ""
            return None
        except AwsError:
            raise
        except Exception as error:
            raise refusal(quick.service, operation_of(request), request, error) from error
        finally:
            if quick.is_whole:
                CHANGES.is_watching = False
            # New backends are stored as a whole, too; a service that cannot be stored needs its request.
            entry = functools.partial(self._preparation.entry_of, request, quick.service, seed)
            self._save(entry, package, frees=quick.frees)
            if package:
                self._tell(package)

    def _require(self) -> None:
        """Warm up. Raises AwsError, whatever the reason, so that the caller gets it as a message."""
        try:
            self.warm_up()
        except AwsError:
            raise
        except Exception as error:
            raise AwsError(
                "InternalFailure",
                f"The state of moto's services cannot be loaded: {type(error).__name__}: {error}",
                500,
            ) from error

    def _run(self, prepared: PreparedRequest) -> HttpResponse:
        """Run a request in the way of its kind; the one place that converts moto's failures to answers."""
        entry, package, kind = prepared.entry, prepared.package, prepared.kind
        try:
            if kind.is_concurrent:
                answer = self._read(entry)
            elif kind.waits:
                answer = self._run_entry(entry)
                with self._alone():
                    self._save(lambda: entry, package)
            else:
                answer = self._write(entry, package, kind)
        except AwsError:
            raise
        except Exception as error:
            raise refusal(prepared.service, prepared.operation, prepared.request, error) from error
        fault = find_missing_action(prepared.service, prepared.request, answer)
        if fault is not None:
            raise fault
        return answer

    def _write(self, entry: Entry, package: str, kind: Kind) -> HttpResponse:
        if kind.changes_policies:
            self._connections.before_policies_change()
        rows_only = kind.changes_rows_only
        try:
            with self._alone():
                if _Owner.engine is not self:
                    self.warm_up()
                CHANGES.is_watching = True
                ANSWERED.response = None
                try:
                    ANSWERED.response = self._run_entry(entry)
                    return ANSWERED.response
                finally:
                    CHANGES.is_watching = False
                    self._save(lambda: entry, "" if rows_only else package, frees=kind.frees)
                    if not rows_only:
                        self._tell(package)
        finally:
            self.memory.policies_version += kind.changes_policies
            self.memory.keys_version += kind.changes_policies or package == "kms"

    def _read(self, entry: Entry) -> HttpResponse:
        """Run a read concurrently with writes; what it may have seen is stored before it is answered."""
        undo_count = self._kept.undo_count
        try:
            response = self._run_entry(entry)
        except AwsError:
            raise
        except Exception:  # noqa: BLE001 - a concurrent write may have changed moto under the read
            with self._alone():
                response = self._run_entry(entry)
        with self._alone():
            if self._kept.undo_count != undo_count:
                # The read may have seen a change that was undone.
                response = self._run_entry(entry)
            if CHANGES.new_backends:
                self._save(None)
        return response

    def _run_entry(self, entry: Entry) -> HttpResponse:
        return run_entry(entry, self._endpoint_host())

    def _save(
        self, entry: Callable[[], Entry] | None, package: str = "", *, frees: bool = False
    ) -> None:
        """Store what was touched since the last time: rows, and all of a package if one is named.

        Raises AwsError when the disk refuses it; then the change is undone.
        """
        if package and package not in CHANGES.held:
            note_held(package)
        taken = CHANGES.take(package)
        try:
            acts = self._kept.save(entry, taken, frees=frees)
        except (sqlite3.Error, OSError) as error:
            raise AwsError(
                "InternalFailure", f"The change is undone, for it could not be stored: {error}", 500
            ) from error
        finally:
            if self._kept.must_load_again:
                self._ready.clear()
                _Owner.engine = None
        if self._outbox.has_new:
            self._outbox.has_new = False  # told only now: they are stored
            for arrived in self._listeners.get("outbox", ()):
                arrived()
        for act in acts:
            act()

    # --- changes outside a request ------------------------------------------------------------

    def change(self, change: Callable[[], None], service: str = "") -> None:
        """Change moto's state outside a request and store it: all of `service`, or what the change itself notes.

        Raises AwsError.
        """
        with self._alone():
            self.warm_up()
            CHANGES.is_watching = True
            try:
                change()
            finally:
                CHANGES.is_watching = False
                self._save(None, service)

    def change_unwatched(self, change: Callable[[], None], service: str) -> None:
        """Change and store all of a service; a change that raises stores nothing. Raises AwsError."""
        with self._alone():
            self.warm_up()
            change()
            self._save(None, service)

    def save_deliveries(self) -> None:
        """Store deliveries that were made or given up, which frees disk space. The caller holds `MOTO_LOCK`."""
        self._save(None, frees=True)
