"""Refuses CloudWatch Logs' requests as AWS does, and looks for log groups by a pattern (sentences recorded).

Each check runs before a method of moto's responses, which then handles the valid requests.

Accepts a KMS key for a log group only if the key exists and its policy lets CloudWatch Logs use it for the group.

moto stores any text as a key, and has neither AssociateKmsKey nor DisassociateKmsKey.
Sources: AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html (the service principal, the encryption context);
github.com/hashicorp/terraform-provider-aws/issues/29282 and ministryofjustice/modernisation-platform/issues/7870 (code
and sentence).

CloudWatch Logs: saved queries of Logs Insights, which moto lacks. They are stored and never run.

Source: API_PutQueryDefinition, API_DescribeQueryDefinitions, API_DeleteQueryDefinition; the errors' sentences are
assumed.

CloudWatch Logs Insights' calls: a query runs when it is started, and its result is kept in memory for a while.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.ports import CallerIdentity
from headrace.moto.current_cloud import CURRENT
from headrace.moto.memory import refusal_of, state_of_key
from headrace.moto.patching import check_first
from headrace.services.logs.insights import Event, parse_query, render_value
from headrace.services.logs.insights_expressions import QueryRefused, QueryTooLong

# What AWS answers of a group that is found by a pattern (recorded).
_OF_A_PATTERN = ("arn", "creationTime", "logGroupName")


def patch() -> None:
    """Replace moto's methods; called once."""
    from moto.logs.models import LogGroup, SubscriptionFilter
    from moto.logs.responses import LogsResponse

    subscription: Any = SubscriptionFilter
    subscription.to_json = _as_recorded(subscription.to_json)
    response: Any = LogsResponse
    for name in ("put_subscription_filter", "put_metric_filter"):
        setattr(response, name, _keep_choice(getattr(response, name)))
    response.put_subscription_filter = _ask_destination(response.put_subscription_filter)
    response.describe_log_groups = _by_pattern(response.describe_log_groups)
    response.describe_log_streams = _with_one_group(response.describe_log_streams)
    for name in ("tag_resource", "untag_resource", "list_tags_for_resource"):
        setattr(response, name, check_first(_check_tagged, getattr(response, name)))
    group: Any = LogGroup
    group.get_log_events = _with_stream(group.get_log_events)


def _check_tagged(response: Any) -> None:
    """Refuse the tags of what does not exist: moto keeps them for any text. The sentence is assumed."""
    backend, arn = response.logs_backend, str(response._get_param("resourceArn"))
    kinds = ("groups", "destinations", "delivery_destinations", "delivery_sources", "deliveries")
    known = (one.arn for kind in kinds for one in list(getattr(backend, kind).values()))
    if arn.removesuffix(":*") not in known:
        raise AwsError("ResourceNotFoundException", "The specified resource does not exist.")


def _as_recorded(to_json: Any) -> Any:
    """Show a subscription filter as AWS does; headrace has no transformed logs."""

    @functools.wraps(to_json)
    def show(self: Any) -> dict[str, Any]:
        shown = {name: value for name, value in to_json(self).items() if value is not None}
        shown["distribution"] = _distribution_of(self)
        return {"applyOnTransformedLogs": vars(self).get("is_of_transformed", False), **shown}

    return show


def _distribution_of(subscription: Any) -> str:
    """Return how a subscription distributes events over a stream's shards; an older headrace stored none."""
    return str(vars(subscription).get("distribution", "ByLogStream"))


def partition_key_of(subscription: Any, stream: Any) -> str:
    """Return the partition key of what a log stream sends to a Kinesis stream."""
    is_random = _distribution_of(subscription) == "Random"
    return str(uuid.uuid4()) if is_random else str(stream.log_stream_name)[:256]


def _keep_choice(put: Any) -> Any:
    """Keep whether a filter is of transformed logs, and how it distributes them, which moto drops."""

    @functools.wraps(put)
    def put_filter(self: Any) -> Any:
        answer = put(self)
        chosen = bool(self._get_param("applyOnTransformedLogs"))
        group, name = self._get_param("logGroupName"), self._get_param("filterName")
        if self._get_param("destinationArn"):
            subscription = self.logs_backend.groups[group].subscription_filters[name]
            subscription.is_of_transformed = chosen
            subscription.distribution = self._get_param("distribution") or "ByLogStream"
        elif chosen:
            for one in self.logs_backend.filters.get_matching_filters(name, group):
                if one["filterName"] == name:
                    one["applyOnTransformedLogs"] = True
        return answer

    return put_filter


