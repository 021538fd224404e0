"""Corrects how moto's interpreter calls services: errors get their service's names, and every `.sync` can wait.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html; the names of errors of
services without an example there: assumed.

Replaces the boto3 clients of moto's States interpreter: its methods call operations of this cloud with a role.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import base64
import functools
import io

# moto has no public attributes for these patches.
import re
import secrets
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import loader, service_model
from headrace.core.ports import CallerIdentity
from headrace.deliveries.targets import convert_parameters
from headrace.moto.current_cloud import CURRENT
from headrace.services.stepfunctions.interpreter.http_metadata import metadata_of

_PREFIXES = {"ecs": "ECS", "events": "EventBridge"}
# The names of services of AWS's SDK for Java, which Step Functions takes, that differ from botocore's in more than
# hyphens.
_CALLED = {
    "applicationdiscovery": "discovery",
    "cloudwatchlogs": "logs",
    "cognitoidentityprovider": "cognito-idp",
    "costandusagereport": "cur",
    "costexplorer": "ce",
    "databasemigration": "dms",
    "directory": "ds",
    "elasticloadbalancing": "elb",
    "elasticloadbalancingv2": "elbv2",
    "elasticsearch": "es",
    "eventbridge": "events",
    "iotdataplane": "iot-data",
    "iotjobsdataplane": "iot-jobs-data",
    "lexmodelbuilding": "lex-models",
    "lexmodelsv2": "lexv2-models",
    "lexruntime": "lex-runtime",
    "lexruntimev2": "lexv2-runtime",
    "marketplacemetering": "meteringmarketplace",
    "migrationhub": "mgh",
    "pinpointsmsvoice": "sms-voice",
    "serverlessapplicationrepository": "serverlessrepo",
    "sfn": "stepfunctions",
    "simpledb": "sdb",
}
_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")


def patch() -> None:
    """Patch moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.common.error_name import (
        custom_error_name,
        error_name,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        resource,
        state_task_service,
        state_task_service_aws_sdk,
        state_task_service_callback,
        state_task_service_dynamodb,
        state_task_service_glue,
        state_task_service_sqs,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.state_task_lambda import (
        StateTaskLambda,
    )

    # Any state may end with an error named States.*, which comes from what ran inside it.
    names: Any = custom_error_name.CustomErrorName
    names.__init__ = error_name.ErrorName.__init__
    service: Any = state_task_service.StateTaskService
    service._from_error = _name_errors(service._from_error)
    service._normalise_response = _normalise_response
    task: Any = state_task_service_callback.StateTaskServiceCallback
    task._eval_body = _with_sync(task._eval_body, resource.ResourceCondition)
    sdk: Any = state_task_service_aws_sdk.StateTaskServiceAwsSdk
    sdk._normalise_service_error_name = staticmethod(_name_in_sdk)
    for integration, own in (
        (state_task_service_dynamodb.StateTaskServiceDynamoDB, "DynamoDB.AmazonDynamoDBException"),
        (state_task_service_sqs.StateTaskServiceSqs, "SQS.AmazonSQSException"),
    ):
        task = integration
        task._from_error = _name_unknown(task._from_error, own)
    invoking: Any = lambda_eval_utils
    invoking.select_from_typed_dict = _select_result
    function: Any = StateTaskLambda
    function._from_error = _name_function_errors(function._from_error)
    glue: Any = state_task_service_glue.StateTaskServiceGlue
    glue._build_sync_resolver = _no_glue_job


def _select_result(typed_dict: Any, obj: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a function's result that states see."""
    shown = {*typed_dict.__annotations__, "SdkHttpMetadata", "SdkResponseMetadata"}
    return {name: value for name, value in obj.items() if name in shown}


def _name_errors(from_error: Callable[..., Any]) -> Callable[..., Any]:
    """Name a service's errors after the service; moto names them States.Runtime, which no Catch handles."""

    def name_error(self: Any, env: Any, ex: Exception) -> Any:
        from botocore.exceptions import ClientError

        if not isinstance(ex, ClientError):
            return from_error(self, env=env, ex=ex)
        details: dict[str, Any] = dict(ex.response.get("Error", {}))
        code = str(details.get("Code", ""))
        name = str(self.resource.service_name)
        prefix = _PREFIXES.get(name, name[:1].upper() + name[1:])
        return failure(
            self, env, f"{prefix}.{_as_exception(code)}", str(details.get("Message", ""))
        )

    return name_error


def _as_exception(code: str) -> str:
    return code if code.endswith(("Exception", "Error")) else f"{code}Exception"


def _name_function_errors(from_error: Callable[..., Any]) -> Callable[..., Any]:
    """Name Lambda's own errors, of a task whose resource is a function's ARN, after Lambda (documented, for retries).

    Source: docs.aws.amazon.com/step-functions/latest/dg/sfn-best-practices.html; moto names them `Exception`.
    """

    def name_error(self: Any, env: Any, ex: Exception) -> Any:
        from botocore.exceptions import ClientError

        if not isinstance(ex, ClientError):
            return from_error(self, env=env, ex=ex)
        details: dict[str, Any] = dict(ex.response.get("Error", {}))
        name = f"Lambda.{_as_exception(str(details.get('Code', '')))}"
        return _task_failure(self, env, str(details.get("Message", "")), name)

    return name_error


def _name_unknown(from_error: Callable[..., Any], own: str) -> Callable[..., Any]:
    """Name an error that the service's model does not have `own` (recorded)."""

    def name_error(self: Any, env: Any, ex: Exception) -> Any:
        from botocore.exceptions import ClientError

        if type(ex) is ClientError:
            return failure(self, env, own, str(ex.response.get("Error", {}).get("Message", "")))
        return from_error(self, env=env, ex=ex)

    return name_error


def _name_in_sdk(service: str) -> str:
    """Return a service's name in SDK integration errors, in the spelling of AWS's SDK for Java (documented)."""
    try:
        identifier = str(service_model(find_service_name(service)).metadata["serviceId"])
    except Exception:  # noqa: BLE001 - botocore has several errors for an unknown service
        identifier = service
    return "".join(word[:1].upper() + word[1:].lower() for word in _WORD.findall(identifier))


@functools.cache
def find_service_name(service: str) -> str:
    """Return botocore's name of a service that a resource names as AWS's SDK for Java does, or as botocore does."""
    without_hyphens = {
        name.replace("-", ""): name for name in loader().list_available_services("service-2")
    }
    return _CALLED.get(service) or without_hyphens.get(service, service)


def is_sdk_call(service: str, action: str) -> bool:
    """Return whether AWS's SDKs have a service, named as in a resource, with an action of that name."""
    try:
        operations = service_model(find_service_name(service)).operation_names
    except Exception:  # noqa: BLE001 - botocore has several errors for an unknown service
        return False
    return action.lower() in map(str.lower, operations)


def _with_sync(evaluate: Callable[..., None], conditions: Any) -> Callable[..., None]:
    """Let the `.sync` tasks of every service wait; in moto, Glue's lacks this and fails at its end."""
    syncs = {conditions.Sync, conditions.Sync2}

    def with_sync(self: Any, env: Any) -> None:
        condition, supported = self.resource.condition, self._supported_integration_patterns
        if condition in syncs and condition in supported:
            self._supported_integration_patterns = {*supported, conditions.WaitForTaskToken}
        evaluate(self, env)

    return with_sync


def _no_glue_job(*_: Any, **__: Any) -> Any:
    # moto reports success for a job whose script never ran.
    raise NotImplementedError("headrace does not run Glue jobs: startJobRun.sync would never end")


def failure(task: Any, env: Any, error: str, cause: str) -> Any:
    """Return moto's failure for a service task."""
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name import (
        error_name,
        failure_event,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    details: Any = {
        "error": error,
        "cause": cause,
        "resource": task._get_sfn_resource(),
        "resourceType": task._get_sfn_resource_type(),
    }
    name: Any = type("ServiceErrorName", (error_name.ErrorName,), {})
    details_of: Any = EventDetails
    kind: Any = HistoryEventType.TaskFailed
    return failure_event.FailureEvent(
        env=env,
        error_name=name(error),
        event_type=kind,
        event_details=details_of(taskFailedEventDetails=details),
    )


SESSION = "headrace-stepfunctions"


def asking_for_roles(evaluate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the evaluation of a task's `Credentials` that asks whether the machine's role may assume their role.

    Documented: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-access-cross-acct-resources.html
    Observed by others: the error's name and sentence. Assumed: the task fails before it is scheduled.
    """

    def evaluate_and_ask(task: Any, env: Any) -> Any:
        from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
            FailureEventException,
        )

        credentials = evaluate(task, env)
        role, own = str(credentials.role_arn), env.aws_execution_details.role_arn
        if task.credentials is None or role == own:
            return credentials
        acting = CallerIdentity(own, SESSION)
        is_role = role.startswith("arn:") and ":role/" in role
        if not is_role or CURRENT.guard.denial(acting, "sts:AssumeRole", role):
            cause = f"The role {own} is not authorized to assume the task state's role, {role}."
            raise FailureEventException(_task_failure(task, env, cause))
        return credentials

    return evaluate_and_ask


def _task_failure(task: Any, env: Any, cause: str, error: str = "States.TaskFailed") -> Any:
    """Return moto's failure for a task, which may be a function's."""
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name import (
        custom_error_name,
        failure_event,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    if hasattr(task, "_get_sfn_resource_type"):
        return failure(task, env, error, cause)
    details_of: Any = EventDetails
    return failure_event.FailureEvent(
        env=env,
        error_name=custom_error_name.CustomErrorName(error),
        event_type=HistoryEventType.LambdaFunctionFailed,
        event_details=details_of(lambdaFunctionFailedEventDetails={"error": error, "cause": cause}),
    )


# SDKs name errors by their shapes; SQS's error has the query protocol's code instead.
_NAMES_OF_CODES = {"AWS.SimpleQueueService.NonExistentQueue": "QueueDoesNotExist"}


def client_of_cloud(region: str, service: str, state_credentials: Any = None) -> Client:
    """Return the interpreter's client of a service; it has the parameters of moto's function, which it replaces."""
    name = find_service_name(service)
    try:
        service_model(name)
    except Exception as error:
        raise NotImplementedError(f"headrace has no service {service}") from error
    return Client(name, region, state_credentials.role_arn)


def sdk_client_of_cloud(region: str, service: str, state_credentials: Any = None) -> Client:
    """Return the client of SDK integrations: an object for a text is sent as its JSON, which others refuse.

    Observed by others on AWS: github.com/localstack/localstack/pull/10174, github.com/aws/aws-cdk/issues/9181.
    """
    client = client_of_cloud(region, service, state_credentials)
    client.takes_json = True
    return client


class Client:
    """A client of one service in one region, with a role; `takes_json`: see `convert_parameters`."""

    def __init__(self, service: str, region: str, role_arn: str) -> None:
        self._service, self._region, self._role_arn = service, region, role_arn
        self.takes_json = False

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        operation = _operations(self._service).get(method)
        if operation is None:
            raise NotImplementedError(f"{self._service} has no operation {method}")
        return functools.partial(self.call, operation)

    def call(self, operation: str, **params: Any) -> dict[str, Any]:
        """Return an operation's output. Raises botocore's ClientError, whose class has the error's name."""
        from botocore.exceptions import ClientError

        if CURRENT.control is None:
            raise RuntimeError("headrace is starting or stopping")
        try:
            output = CURRENT.control.call(
                self._service,
                operation,
                self._parameters(operation, params),
                account=self._role_arn.split(":")[4],
                region=self._region,
                acting=CallerIdentity(self._role_arn, SESSION),
            )
        except AwsError as error:
            name = _NAMES_OF_CODES.get(error.code, error.code)
            # Recorded: an error that the service's model does not have is the service's own exception.
            is_known = name in _error_names(self._service)
            kind: Any = _exception_class(name, ClientError) if is_known else ClientError
            raise kind(
                {
                    "Error": {"Code": error.code, "Message": error.message},
                    "ResponseMetadata": {"HTTPStatusCode": error.status, **self._request_ids()},
                },
                operation,
            ) from error
        told = {} if self.takes_json else metadata_of(self._service, operation, output)
        shown = {**_with_streams(self._service, operation, output), **told}
        return cast("dict[str, Any]", _plain(shown))

    def _request_ids(self) -> dict[str, str]:
        """Return what tells one request from another in the causes of failures."""
        if self._service != "s3":
            return {"RequestId": str(uuid.uuid4())}
        host_id = base64.b64encode(secrets.token_bytes(56)).decode()
        return {"RequestId": secrets.token_hex(8).upper(), "HostId": host_id}

    def _parameters(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters under the operation's names, with idempotency tokens added as an SDK does."""
        model: Any = service_model(self._service).operation_model(operation)
        tokens = {name: str(uuid.uuid4()) for name in model.idempotent_members}
        # Recorded: a null is none at all.
        present = {name: value for name, value in params.items() if value is not None}
        converted = convert_parameters(
            self._service, operation, present, takes_json=self.takes_json
        )
        return {**tokens, **converted}


def _plain(value: Any) -> Any:
    """Return an output in the form that states pass on: bytes become text, or Base64 (assumed).

    Times are text (observed by others on AWS: github.com/floci-io/floci, docs/services/step-functions.md).
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(element) for element in cast("list[Any]", value)]
    return value


@functools.cache
def _operations(service: str) -> dict[str, str]:
    from botocore import xform_name

    return {xform_name(name): name for name in service_model(service).operation_names}


@functools.cache
def _error_names(service: str) -> frozenset[str]:
    shapes: Any = service_model(service).error_shapes
    return frozenset(name for shape in shapes for name in (str(shape.name), str(shape.error_code)))


@functools.lru_cache(maxsize=1000)
def _exception_class(code: str, base: type) -> Any:
    """Return an exception class with the error's name, which the interpreter reports for an SDK integration."""
    return type(code.replace(".", ""), (base,), {})


def _normalise_response(
    self: Any,
    response: Any,
    boto_service_name: str | None = None,
    service_action_name: str | None = None,
) -> None:
    """Rename an output's members as Step Functions does: with a capital letter (documented)."""
    from botocore import xform_name

    service = self._get_boto_service_name(boto_service_name)
    action = self._get_boto_service_action(service_action_name)
    model = service_model(find_service_name(service))
    operation = next(
        (
            operation_name
            for operation_name in model.operation_names
            if xform_name(operation_name) == action
        ),
        None,
    )
    shape: Any = None if operation is None else model.operation_model(operation).output_shape
    if shape is not None and isinstance(response, dict):
        self._from_boto_response(response, shape)


def _with_streams(service: str, operation: str, output: dict[str, Any]) -> dict[str, Any]:
    from botocore.response import StreamingBody

    shape: Any = service_model(service).operation_model(operation).output_shape
    name = shape.serialization.get("payload") if shape is not None else None
    if name and isinstance(output.get(name), bytes):
        body = output[name]
        return {**output, name: StreamingBody(io.BytesIO(body), len(body))}
    return output
