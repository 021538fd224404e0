"""Runs tasks that moto's interpreter lacks: EMR, EMR Serverless, Athena, HTTP endpoints, and this cloud's own APIs.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/connect-emr.html, connect-emr-serverless.html,
connect-athena.html, call-https-apis.html and connect-api-gateway.html; the names of their errors are assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlencode

from headrace.aws.calls.errors import AwsError
from headrace.core.values import parse_json
from headrace.deliveries.input_templates import first_value
from headrace.deliveries.targets import HttpCall, connection_call, make_exchange
from headrace.services.stepfunctions.interpreter.service_calls import client_of_cloud, failure

Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How a `.sync` task waits: it calls `operation` until the state is one of `done` or `failed`."""

    operation: str
    params: Callable[[Parameters, Parameters], dict[str, Any]]
    state: str
    done: frozenset[str]
    failed: frozenset[str] = frozenset()
    result: Callable[[Parameters, Parameters], Any] = lambda answer, seen: {**answer, **seen}


@dataclass(frozen=True, slots=True)
class Task:
    """A task's API call: its operation, and how it converts parameters and the answer.

    `look_up` completes the converted parameters, with what it asks of the service.
    """

    operation: str
    params: Callable[[Parameters], dict[str, Any]] = dict
    answer: Callable[[Parameters, dict[str, Any]], dict[str, Any]] = lambda _, answer: answer
    waiting: Waiting | None = None
    look_up: Callable[[Any, Parameters], dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A service's tasks, by their names in a state's Resource."""

    service: str
    error: str
    tasks: Mapping[str, Task] = field(default_factory=dict[str, Task])


def _words(*names: str) -> frozenset[str]:
    return frozenset(names)


def _job(parameters: Parameters) -> dict[str, Any]:
    return {"applicationId": parameters["ApplicationId"]}


def _change_by_name(kind: str, client: Any, given: Parameters) -> dict[str, Any]:
    """Return the parameters that change the instance group or fleet of a name. Raises ClientError if there is none."""
    from botocore.exceptions import ClientError

    cluster, name = given["ClusterId"], given[f"{kind}Name"]
    listed = client.call(f"List{kind}s", ClusterId=cluster)[f"{kind}s"]
    for each in listed:
        if each.get("Name") == name:
            change = {**given[kind], f"{kind}Id": each["Id"]}
            member = {"InstanceGroup": {"InstanceGroups": [change]}}.get(kind, {kind: change})
            return {"ClusterId": cluster, **member}
    # The sentence is assumed.
    said = {"Code": "InvalidRequestException", "Message": f"{kind} '{name}' is not in {cluster}."}
    raise ClientError(cast("Any", {"Error": said}), f"Modify{kind}")


_CLUSTER_OVER = _words("TERMINATED", "TERMINATED_WITH_ERRORS")
_EMR = Service(
    "emr",
    "ElasticMapReduce",
    {
        "createCluster": Task(
            "RunJobFlow",
            answer=lambda _, answer: {
                "ClusterId": answer["JobFlowId"],
                "ClusterArn": answer.get("ClusterArn"),
            },
            waiting=Waiting(
                "DescribeCluster",
                lambda _, answer: {"ClusterId": answer["ClusterId"]},
                "$.Cluster.Status.State",
                _words("WAITING", "RUNNING"),
                _CLUSTER_OVER,
            ),
        ),
        "terminateCluster": Task(
            "TerminateJobFlows",
            lambda given: {"JobFlowIds": [given["ClusterId"]]},
            waiting=Waiting(
                "DescribeCluster",
                lambda given, _: {"ClusterId": given["ClusterId"]},
                "$.Cluster.Status.State",
                _CLUSTER_OVER,
            ),
        ),
        "addStep": Task(
            "AddJobFlowSteps",
            lambda given: {
                "JobFlowId": given["ClusterId"],
                "Steps": [given["Step"]],
                **{n: given[n] for n in ("ExecutionRoleArn",) if n in given},
            },
            lambda _, answer: {"StepId": answer["StepIds"][0]},
            Waiting(
                "DescribeStep",
                lambda given, answer: {
                    "ClusterId": given["ClusterId"],
                    "StepId": answer["StepId"],
                },
                "$.Step.Status.State",
                _words("COMPLETED"),
                _words("FAILED", "CANCELLED", "INTERRUPTED"),
            ),
        ),
        "cancelStep": Task(
            "CancelSteps",
            lambda given: {"ClusterId": given["ClusterId"], "StepIds": [given["StepId"]]},
            lambda _, answer: {"CancelStepsInfo": answer["CancelStepsInfoList"][0]},
        ),
        "setClusterTerminationProtection": Task(
            "SetTerminationProtection",
            lambda given: {
                "JobFlowIds": [given["ClusterId"]],
                "TerminationProtected": given["TerminationProtected"],
            },
        ),
        "modifyInstanceFleetByName": Task(
            "ModifyInstanceFleet", look_up=functools.partial(_change_by_name, "InstanceFleet")
        ),
        "modifyInstanceGroupByName": Task(
            "ModifyInstanceGroups", look_up=functools.partial(_change_by_name, "InstanceGroup")
        ),
    },
)
# Its API refuses job runs, by name.
_CONTAINERS = Service(
    "emr-containers",
    "EMRContainers",
    {
        "createVirtualCluster": Task("CreateVirtualCluster"),
        "deleteVirtualCluster": Task(
            "DeleteVirtualCluster",
            waiting=Waiting(
                "DescribeVirtualCluster",
                lambda given, _: {"id": given["Id"]},
                "$.virtualCluster.state",
                _words("TERMINATED"),
                _words("ARRESTED"),
            ),
        ),
        "startJobRun": Task("StartJobRun"),
    },
)
_APPLICATION = functools.partial(
    Waiting, "GetApplication", lambda given, answer: {"applicationId": _id(given, answer)}
)


def _id(parameters: Parameters, answer: Parameters) -> str:
    return str(
        parameters.get("ApplicationId") or answer.get("ApplicationId") or answer["applicationId"]
    )


_SERVERLESS = Service(
    "emr-serverless",
    "EMRServerless",
    {
        "createApplication": Task(
            "CreateApplication",
            waiting=_APPLICATION(
                "$.application.state", _words("CREATED", "STARTED"), _words("TERMINATED")
            ),
        ),
        "startApplication": Task(
            "StartApplication",
            waiting=_APPLICATION("$.application.state", _words("STARTED"), _words("TERMINATED")),
        ),
        "stopApplication": Task(
            "StopApplication",
            waiting=_APPLICATION("$.application.state", _words("STOPPED"), _words("TERMINATED")),
        ),
        "deleteApplication": Task(
            "DeleteApplication",
            waiting=_APPLICATION("$.application.state", _words("TERMINATED")),
        ),
        "startJobRun": Task(
            "StartJobRun",
            waiting=Waiting(
                "GetJobRun",
                lambda given, answer: {**_job(given), "jobRunId": answer["JobRunId"]},
                "$.jobRun.state",
                _words("SUCCESS"),
                _words("FAILED", "CANCELLED"),
            ),
        ),
        "cancelJobRun": Task("CancelJobRun"),
    },
)
_ATHENA = Service(
    "athena",
    "Athena",
    {
        "startQueryExecution": Task(
            "StartQueryExecution",
            waiting=Waiting(
                "GetQueryExecution",
                lambda _, answer: {"QueryExecutionId": answer["QueryExecutionId"]},
                "$.QueryExecution.Status.State",
                _words("SUCCEEDED"),
                _words("FAILED", "CANCELLED"),
                lambda _, seen: seen,
            ),
        ),
        "stopQueryExecution": Task("StopQueryExecution"),
        "getQueryExecution": Task("GetQueryExecution"),
        "getQueryResults": Task("GetQueryResults"),
    },
)
SERVICES = {
    "elasticmapreduce": _EMR,
    "emr-containers": _CONTAINERS,
    "emr-serverless": _SERVERLESS,
    "athena": _ATHENA,
}


def task_maker(make: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the constructor of a service's task: one from this module, or else the interpreter's."""

    def task_for(service_name: str) -> Any:
        if service_name in SERVICES:
            return _make_waiting_task()(SERVICES[service_name])
        if service_name in ("http", "apigateway"):
            return _http_task()()
        return make(service_name=service_name)  # pyright: ignore[reportCallIssue]

    return task_for


@functools.cache
def _make_waiting_task() -> Any:
    from botocore.exceptions import ClientError
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        resource,
        state_task_service_callback,
    )

    kinds: Any = resource.ResourceCondition

    class WaitingTask(state_task_service_callback.StateTaskServiceCallback):
        """A task of a `Service`."""

        def __init__(self, service: Service) -> None:
            super().__init__(supported_integration_patterns={kinds.WaitForTaskToken, kinds.Sync})
            self._service = service

        def _get_supported_parameters(self) -> set[str] | None:
            # None makes the interpreter refuse the definition.
            return set() if self.resource.api_action in self._service.tasks else None

        def _from_error(self, env: Any, ex: Exception) -> Any:
            if isinstance(ex, ClientError):
                said = cast("dict[str, Any]", ex.response)["Error"]
                return failure(self, env, f"{self._service.error}.{said['Code']}", said["Message"])
            return super()._from_error(env=env, ex=ex)

        def _normalise_response(self, *args: Any, **named: Any) -> None:
            """Keep the answer unchanged."""

        def _client(self, resource_runtime_part: Any, credentials: Any) -> Any:
            return client_of_cloud(resource_runtime_part.region, self._service.service, credentials)

        def _eval_service_task(
            self, env: Any, resource_runtime_part: Any,
            normalised_parameters: dict[str, Any], state_credentials: Any,
        ) -> None:  # fmt: skip
            task = self._service.tasks[self.resource.api_action]
            client = self._client(resource_runtime_part, state_credentials)
            answer = _call(task, client, normalised_parameters)
            env.stack.append(task.answer(normalised_parameters, _capitalize_names(answer)))

        def _build_sync_resolver(
            self, env: Any, resource_runtime_part: Any,
            normalised_parameters: dict[str, Any], state_credentials: Any,
        ) -> Callable[[], Any]:  # fmt: skip
            answer = env.stack.pop()
            waiting = self._service.tasks[self.resource.api_action].waiting
            if waiting is None:
                return lambda: answer
            client = self._client(resource_runtime_part, state_credentials)

            def resolve() -> Any:
                params = waiting.params(normalised_parameters, answer)
                seen = client.call(waiting.operation, **params)
                return _result_if_done(self, env, waiting, answer, seen)

            return resolve

    return WaitingTask


