"""Athena's calls about queries, on moto's executions: moto stores them, and runs nothing.

Source: docs.aws.amazon.com/athena/latest/APIReference (documented); sentences: observed in public reports, or assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import dataclasses
import json
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.core.ports import BucketNotFound, CallerIdentity, ObjectNotFound
from headrace.deliveries.service_events import queue_service_event
from headrace.moto import principals
from headrace.moto.current_cloud import CURRENT
from headrace.services.athena.catalog_calls import (
    get_database,
    get_table_metadata,
    list_databases,
    list_table_metadata,
    read_offset,
    refuse,
)
from headrace.services.athena.patches import run_prepared
from headrace.services.athena.queries import STOPPED_REASON, Outcome, Query
from headrace.services.athena.results import PAGE_ROWS, NoRow, render_row

# How many finished executions an account keeps in a region; AWS keeps them for 45 days.
MOST_FINISHED = 1000
MOST_TEXT_BYTES = 262_144
_ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
_PRECISIONS = {
    "boolean": 0, "tinyint": 3, "smallint": 5, "integer": 10, "bigint": 19, "float": 17, "double": 17, "date": 0,
    "timestamp": 3, "timestamp with time zone": 3, "decimal": 38,
}  # fmt: skip
_TEXTS = ("varchar", "string", "char", "json")


def run_queries(module: Any) -> None:
    """Let queries run: StartQueryExecution and the calls that follow it."""
    response = module.AthenaResponse
    for call in (
        start_query_execution, get_query_execution, batch_get_query_execution, get_query_results,
        stop_query_execution, list_query_executions, list_databases, get_database, list_table_metadata,
        get_table_metadata,
    ):  # fmt: skip
        setattr(response, call.__name__, call)


def start_query_execution(self: Any) -> str:
    """Answer StartQueryExecution."""
    from moto.athena.models import Execution

    backend = self.athena_backend
    name = self._get_param("WorkGroup") or "primary"
    group = backend.work_groups.get(name)
    if group is None:
        raise refuse(f"WorkGroup {name} is not found.")
    if group.state == "DISABLED":
        raise refuse(f"WorkGroup {name} is disabled.")
    text = self._get_param("QueryString") or ""
    if not text.strip() or len(text.encode()) > MOST_TEXT_BYTES:
        raise refuse(
            f"queryString has {len(text.encode())} bytes: 1 to {MOST_TEXT_BYTES} are allowed"
        )
    token = self._get_param("ClientRequestToken")
    if token:
        known = next(
            (e for e in backend.executions.values() if getattr(e, "token", None) == token), None
        )
        if known is not None:
            if known.query != text:
                raise refuse("Idempotent parameters do not match")
            return json.dumps({"QueryExecutionId": known.id})
    config = _results_of(self._get_param("ResultConfiguration") or {}, group)
    context = dict(self._get_param("QueryExecutionContext") or {})
    if _plain_name(context.get("Catalog") or "AwsDataCatalog") != "awsdatacatalog":
        raise refuse(
            f"headrace queries the catalog AwsDataCatalog alone, and not {context['Catalog']}"
        )
    parameters = self._get_param("ExecutionParameters")
    sql, values = run_prepared(backend, name, text, parameters or ())
    execution: Any = Execution(text, cast("Any", context), {}, group, parameters)
    execution.config, execution.token = config, token
    execution.start_time = CURRENT.clock.now_ms() / 1000
    execution.outcome = dataclasses.asdict(Outcome("QUEUED"))
    if CURRENT.queries is None:
        return json.dumps({"QueryExecutionId": execution.id})
    CURRENT.queries.submit(
        Query(
            execution.id, self.current_account, self.region, sql,
            _plain_name(context.get("Database") or "default"), config["OutputLocation"],
            tuple(values), _find_acting(self),
        )
    )  # fmt: skip
    backend.executions[execution.id] = execution
    _tell_bus(self.current_account, self.region, execution, "QUEUED", "")
    trim(backend)
    return json.dumps({"QueryExecutionId": execution.id})


def _plain_name(name: str) -> str:
    """Return a context's name without the backticks or double quotes in which clients put it."""
    name = name.strip()
    is_quoted = len(name) > 2 and name[0] == name[-1] and name[0] in '`"'
    return (name[1:-1] if is_quoted else name).lower()