def _ask_destination(put: Any) -> Any:
    """Let another account subscribe only as the destination's access policy says, whatever `--iam` is.

    Of the destination's own account nothing is asked (assumed). Observed by users: the code and the sentence
    (github.com/aws/aws-cli/issues/4422).
    """

    @functools.wraps(put)
    def put_subscription_filter(self: Any) -> Any:
        arn, action = str(self._get_param("destinationArn")), "logs:PutSubscriptionFilter"
        parts = arn.split(":", 5)
        is_theirs = parts[2:3] == ["logs"] and len(parts) == 6 and parts[4] != self.current_account
        if is_theirs and refusal_of(self, action, arn):
            raise AwsError(
                "AccessDeniedException",
                f"User with accountId: {self.current_account} is not authorized to perform: {action}"
                f" on resource: {arn}",
            )
        return put(self)

    return put_subscription_filter


def _by_pattern(describe_log_groups: Any) -> Any:
    """Look for the groups whose names contain a text, case-sensitively (documented: API_DescribeLogGroups)."""

    @functools.wraps(describe_log_groups)
    def describe(self: Any) -> str:
        from moto.logs.exceptions import InvalidParameterException

        pattern = self._get_param("logGroupNamePattern")
        if not pattern:
            return describe_log_groups(self)
        if self._get_param("logGroupNamePrefix"):
            raise InvalidParameterException(
                "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters."
            )
        groups = [group.to_describe_dict() for group in self.logs_backend.groups.values()]
        described = [
            {name: group[name] for name in _OF_A_PATTERN}
            for group in sorted(groups, key=lambda group: group["logGroupName"])
            if pattern in group["logGroupName"]
        ]
        return json.dumps({"logGroups": described})

    return describe


def _with_one_group(describe_log_streams: Any) -> Any:
    @functools.wraps(describe_log_streams)
    def describe(self: Any) -> str:
        from moto.logs.exceptions import ValidationException

        if self._get_param("logGroupName") and self._get_param("logGroupIdentifier"):
            raise ValidationException(
                "LogGroup name and LogGroup ARN are mutually exclusive parameters."
            )
        return describe_log_streams(self)

    return describe


def _with_stream(get_log_events: Any) -> Any:
    @functools.wraps(get_log_events)
    def get(self: Any, log_stream_name: str, *args: Any, **named: Any) -> Any:
        from moto.logs.exceptions import ResourceNotFoundException

        if log_stream_name not in self.streams:
            raise ResourceNotFoundException("The specified log stream does not exist.")
        return get_log_events(self, log_stream_name, *args, **named)

    return get


# The actions of the documented key policy that a log group needs.
_USES = ("kms:GenerateDataKey", "kms:Decrypt")
_CONTEXT = "kms:encryptioncontext:aws:logs:arn"
_REFUSED = "The specified KMS key does not exist or is not allowed to be used with Arn '{}'"


def check_keys() -> None:
    """Replace moto's methods; the caller does it once."""
    from moto.logs.models import LogsBackend
    from moto.logs.responses import LogsResponse

    backend: Any = LogsBackend
    backend.create_log_group = _with_key_checked(backend.create_log_group)
    response: Any = LogsResponse
    response.associate_kms_key = _associate
    response.disassociate_kms_key = _disassociate


def _with_key_checked(create_log_group: Any) -> Any:
    @functools.wraps(create_log_group)
    def create(self: Any, log_group_name: str, *args: Any, **named: Any) -> Any:
        if named.get("kmsKeyId"):
            _check_key(self, log_group_name, str(named["kmsKeyId"]))
        return create_log_group(self, log_group_name, *args, **named)

    return create


def _check_key(backend: Any, group: str, key_id: str) -> None:
    """Refuse a key that Logs may not use for a group. Raises AwsError. No check is made while state is being loaded."""
    if CURRENT.control is None:
        return
    account, region = str(backend.account_id), str(backend.region_name)
    arn = make_arn("logs", region, account, f"log-group:{group}")
    key, state = state_of_key(key_id, account, region)
    acting = CallerIdentity(f"logs.{region}.amazonaws.com", source_arn=arn)
    is_usable = state == "Enabled"
    denials = [CURRENT.guard.denial(acting, use, key, {_CONTEXT: (arn,)}) for use in _USES if key]
    if not is_usable or any(denials):
        raise AwsError("AccessDeniedException", _REFUSED.format(arn))