def _call(task: Task, client: Any, given: Parameters) -> dict[str, Any]:
    """Call a task's operation; return its answer."""
    params = task.params(given)
    if task.look_up is not None:
        params = task.look_up(client, params)
    answer: dict[str, Any] = client.call(task.operation, **params) or {}
    answer.pop("ResponseMetadata", None)
    return answer


def _result_if_done(
    task: Any, env: Any, waiting: Waiting, answer: Parameters, seen: Parameters
) -> Any:
    """Return a task's result; None while what it waits for is not done. Raises the task's failure."""
    state = str(first_value(waiting.state, seen))
    if state in waiting.failed:
        raise _build_failure(task, env, json.dumps(_capitalize_names(seen), default=str))
    return waiting.result(answer, _capitalize_names(seen)) if state in waiting.done else None


def _capitalize_names(value: Any) -> Any:
    """Return an answer with Step Functions' names of its members; times become text."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            f"{name[:1].upper()}{name[1:]}": _capitalize_names(element)
            for name, element in members.items()
        }
    if isinstance(value, list):
        return [_capitalize_names(element) for element in cast("list[Any]", value)]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _build_failure(task: Any, env: Any, cause: str) -> Exception:
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEventException,
    )

    return FailureEventException(failure(task, env, "States.TaskFailed", cause))


# --- HTTP -----------------------------------------------------------------------------------------


@functools.cache
def _http_task() -> Any:
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        resource,
        state_task_service_callback,
    )

    conditions: Any = resource.ResourceCondition

    class HttpTask(state_task_service_callback.StateTaskServiceCallback):
        """Calls an HTTP endpoint through an EventBridge connection (`http:invoke`), or an API (`apigateway:invoke`)."""

        def __init__(self) -> None:
            super().__init__(supported_integration_patterns={conditions.WaitForTaskToken})

        def _normalise_response(self, *args: Any, **named: Any) -> None:
            """Keep the answer unchanged."""

        def _get_supported_parameters(self) -> set[str] | None:
            return set() if self.resource.api_action == "invoke" else None

        def _from_error(self, env: Any, ex: Exception) -> Any:
            if isinstance(ex, AwsError | OSError):
                status = ex.status if isinstance(ex, AwsError) else 0
                is_api = self.resource.service_name == "apigateway"
                prefix = "ApiGateway" if is_api else "States.Http.StatusCode"
                error = f"{prefix}.{status}" if status else "States.Http.Socket"
                return failure(self, env, error, str(ex))
            return super()._from_error(env=env, ex=ex)

        def _eval_service_task(
            self,
            env: Any,
            resource_runtime_part: Any,
            normalised_parameters: dict[str, Any],
            state_credentials: Any,
        ) -> None:
            account = str(state_credentials.role_arn).split(":")[4]
            call = _call_of(normalised_parameters, self.resource.service_name, account)
            request_body = normalised_parameters.get("RequestBody")
            body = b"" if request_body is None else json.dumps(request_body).encode()
            status, headers, answer = make_exchange(call, body)
            if status >= 300:
                raise AwsError("HTTP", answer.decode(errors="replace"), status)
            env.stack.append(
                {
                    "Headers": {name: [value] for name, value in headers},
                    "ResponseBody": _json(answer),
                    "StatusCode": status,
                    "StatusText": HTTPStatus(status).phrase,
                }
            )

    return HttpTask


def _call_of(parameters: Mapping[str, Any], service: str, account: str) -> HttpCall:
    headers = {
        name: ",".join(map(str, cast("list[Any]", value)))
        if isinstance(value, list)
        else str(value)
        for name, value in (parameters.get("Headers") or {}).items()
    }
    headers.setdefault("Content-Type", "application/json")
    query = dict(parameters.get("QueryParameters") or {})
    method = str(parameters.get("Method") or "GET")
    if service == "apigateway":
        asked = f"?{urlencode(query, doseq=True)}" if query else ""
        path = f"/{str(parameters.get('Path') or '').lstrip('/')}"
        stage = f"/{parameters['Stage']}" if parameters.get("Stage") else ""
        api = str(parameters["ApiEndpoint"]).removeprefix("https://").partition(".")[0]
        return HttpCall(method, f"{stage}{path}{asked}", headers, api=api, account=account)
    arn = str((parameters.get("Authentication") or {}).get("ConnectionArn") or "")
    return connection_call(arn, method, str(parameters["ApiEndpoint"]), headers, query)


def _json(answer: bytes) -> Any:
    try:
        return parse_json(answer)
    except ValueError:
        return answer.decode(errors="replace")