def _find_acting(self: Any) -> CallerIdentity | None:
    """Return whose rights a query uses: a role's session's or a user's; None for the account itself.

    A session that a user has asked for has the user's.
    """
    key, token = str(self.get_access_key()), str(self.headers.get("X-Amz-Security-Token") or "")
    session = None if CURRENT.sessions is None else CURRENT.sessions.find(key, token)
    if session is not None:
        if not session.role:  # the account itself has asked for it
            return None
        kind = "role" if session.kind == "role" else "user"
        holder = principals.holder_of(session.account, kind, session.role)
        arn = make_arn("iam", "", session.account, f"{kind}/{session.role}")
        return CallerIdentity(
            arn if holder is None else str(holder.arn),
            session.name if kind == "role" else "",
            policy=session.policy,
            policy_arns=session.policy_arns,
        )
    for account, backend in principals.iam_backends():
        stored = backend.access_keys.get(key)
        user = (
            None if stored is None else principals.holder_of(account, "user", str(stored.user_name))
        )
        if user is not None:
            return CallerIdentity(str(user.arn))
    return None


def _results_of(asked: dict[str, Any], group: Any) -> dict[str, Any]:
    """Return where results go: the workgroup's setting overrides the request's when it is enforced."""
    own: dict[str, Any] = group.configuration.get("ResultConfiguration") or {}
    is_enforced = bool(group.configuration.get("EnforceWorkGroupConfiguration"))
    config = {**asked, **own} if is_enforced else {**own, **asked}
    location = config.get("OutputLocation") or ""
    if not location:
        raise refuse(
            "No output location provided. An output location is required either through the Workgroup result "
            "configuration setting or as an API input."
        )
    bucket = location.removeprefix("s3://").partition("/")[0]
    if not location.startswith("s3://") or not bucket:
        raise refuse("outputLocation is not a valid S3 path.")
    return {**config, "OutputLocation": location if location.endswith("/") else f"{location}/"}


def trim(backend: Any) -> None:
    """Forget the oldest executions that have ended."""
    finished = [e.id for e in backend.executions.values() if _outcome(e).state in _ENDED]
    for execution_id in finished[: max(0, len(finished) - MOST_FINISHED)]:
        del backend.executions[execution_id]


def begin(query: Query) -> None:
    """Tell the default event bus that a query runs; called under moto's lock."""
    execution = _execution_of(query)
    if execution is not None:
        _tell_bus(query.account, query.region, execution, "RUNNING", "QUEUED")


def _execution_of(query: Query) -> Any:
    from moto.athena.models import athena_backends

    return athena_backends[query.account][query.region].executions.get(query.id)


# The number of each state's event (documented: athena-events.html).
_SEQUENCE = {"QUEUED": "1", "RUNNING": "2"}


def _tell_bus(account: str, region: str, execution: Any, state: str, before: str) -> None:
    """Send the event of a change of state."""
    outcome = Outcome(**execution.outcome)
    detail = {
        "versionId": "0",
        "currentState": state,
        **({"previousState": before} if before else {}),
        "statementType": outcome.kind,
        "queryExecutionId": execution.id,
        "workgroupName": _group_of(execution),
        "sequenceNumber": _SEQUENCE.get(state, "3"),
    }
    queue_service_event(
        f"Athena's query {execution.id}",
        "aws.athena",
        "Athena Query State Change",
        detail,
        account=account,
        region=region,
    )


