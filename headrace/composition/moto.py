"""Serves all of moto's services behind the gateway; outside this package only `aws/codec_moto.py` imports moto.

The state is moto's, in memory; a request's changes are in the database before the request is answered. Requests that
may change state run one at a time; reads run concurrently, and wait until the changes that they may have seen are
stored. moto is imported and its state loaded on first use (or by `warm_up`). A process has one moto: the cloud that was
called last has it, and another cloud loads its own state again when it is called.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols.body_bounds import check_body
from headrace.aws.protocols.moto_imports import IMPORTING
from headrace.aws.protocols.service import Profile
from headrace.aws.signatures.sessions import RoleSessions
from headrace.composition.moto_patches import PATCHES
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, Guard, NoGuard
from headrace.core.ports.warehouses import Warehouses
from headrace.deliveries.outbox import OUTBOX, OutboxWorker
from headrace.deliveries.outside_http import post
from headrace.moto.current_cloud import CURRENT, Apis, FunctionTarget, SearchHome
from headrace.moto.in_process import ANSWERED, InProcessCalls
from headrace.moto.long_polls import LONG_POLLS, wait_for_messages
from headrace.moto.memory.access_keys import account_of
from headrace.moto.memory.memory import MotoState
from headrace.moto.requests.conversion import (
    entry_of,
    host_of,
    method_for,
    operation_of,
    run_entry,
    service_of,
)
from headrace.moto.requests.kinds import (
    FREES,
    QUIET,
    WAITS,
    changes_policies,
    changes_rows_only,
    only_reads,
)
from headrace.moto.requests.members import check_members, without_nulls
from headrace.moto.requests.profiles import PROFILES
from headrace.moto.requests.refusals import error_response, missing_action, refusal
from headrace.moto.requests.resource_policies import check_put
from headrace.moto.start import start_empty
from headrace.moto.storage.changes import MOTO_LOCK, TOUCHED
from headrace.moto.storage.journal import Entry
from headrace.moto.storage.storage import KeptState
from headrace.services.dynamodb.stream_reader import TableStreams
from headrace.services.iam.answers import answer_without_moto
from headrace.services.iam.strictness import FallbackStrictness
from headrace.services.logs.retention import LogRetention
from headrace.services.stepfunctions.executions import Executions
from headrace.store.database import Database

log = logging.getLogger(__name__)

# How long a call waits for loading, or for another call, before it gets a retryable error.
LONGEST_WAIT_S = 50.0


class _Owner:
    """Whose state moto holds."""

    services: MotoServices | None = None


class MotoServices:
    """All of moto's services. Thread-safe."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        ids: Ids,
        endpoint_host: str = "127.0.0.1:4566",
    ) -> None:
        self._kept = KeptState(database, always=[OUTBOX])
        self._clock = clock
        self._ids = ids
        self.endpoint_host = endpoint_host
        self._ready = threading.Event()
        self._failure = ""
        self._calls = InProcessCalls(
            self._answer, ids=ids, clock=clock, endpoint_host=lambda: self.endpoint_host
        )
        # The role sessions, whose credentials moto does not know; set before the first request.
        self.sessions: RoleSessions | None = None
        # The parts of this cloud that moto's services use; set before the first request.
        self.function_target: FunctionTarget | None = None
        self.search: SearchHome | None = None
        self.warehouses: Warehouses | None = None
        self.apis: Apis | None = None
        self.control: ControlPlane | None = None
        self.guard: Guard = NoGuard()
        # With --strict, refuses members that would be ignored.
        self.strictness: FallbackStrictness | None = None
        # Called before a policy changes, so that earlier actions are judged by the old policy.
        self.before_policies_change: Callable[[], None] = lambda: None
        # Counters of policy changes and of key changes.
        self.policies_version = self.keys_version = 0
        # The streams of DynamoDB's tables, for event source mappings.
        self.table_streams = TableStreams(self.warm_up, clock.now_ms)
        self.wake_outbox: Callable[[], None] = lambda: None
        # moto's package -> a function called when more than its rows may have changed, and when the state is loaded.
        self.wakes: dict[str, Callable[[], None]] = {}
        self.outbox = OutboxWorker(
            is_ready=lambda: self._ready.is_set() and _Owner.services is self,
            # Delivering or giving up frees disk space.
            save=lambda: self._save(None, with_services=False, frees=True),
            post=post,
        )
        self.retention = LogRetention(self.is_loaded)
        self.held = MotoState(self.warm_up, self._ready.is_set)
        # The running state machines; stopped with the cloud.
        self.executions = Executions(self._change_executions)

    # --- loading ------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether moto is imported and its state loaded."""
        return self._ready.is_set()

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
        if self._ready.is_set() and _Owner.services is self:
            return
        with self._alone(), IMPORTING:
            if self._ready.is_set() and _Owner.services is self:
                return
            try:
                self._load()
            except Exception as error:
                self._failure = f"{type(error).__name__}: {error}"
                raise
            self._failure = ""

    def warm_up_in_background(
        self, then: Callable[[], None] | None, *, is_stopping: Callable[[], bool]
    ) -> None:
        """Warm up on another thread, and call `then` there; log a failure, unless the cloud is stopping."""

        def run() -> None:
            try:
                self.warm_up()
                if then is not None:
                    then()
            except Exception:
                # A stopping cloud's files are closed.
                if not is_stopping():
                    log.exception("moto did not start")

        threading.Thread(target=run, name="moto", daemon=True).start()

    def _load(self) -> None:
        _Owner.services = None
        start_empty(PATCHES)
        CURRENT.disconnect(self._clock, self.sessions, self.guard)
        OUTBOX.clear()
        TOUCHED.take()
        self._kept.load(lambda entry: self._run_entry(entry).status)
        CURRENT.control, CURRENT.functions = self.control, self.function_target
        CURRENT.search, CURRENT.executions = self.search, self.executions
        CURRENT.warehouses, CURRENT.apis = self.warehouses, self.apis
        CURRENT.stream_changed = self.table_streams.changed
        OUTBOX.wake = self.wake_outbox
        _Owner.services = self
        self._ready.set()
        OUTBOX.wake()
        for wake in self.wakes.values():
            wake()

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
        progress = self._kept.progress
        return (
            f"headrace is loading the state of moto's services: {progress.done} of {progress.all}."
        )

    # --- requests -----------------------------------------------------------------------------

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """See `headrace.aws.gateway.dispatch.Fallback.profiles`."""
        return PROFILES

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        """See `headrace.aws.gateway.dispatch.Fallback.handle`; never raises."""
        return self._answer(request, service, is_from_outside=True)

    def _answer(
        self, request: HttpRequest, service: str, *, is_from_outside: bool = False
    ) -> HttpResponse:
        assert request.call is not None
        service = service_of(request, service)
        try:
            self.warm_up()
        except AwsError as error:
            return error_response(service, request, error)
        except Exception as error:  # noqa: BLE001 - whatever the error, the caller gets it as a message
            failure = AwsError(
                "InternalFailure",
                f"The state of moto's services cannot be loaded: {type(error).__name__}: {error}",
                500,
            )
            return error_response(service, request, failure)
        try:
            return self._handle(request, service, is_from_outside=is_from_outside)
        except AwsError as error:
            return error_response(service, request, error)

    def _handle(self, request: HttpRequest, service: str, *, is_from_outside: bool) -> HttpResponse:
        call = request.call
        assert call is not None
        check_body(request)
        if is_from_outside:
            request = without_nulls(request)
        if self.strictness is not None:
            self.strictness.check(service, request)
        host = host_of(service, call.region)
        found = method_for(f"https://{host}{request.path}")
        if found is None:
            raise AwsError("UnknownOperationException", f"headrace has no service for {host}")
        entry = entry_of(request, host, self.endpoint_host, self._ids.bytes(8))
        package, operation = found[0], operation_of(request)
        # Stacks and state machines may write numbers as text, in any protocol.
        if is_from_outside:
            check_members(service, operation, request)
        check_put(service, package, operation, request, self.sessions)
        own = answer_without_moto(package, operation, request, self.sessions)
        if own is not None:
            return own

        def run() -> HttpResponse:
            try:
                answer = self._run(entry, package, operation)
            except AwsError:
                raise
            except Exception as error:  # the one place that converts moto's failures to answers
                raise refusal(service, operation, request, error) from error
            fault = missing_action(request, answer)
            if fault is not None:
                raise fault
            return answer

        if (package, operation) in LONG_POLLS:
            return wait_for_messages(run, self._clock)
        return run()

    def _run(self, entry: Entry, package: str, operation: str) -> HttpResponse:
        if only_reads(package, operation) and package in QUIET:
            return self._read(entry)
        if WAITS.match(operation):
            response = self._run_entry(entry)
            with self._alone():
                TOUCHED.service(package)
                self._save(entry)
            return response
        if changes_policies(package, operation):
            self.before_policies_change()
            try:
                return self._write(entry, package, operation)
            finally:
                self.policies_version += 1
                self.keys_version += 1
        try:
            return self._write(entry, package, operation)
        finally:
            if package == "kms":
                self.keys_version += 1

    def _write(self, entry: Entry, package: str, operation: str) -> HttpResponse:
        rows_only = changes_rows_only(package, operation)
        with self._alone():
            if _Owner.services is not self:
                self.warm_up()
            TOUCHED.is_watching = True
            ANSWERED.response = None
            try:
                ANSWERED.response = self._run_entry(entry)
                return ANSWERED.response
            finally:
                TOUCHED.is_watching = False
                if not rows_only:
                    TOUCHED.service(package)
                self._save(entry, with_services=not rows_only, frees=bool(FREES.match(operation)))
                if not rows_only and package in self.wakes:
                    self.wakes[package]()

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
            if TOUCHED.has_made:
                self._save(None, with_services=False)
        return response

    def _save(
        self, entry: Entry | None, *, with_services: bool = True, frees: bool = False
    ) -> None:
        """Store what was touched. Raises AwsError when the disk refuses it; then the change is undone."""
        try:
            self._kept.save(entry, with_services=with_services, frees=frees)
        except (sqlite3.Error, OSError) as error:
            raise AwsError(
                "InternalFailure", f"The change is undone, for it could not be stored: {error}", 500
            ) from error
        finally:
            if self._kept.must_load_again:
                self._ready.clear()
                _Owner.services = None

    def change(self, change: Callable[[], None], service: str = "") -> None:
        """Change moto's state outside a request and store it: all of `service`, or what the change itself notes.

        Raises AwsError.
        """
        with self._alone():
            self.warm_up()
            TOUCHED.is_watching = True
            try:
                change()
            finally:
                TOUCHED.is_watching = False
                if service:
                    TOUCHED.service(service)
                self._save(None, with_services=bool(service))

    def is_loaded(self) -> bool:
        """Whether moto currently holds this cloud's state."""
        return self._ready.is_set() and _Owner.services is self

    def _change_executions(self, change: Callable[[], None]) -> None:
        """Change Step Functions' state outside a request, and store it. Raises AwsError."""
        with self._alone():
            self.warm_up()
            change()
            TOUCHED.service("stepfunctions")
            self._save(None)

    def _run_entry(self, entry: Entry) -> HttpResponse:
        return run_entry(entry, self.endpoint_host)

    def service_of(self, request: HttpRequest, service: str) -> str:
        """See `headrace.aws.gateway.dispatch.Fallback.service_of`."""
        return service_of(request, service)

    def account_of(self, access_key: str) -> str | None:
        """See `headrace.aws.gateway.dispatch.Fallback.account_of`."""
        return account_of(access_key) if self._ready.is_set() else None

    def call(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> dict[str, Any]:
        """See `headrace.aws.gateway.dispatch.Fallback.call`."""
        return self._calls.call(service, operation, params, account=account, region=region)