def _group_of(response: Any) -> Any:
    name = response._get_param("logGroupName")
    if not name:
        # `arn:aws:logs:REGION:ACCOUNT:log-group:NAME`
        name = str(response._get_param("resourceIdentifier") or "").split(":log-group:", 1)[-1]
    group = response.logs_backend.groups.get(name)
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    return group


def _associate(response: Any) -> str:
    group = _group_of(response)
    key_id = str(response._get_param("kmsKeyId") or "")
    _check_key(response.logs_backend, str(group.name), key_id)
    group.kms_key_id = key_id
    return ""


def _disassociate(response: Any) -> str:
    _group_of(response).kms_key_id = None
    return ""


# The quota for an account in a region (documented: CloudWatch Logs quotas).
MOST = 1_000
PAGE = 1_000


def keep_query_definitions() -> None:
    """Add the three operations to moto's Logs."""
    from moto.logs.responses import LogsResponse

    response: Any = LogsResponse
    response.put_query_definition = _put
    response.describe_query_definitions = _describe
    response.delete_query_definition = _delete


def _get_saved(backend: Any) -> dict[str, dict[str, Any]]:
    """Return a backend's definitions by id; a backend that an older headrace has stored has no such attribute."""
    return vars(backend).setdefault("query_definitions", {})


def _put(self: Any) -> str:
    from moto.logs.exceptions import LimitExceededException

    saved = _get_saved(self.logs_backend)
    key = self._get_param("queryDefinitionId")
    if key:
        _check_there(saved, key)
    elif len(saved) >= MOST:
        raise LimitExceededException()
    else:
        key = str(uuid.uuid4())
    saved[key] = {
        "queryLanguage": self._get_param("queryLanguage") or "CWLI",
        "queryDefinitionId": key,
        "name": self._get_param("name"),
        "queryString": self._get_param("queryString"),
        "lastModified": CURRENT.clock.now_ms(),
        "logGroupNames": self._get_param("logGroupNames") or [],
    }
    return json.dumps({"queryDefinitionId": key})


def _describe(self: Any) -> str:
    prefix = self._get_param("queryDefinitionNamePrefix") or ""
    language = self._get_param("queryLanguage")
    after = self._get_param("nextToken") or ""
    most = self._get_param("maxResults") or PAGE
    definitions = sorted(
        (
            one
            for one in _get_saved(self.logs_backend).values()
            if one["name"].startswith(prefix) and language in (None, one["queryLanguage"])
        ),
        key=_place,
    )
    rest = [one for one in definitions if _place(one) > after]
    answer: dict[str, Any] = {"queryDefinitions": rest[:most]}
    if len(rest) > most:
        answer["nextToken"] = _place(rest[most - 1])
    return json.dumps(answer)


def _delete(self: Any) -> str:
    saved = _get_saved(self.logs_backend)
    key = self._get_param("queryDefinitionId")
    _check_there(saved, key)
    del saved[key]
    return json.dumps({"success": True})


def _place(definition: dict[str, Any]) -> str:
    return f"{definition['name']}\n{definition['queryDefinitionId']}"


def _check_there(saved: dict[str, Any], key: str) -> None:
    from moto.logs.exceptions import ResourceNotFoundException

    if key not in saved:
        raise ResourceNotFoundException("The specified query definition does not exist.")


# How many queries' results an account keeps in a region.
MOST_QUERIES = 100
MOST_KEPT_CHARACTERS = 2**28
MOST_GROUPS = 50
# A group's name or ARN. What follows a name does not name another group: the name before it is what IAM has allowed.
_GROUP = re.compile(r"(?:arn:[\w-]+:logs:([\w-]+):(\d+):log-group:)?([^:]+)(?::\*)?", re.ASCII)


def run_insights() -> None:
    """Replace moto's methods; called once."""
    from moto.logs.responses import LogsResponse

    response: Any = LogsResponse
    response.start_query = _start_query
    response.get_query_results = _get_query_results


def _refuse(code: str, message: str) -> Any:
    from moto.core.exceptions import JsonRESTError

    return JsonRESTError(code, message)