def finish(query: Query, outcome: Outcome) -> None:
    """Store a query's outcome in moto's execution, and tell the bus; called under moto's lock."""
    execution = _execution_of(query)
    if execution is not None and execution.outcome["state"] not in _ENDED:
        execution.outcome = dataclasses.asdict(outcome)
        _tell_bus(query.account, query.region, execution, outcome.state, "RUNNING")


# Reads


def _find(self: Any, query_id: str) -> Any:
    execution = self.athena_backend.executions.get(query_id)
    if execution is None:
        raise refuse(f"QueryExecution {query_id} was not found")
    return execution


def _outcome(execution: Any) -> Outcome:
    """Return an execution's outcome as it is now: one that neither waits nor runs was stopped with headrace."""
    stored = getattr(execution, "outcome", None)
    # One of an earlier headrace, which ran nothing.
    outcome = Outcome("FAILED", STOPPED_REASON, 1) if stored is None else Outcome(**stored)
    if outcome.state in _ENDED:
        return outcome
    state = CURRENT.queries.state_of(execution.id) if CURRENT.queries is not None else ""
    if state:
        return dataclasses.replace(outcome, state=state)
    return dataclasses.replace(outcome, state="FAILED", reason=STOPPED_REASON, category=1)


def _group_of(execution: Any) -> str:
    """Return the name of an execution's workgroup, which one of an earlier headrace may lack."""
    return "primary" if execution.workgroup is None else str(execution.workgroup.name)


def _show_execution(execution: Any) -> dict[str, Any]:
    outcome = _outcome(execution)
    status: dict[str, Any] = {"State": outcome.state, "SubmissionDateTime": execution.start_time}
    if outcome.state in _ENDED:
        status["CompletionDateTime"] = (outcome.ended_ms or execution.start_time * 1000) / 1000
    if outcome.reason:
        status["StateChangeReason"] = outcome.reason
    if outcome.state == "FAILED":
        status["AthenaError"] = {
            "ErrorCategory": outcome.category, "Retryable": False, "ErrorMessage": outcome.reason,
        }  # fmt: skip
    config = execution.config or {}
    location = outcome.location or f"{config.get('OutputLocation', '')}{execution.id}.csv"
    statistics: dict[str, Any] = {
        "EngineExecutionTimeInMillis": outcome.millis,
        "DataScannedInBytes": outcome.scanned_bytes,
        "TotalExecutionTimeInMillis": outcome.millis,
        "QueryQueueTimeInMillis": 0,
        "ServicePreProcessingTimeInMillis": 0,
        "QueryPlanningTimeInMillis": 0,
        "ServiceProcessingTimeInMillis": 0,
        "ResultReuseInformation": {"ReusedPreviousResult": False},
    }
    if outcome.manifest:
        statistics["DataManifestLocation"] = outcome.manifest
    shown: dict[str, Any] = {
        "QueryExecutionId": execution.id,
        "Query": execution.query,
        "StatementType": outcome.kind,
        "ResultConfiguration": {**config, "OutputLocation": location},
        "ResultReuseConfiguration": {"ResultReuseByAgeConfiguration": {"Enabled": False}},
        "QueryExecutionContext": execution.context or {},
        "Status": status,
        "Statistics": statistics,
        "WorkGroup": _group_of(execution),
        "EngineVersion": {
            "SelectedEngineVersion": "AUTO", "EffectiveEngineVersion": "Athena engine version 3",
        },
    }  # fmt: skip
    if outcome.substatement:
        shown["SubstatementType"] = outcome.substatement
    if execution.execution_parameters is not None:
        shown["ExecutionParameters"] = execution.execution_parameters
    return shown


def get_query_execution(self: Any) -> str:
    """Answer GetQueryExecution."""
    return json.dumps(
        {"QueryExecution": _show_execution(_find(self, self._get_param("QueryExecutionId")))}
    )


