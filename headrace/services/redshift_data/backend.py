"""The Data API's state and rules: it runs and cancels statements, and finds their results."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.arn import make_arn
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import BusEvent, CallerIdentity, EventBusSender, Guard
from headrace.core.ports.warehouses import Login, Session, Warehouses, user_of
from headrace.core.values import parse_json
from headrace.core.workers import Supervisor, WorkerDone
from headrace.services.redshift_data.errors import (
    KEPT_MS,
    STATEMENT_BYTES,
    invalid,
    no_target,
    not_found,
)
from headrace.services.redshift_data.execution import Active, Sessions, StatementRun
from headrace.services.redshift_data.state import ENDED, Part, Statement, Statements, Target

log = logging.getLogger(__name__)


# Sends an EventBridge event when a statement ends, if the request set `WithEvent`.
#
# Source of the event's form: docs.aws.amazon.com/redshift/latest/mgmt/data-api-monitoring-events.html (documented).
# Delivery is at least once: an event that a kill prevented is sent at the next start.

SOURCE = "aws.redshift-data"
_KIND = "Redshift Data Statement Status Change"


def event_of(statement: Statement) -> BusEvent:
    """Return the event of a statement that has ended."""
    account, region, name = statement.account, statement.region, statement.target_name
    of = (
        make_arn("redshift", region, account, f"cluster:{name}")
        if statement.target == "cluster"
        else make_arn("redshift-serverless", region, account, f"workgroup/{name}")  # assumed
    )
    detail = {
        "principal": statement.principal,
        "statementName": statement.name,
        "statementId": statement.id,
        "redshiftQueryId": statement.parts[-1].query_id or -1,
        "state": statement.status,
        "rows": sum(max(0, part.rows) for part in statement.parts),
        "expireAt": (statement.updated_ms + KEPT_MS) // 1000,
    }
    return BusEvent(SOURCE, _KIND, json.dumps(detail), (of,))


def announce(statement: Statement, buses: EventBusSender, store: Statements) -> None:
    """Send an ended statement's event and store that it was sent. A refused event is logged and dropped."""
    bus = make_arn("events", statement.region, statement.account, "event-bus/default")
    try:
        buses.put(bus, event_of(statement))
    except (AwsError, LookupError) as error:
        log.warning("redshift-data %s: its event is lost: %s", statement.id, error)
    statement.is_announced = True
    store.put(statement)


class LateAnnouncer:
    """A `Worker` that sends the events that a kill prevented."""

    def __init__(
        self, statements: list[Statement], buses: EventBusSender, store: Statements
    ) -> None:
        self.name = "redshift-data events"
        self._statements, self._buses, self._store = statements, buses, store

    def step(self) -> float:
        """Send the events; see `Worker.step`."""
        for statement in self._statements:
            announce(statement, self._buses, self._store)
        raise WorkerDone


RunRequest = shapes.ExecuteStatementInput | shapes.BatchExecuteStatementInput
CatalogRequest = (
    shapes.ListDatabasesRequest
    | shapes.ListSchemasRequest
    | shapes.ListTablesRequest
    | shapes.DescribeTableRequest
)
# The requests that say where to connect, and as whom.
Connects = RunRequest | CatalogRequest
SecretReader = Callable[[str, str, str], str | None]
_SESSION = "RedshiftCopy"