def _groups(self: Any) -> list[Any]:
    """Return the groups of a query, which are named in one of three ways (documented: API_StartQuery)."""
    one, several, ids = (
        self._get_param(name) for name in ("logGroupName", "logGroupNames", "logGroupIdentifiers")
    )
    if sum(value is not None for value in (one, several, ids)) > 1:
        raise _refuse(
            "InvalidParameterException",
            "A StartQuery operation must include exactly one of logGroupName, logGroupNames or logGroupIdentifiers.",
        )
    names: list[str] = [one] if one else several or ids or []
    if not names or len(names) > MOST_GROUPS:
        raise _refuse(
            "InvalidParameterException", f"A query takes from 1 to {MOST_GROUPS} log groups."
        )
    groups: list[Any] = []
    for name in names:
        match = _GROUP.fullmatch(name)
        place = () if match is None or match[1] is None else (match[1], match[2])
        group = None if match is None else self.logs_backend.groups.get(match[3])
        if group is None or (place and place != (self.region, self.current_account)):
            raise _refuse(
                "ResourceNotFoundException",
                f"Log group '{name}' does not exist for account ID '{self.current_account}'",
            )
        groups.append(group)
    return groups


def _start_query(self: Any) -> str:
    from moto.logs.models import LogQuery
    from moto.moto_api._internal import mock_random

    text = self._get_param("queryString") or ""
    language = self._get_param("queryLanguage") or "CWLI"
    if language != "CWLI":
        raise _refuse(
            "InvalidParameterException", f"headrace runs queries of CWLI, and not of {language}."
        )
    groups = _groups(self)
    begin_s, end_s = int(self._get_param("startTime")), int(self._get_param("endTime"))
    try:
        parsed = parse_query(text)
    except QueryRefused as refusal:
        raise _refuse("MalformedQueryException", str(refusal)) from None
    # moto's own query would read every event, and leave out what it does not know.
    query: Any = LogQuery(str(mock_random.uuid1()), begin_s, end_s, "fields @message", [])
    query.query, query.log_group_names = text, [group.name for group in groups]
    query.shown, query.scanned = [], 0
    try:
        rows, query.scanned = parsed.run(_events(groups, _ms(begin_s), _ms(end_s, is_end=True)))
    except QueryTooLong:
        query.status, rows = "Timeout", []
    except QueryRefused as refusal:
        raise _refuse("MalformedQueryException", str(refusal)) from None
    most = int(self._get_param("limit") or 10_000)
    for row in rows[:most]:
        columns = [*parsed.shown, *(["@ptr"] if parsed.is_events else [])]
        query.shown.append(
            [
                {"field": name, "value": render_value(name, row[name])}
                for name in columns
                if row.get(name) is not None
            ]
        )
    query.matched = len(rows)
    queries = self.logs_backend.queries
    query.characters = sum(len(one["value"]) for row in query.shown for one in row)
    queries[query.query_id] = query
    kept = sum(getattr(one, "characters", 0) for one in queries.values())
    while len(queries) > MOST_QUERIES or (kept > MOST_KEPT_CHARACTERS and len(queries) > 1):
        kept -= getattr(queries.pop(next(iter(queries))), "characters", 0)
    return json.dumps({"queryId": query.query_id})


def _ms(moment: int, *, is_end: bool = False) -> int:
    """Return a time in milliseconds; requests have seconds, and some clients milliseconds."""
    if moment > 100_000_000_000:
        return moment
    return moment * 1000 + (999 if is_end else 0)


def _events(groups: list[Any], begin_ms: int, end_ms: int) -> Iterator[Event]:
    for group in groups:
        for stream in group.streams.values():
            for event in stream.events:
                if begin_ms <= event.timestamp <= end_ms:
                    yield Event(
                        event.timestamp, event.ingestion_time, event.message, stream.log_stream_name,
                        f"{stream.account_id}:{group.name}", str(event.event_id),
                    )  # fmt: skip


def _get_query_results(self: Any) -> str:
    query_id = self._get_param("queryId")
    query = self.logs_backend.queries.get(query_id)
    if query is None:
        raise _refuse("ResourceNotFoundException", f"Query with id {query_id} does not exist")
    statistics = {
        "recordsMatched": float(query.matched), "recordsScanned": float(query.scanned), "bytesScanned": 0.0,
    }  # fmt: skip
    return json.dumps(
        {
            "queryLanguage": "CWLI",
            "results": query.shown,
            "statistics": statistics,
            "status": query.status,
        }
    )