def batch_get_query_execution(self: Any) -> str:
    """Answer BatchGetQueryExecution."""
    known = self.athena_backend.executions
    ids = self._get_param("QueryExecutionIds") or []
    unknown = [
        {
            "QueryExecutionId": one,
            "ErrorCode": "INVALID_INPUT",
            "ErrorMessage": f"QueryExecution {one} was not found",
        }
        for one in ids
        if one not in known
    ]
    shown = [_show_execution(known[one]) for one in ids if one in known]
    return json.dumps({"QueryExecutions": shown, "UnprocessedQueryExecutionIds": unknown})


def list_query_executions(self: Any) -> str:
    """Answer ListQueryExecutions: the newest first."""
    name = self._get_param("WorkGroup") or "primary"
    if name not in self.athena_backend.work_groups:
        raise refuse(f"WorkGroup {name} is not found.")
    ids = [e.id for e in self.athena_backend.executions.values() if _group_of(e) == name][::-1]
    count, start = (
        int(self._get_param("MaxResults") or 50),
        read_offset(self._get_param("NextToken")),
    )
    answer: dict[str, Any] = {"QueryExecutionIds": ids[start : start + count]}
    if start + count < len(ids):
        answer["NextToken"] = str(start + count)
    return json.dumps(answer)


def get_query_results(self: Any) -> str:
    """Answer GetQueryResults: a SELECT's first row has the columns' names."""
    execution = _find(self, self._get_param("QueryExecutionId"))
    outcome = _outcome(execution)
    if outcome.state in ("QUEUED", "RUNNING"):
        raise refuse(f"Query has not yet finished. Current state: {outcome.state}")
    if outcome.state != "SUCCEEDED":
        raise refuse(f"Query did not finish successfully. Final query state: {outcome.state}")
    count = int(self._get_param("MaxResults") or PAGE_ROWS)
    if not 1 <= count <= PAGE_ROWS:
        raise refuse(f"MaxResults is more than maximum allowed length {PAGE_ROWS}.")
    offset = read_offset(self._get_param("NextToken"))
    rows: list[list[str | None]] = []
    end = -1
    if outcome.update_count is None and CURRENT.queries is not None:
        try:
            rows, end = CURRENT.queries.page(
                outcome.location,
                offset,
                count,
                is_text=outcome.is_text,
                acting=_find_acting(self),
                region=self.region,
            )
        except (BucketNotFound, ObjectNotFound):
            raise refuse(f"Could not find results at {outcome.location}") from None
        except NoRow:
            raise refuse("Invalid NextToken") from None
    answer: dict[str, Any] = {
        "ResultSet": {
            "Rows": [render_row(row) for row in rows],
            "ResultSetMetadata": {"ColumnInfo": [_column(one) for one in outcome.columns]},
        },
        "UpdateCount": outcome.update_count or 0,
    }
    if end >= 0:
        answer["NextToken"] = str(end)
    return json.dumps(answer)


def _column(column: dict[str, str]) -> dict[str, Any]:
    kind = column["type"]
    return {
        "CatalogName": "hive", "SchemaName": "", "TableName": "",
        "Name": column["name"], "Label": column["name"], "Type": kind,
        "Precision": 2_147_483_647 if kind in _TEXTS else _PRECISIONS.get(kind, 0),
        "Scale": 0, "Nullable": "UNKNOWN", "CaseSensitive": kind in _TEXTS,
    }  # fmt: skip


def stop_query_execution(self: Any) -> str:
    """Answer StopQueryExecution; a query that has ended stays as it is."""
    execution = _find(self, self._get_param("QueryExecutionId"))
    outcome = _outcome(execution)
    if outcome.state in ("QUEUED", "RUNNING"):
        cancelled = dataclasses.replace(
            outcome,
            state="CANCELLED",
            reason="Query cancelled by user",
            ended_ms=CURRENT.clock.now_ms(),
        )
        execution.outcome = dataclasses.asdict(cancelled)
        _tell_bus(self.current_account, self.region, execution, "CANCELLED", outcome.state)
        if CURRENT.queries is not None:
            CURRENT.queries.cancel(execution.id)
    return json.dumps({})