class RedshiftData:
    """All statements and sessions of the Data API. Thread-safe."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        store: Statements,
        supervisor: Supervisor,
        warehouses: Warehouses,
        secrets: SecretReader,
        guard: Guard,
        buses: EventBusSender,
    ) -> None:
        self.sessions = Sessions(clock, ids, supervisor)
        self._buses = buses
        self.clock = clock
        self.store = store
        self.warehouses = warehouses
        self._ids = ids
        self._supervisor = supervisor
        self._secrets = secrets
        self._guard = guard
        self._lock = threading.Lock()
        self._active = Active(supervisor)

    def start(self) -> None:
        """Load the statements. Those that were running when the last cloud ended are FAILED; they were rolled back."""
        self.store.load()
        for statement in self.store.all():
            if statement.status not in ENDED:
                statement.status = "FAILED"
                statement.error = (
                    "The statement ended with headrace, which was stopped while it ran."
                )
                for part in statement.parts:
                    part.status = part.status if part.status in ENDED else "ABORTED"
                self.store.put(statement)
        silent = [s for s in self.store.all() if s.with_event and not s.is_announced]
        if silent:
            self._supervisor.start(LateAnnouncer(silent, self._buses, self.store))

    def stop(self) -> None:
        """Interrupt the running statements, and end the sessions."""
        self.sessions.close()
        self._active.stop()

    # --- targets and logins -------------------------------------------------------------------

    def target(self, call: Call, request: Connects) -> Target:
        """Return a request's cluster or workgroup, and its login. Raises AwsError."""
        cluster, workgroup = request.get("ClusterIdentifier"), request.get("WorkgroupName")
        if not cluster and not workgroup:
            raise no_target()
        if cluster and workgroup:
            raise invalid(
                "Only one of ClusterIdentifier and WorkgroupName can be provided."
            )  # assumed
        kind = "cluster" if cluster else "workgroup"
        name = str(cluster or workgroup).rpartition("/")[2]
        spec = self.warehouses.spec_of(kind, name, account=call.account, region=call.region)
        login = self._login_of(call, request, kind, name, spec.user)
        return Target(kind, name, login)

    def _login_of(self, call: Call, request: Connects, kind: str, name: str, admin: str) -> Login:
        secret, user = request.get("SecretArn"), request.get("DbUser")
        if secret and user:
            raise invalid("DbUser and SecretArn cannot be provided together.")  # assumed
        if user and kind == "workgroup":
            raise invalid("DbUser is not supported for serverless workgroups.")  # assumed
        if secret:
            self._ask(call, "secretsmanager", "GetSecretValue", str(secret))
            return Login("", "")
        if user:
            arn = make_arn("redshift", call.region, call.account, f"dbuser:{name}/{user}")
            self._ask(call, "redshift", "GetClusterCredentials", arn)
            return Login(str(user))
        acting = None if call.permit is None else call.permit.acting
        if acting is None:
            return Login(admin)
        if kind == "cluster":
            arn = make_arn(
                "redshift",
                call.region,
                call.account,
                f"dbname:{name}/{request.get('Database', '')}",
            )
            self._ask(call, "redshift", "GetClusterCredentialsWithIAM", arn)
        else:
            arn = make_arn("redshift-serverless", call.region, call.account, "workgroup/*")
            self._ask(call, "redshift-serverless", "GetCredentials", arn)
        return Login(user_of(acting.arn), is_made=True)

    def _ask(self, call: Call, service: str, action: str, arn: str) -> None:
        if call.permit is not None:
            call.permit.ask_for(service, f"{service}:{action}", arn)

    def secret_login(self, arn: str, account: str, region: str) -> Login:
        """Return the login in a secret. Raises LookupError with AWS's message."""
        text = self._secrets(arn, account, region)
        if text is None:
            raise LookupError("Secrets Manager can't find the specified secret.")
        try:
            secret = parse_json(text)
        except ValueError:
            secret = None
        members = cast("dict[str, Any]", secret) if isinstance(secret, dict) else {}
        if not members.get("username") or not members.get("password"):
            raise LookupError("The secret has no username and password.")
        return Login(str(members["username"]), str(members["password"]))

    def open(self, call: Call, request: CatalogRequest) -> Session:
        """Connect for an operation that answers synchronously. Raises AwsError, WarehouseError."""
        target = self.target(call, request)
        login = target.login
        secret = request.get("SecretArn")
        if secret:
            try:
                login = self.secret_login(str(secret), call.account, call.region)
            except LookupError as error:
                raise invalid(str(error)) from error
        spec = self.warehouses.spec_of(
            target.kind, target.name, account=call.account, region=call.region
        )
        database = request.get("ConnectedDatabase") or request.get("Database") or spec.database
        return self.warehouses.open(spec, database, login, may_read=self.may_read)  # pyrefly: ignore[bad-argument-type]

    def may_read(self, role: str, action: str, resource: str) -> str:
        """Return why a COPY's role may not do the action, empty if it may. The role must also trust Redshift."""
        service = CallerIdentity("redshift.amazonaws.com")
        return self._guard.denial(service, "sts:AssumeRole", role) or self._guard.denial(
            CallerIdentity(role, _SESSION), action, resource
        )

    # --- statements ---------------------------------------------------------------------------

    def execute(
        self, call: Call, request: RunRequest, sqls: list[str], *, is_batch: bool
    ) -> Statement:
        """Store statements and begin to run them. Raises AwsError."""
        session_id = request.get("SessionId")
        if session_id:
            request = self._of_session(call, request, session_id)
        target = self.target(call, request)
        database = request.get("Database")
        if not database:
            raise invalid("Database must be provided.")  # assumed
        for sql in sqls:
            if len(sql.encode()) > STATEMENT_BYTES:
                raise invalid("The SQL statement is larger than 100 KB.")  # assumed
        asked = json.dumps({"sqls": sqls, "on": [target.kind, target.name, database]})
        token = request.get("ClientToken", "")
        with self._lock:
            earlier = self._of_token(call, token)
        if earlier is not None:
            if earlier.asked != asked:
                raise invalid("The ClientToken was used with other parameters.")  # assumed
            return earlier
        statement = Statement(
            id=self._ids.uuid(),
            account=call.account,
            region=call.region,
            parts=[Part(sql, created_ms=call.now_ms, updated_ms=call.now_ms) for sql in sqls],
            is_batch=is_batch,
            target=target.kind,
            target_name=target.name,
            database=str(database),
            created_ms=call.now_ms,
            updated_ms=call.now_ms,
            login_user=target.login.user,
            login_is_made=target.login.is_made,
            secret_arn=str(request.get("SecretArn") or ""),
            db_user=str(request.get("DbUser") or target.login.user),
            name=str(request.get("StatementName") or ""),
            parameters=[[p["name"], p["value"]] for p in request.get("Parameters") or ()],
            result_format=str(request.get("ResultFormat") or "JSON"),
            mode=str(request.get("ExecutionMode") or "TRANSACTION"),
            client_token=token,
            asked=asked,
            with_event=bool(request.get("WithEvent")),
            principal=_principal(call),
        )
        run = self._run_of(statement)
        self._active.reserve(run)
        try:
            self._join_session(statement, request)
            self.store.put(statement)
        except BaseException:
            self._active.drop(statement)
            raise
        self._active.start(run)
        return statement

    def _join_session(self, statement: Statement, request: RunRequest) -> None:
        """Assign a statement to the session that the request names, or to a new one if the request wants one."""
        keep_s = request.get("SessionKeepAliveSeconds")
        session_id = request.get("SessionId")
        if session_id:
            statement.session_id = str(session_id)
            self.sessions.take(statement.session_id, statement, keep_s)
        elif keep_s:
            statement.session_id = self.sessions.begin(statement, int(keep_s))

    def _of_session(self, call: Call, request: RunRequest, session_id: str) -> RunRequest:
        """Return a request with the target, database and secret of its session. Raises AwsError."""
        named = ("ClusterIdentifier", "WorkgroupName", "Database", "DbUser", "SecretArn")
        if any(request.get(name) for name in named):
            raise invalid(
                f"SessionId cannot be provided with any of {', '.join(named)}."
            )  # assumed
        opened = self.sessions.opened_by(call.account, call.region, session_id)
        kind = "ClusterIdentifier" if opened.target == "cluster" else "WorkgroupName"
        values: dict[str, object] = {
            **request,
            kind: opened.target_name,
            "Database": opened.database,
        }
        if opened.secret_arn:
            values["SecretArn"] = opened.secret_arn
        return cast("RunRequest", values)

    def _of_token(self, call: Call, token: str) -> Statement | None:
        if not token:
            return None
        return next(
            (
                s
                for s in self.store.all()
                if (s.account, s.region, s.client_token) == (call.account, call.region, token)
            ),
            None,
        )

    def _run_of(self, statement: Statement) -> StatementRun:
        return StatementRun(
            statement,
            clock=self.clock,
            store=self.store,
            warehouses=self.warehouses,
            login=self._login,
            may_read=self.may_read,
            ended=self._end,
            sessions=self.sessions,
        )

    def _login(self, statement: Statement) -> Login:
        if statement.secret_arn:
            return self.secret_login(statement.secret_arn, statement.account, statement.region)
        return Login(statement.login_user, is_made=statement.login_is_made)

    def _end(self, statement: Statement) -> None:
        if statement.with_event:
            announce(statement, self._buses, self.store)
        self._active.drop(statement)

    def wait(self, statement: Statement, seconds: int) -> None:
        """Wait at most so many seconds until a statement has ended."""
        self._active.wait(statement, seconds)

    def find(self, call: Call, statement_id: str) -> tuple[Statement, int | None]:
        """Return the statement of an id, and its part if the id names one, else None. Raises AwsError."""
        whole, _, number = statement_id.partition(":")
        statement = self.store.get(whole)
        if statement is None or (statement.account, statement.region) != (
            call.account,
            call.region,
        ):
            raise not_found(statement_id)
        if not number:
            return statement, None
        if (
            not statement.is_batch
            or not number.isdecimal()
            or not 0 < int(number) <= len(statement.parts)
        ):
            raise not_found(statement_id)
        return statement, int(number) - 1

    def cancel(self, statement: Statement) -> None:
        """Stop an active statement. Raises AwsError."""
        if statement.status in ENDED or not self._active.cancel(statement):
            raise invalid(f"Could not cancel a query that is already in {statement.status} state")


def _principal(call: Call) -> str:
    acting = None if call.permit is None else call.permit.acting
    return acting.arn if acting is not None else make_arn("iam", "", call.account, "root")
