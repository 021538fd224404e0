"""CloudFormation: the backend that actions work on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.service import ServiceApi
from headrace.core.arn import make_arn
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    BucketNotFound,
    ControlPlane,
    FunctionInvoker,
    ObjectNotFound,
    ObjectStore,
)
from headrace.core.workers import Supervisor, WorkerDone
from headrace.services.cloudformation import limits
from headrace.services.cloudformation.custom_responses import CloudStopped, Responses
from headrace.services.cloudformation.deploy import STACK_TYPE, Deployment
from headrace.services.cloudformation.errors import (
    ResourceFailed,
    TemplateError,
    too_long,
    translate,
)
from headrace.services.cloudformation.profile import PROFILE
from headrace.services.cloudformation.resources import TYPES, custom_resource_type
from headrace.services.cloudformation.resources.base import Context, ResourceType
from headrace.services.cloudformation.state import Stack, Stacks
from headrace.services.cloudformation.template import Template
from headrace.services.cloudformation.template_checks import parse
from headrace.services.cloudformation.template_url import bucket_and_key
from headrace.store.database import Database

log = logging.getLogger(__name__)

# An execution answers when it is done, if that is soon: the CDK CLI's first look then finds the end, and saves
# its five seconds of waiting.
ANSWER_WITHIN_S = 2.0


class _Operation:
    """A worker that carries one stack operation out and is done."""

    def __init__(
        self, deployment: Deployment, work: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self.name = f"stack {deployment.stack.name}"
        self._deployment = deployment
        self._work = work
        self._ended = ended

    def step(self) -> float:
        try:
            self._work()
        except CloudStopped as stopped:
            raise WorkerDone from stopped
        except Exception as error:  # noqa: BLE001
            # Whatever it was, the stack must not stay in progress for ever.
            self._deployment.give_up(error)
        finally:
            self._ended()
        raise WorkerDone


class CloudFormation:
    """All stacks of all accounts and regions. Thread-safe: requests hold `lock`; a stack has one operation."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        database: Database,
        supervisor: Supervisor,
        control: ControlPlane,
        objects: ObjectStore,
        functions: FunctionInvoker,
        endpoint_url: Callable[[], str],
        strict: bool = False,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.control = control
        self.objects = objects
        self.endpoint_url = endpoint_url
        self.lock = threading.RLock()
        self.stacks = Stacks(database)
        self._strict = strict
        self._supervisor = supervisor
        self._functions = functions
        self._responses = Responses(clock, ids, endpoint_url)
        self._running: dict[str, Deployment] = {}

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover the stacks; an operation that a kill cut short takes the way back, or goes on deleting."""
        self.stacks.load()
        for stack in list(self.stacks.all()):
            if stack.in_progress:
                log.warning("stack %s was %s when the cloud was killed", stack.name, stack.status)
                deployment = Deployment(self, stack)
                self.run(deployment, self._resumption(deployment), wait=False)

    def _resumption(self, deployment: Deployment) -> Callable[[], None]:
        stack = deployment.stack
        why = "The cloud was stopped during the operation."
        match stack.status:
            case "CREATE_IN_PROGRESS":
                self.set_status(stack, "ROLLBACK_IN_PROGRESS", why)
                return deployment.roll_back_creation
            case "ROLLBACK_IN_PROGRESS":
                return deployment.roll_back_creation
            case "DELETE_IN_PROGRESS":
                return deployment.delete
            case "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS":
                return lambda: deployment.clean_up("UPDATE_COMPLETE")
            case "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS":
                return lambda: deployment.clean_up("UPDATE_ROLLBACK_COMPLETE")
            case "UPDATE_IN_PROGRESS":
                self.set_status(stack, "UPDATE_ROLLBACK_IN_PROGRESS", why)
                return deployment.roll_back_update
            case _:
                return deployment.roll_back_update

    def stop(self) -> None:
        """Let operations end where they are; they are resumed at the next start."""
        self._responses.stop()

    # --- operations ---------------------------------------------------------------------------

    def run(self, deployment: Deployment, work: Callable[[], None], *, wait: bool = True) -> None:
        """Run an operation in the background; wait a moment for one that ends soon."""
        done = threading.Event()
        stack_id = deployment.stack.stack_id

        def ended() -> None:
            with self.lock:
                if self._running.get(stack_id) is deployment:
                    del self._running[stack_id]
            done.set()

        with self.lock:
            self._running[stack_id] = deployment
        self._supervisor.start(_Operation(deployment, work, ended))
        if wait:
            self.clock.wait(done, ANSWER_WITHIN_S)

    def turn_round(self, stack: Stack, status: str) -> bool:
        """Have the operation on a stack go on from another status; False when there is none. Under `lock`."""
        running = self._running.get(stack.stack_id)
        if running is None:
            return False
        self.set_status(stack, status, "User Initiated")
        running.cancel()
        return True

    def new_stack(self, name: str, account: str, region: str, status: str, now_ms: int) -> Stack:
        """Return a stack that is not stored yet."""
        stack_id = make_arn("cloudformation", region, account, f"stack/{name}/{self.ids.uuid()}")
        return Stack(stack_id, name, account, region, status, now_ms)

    def set_status(
        self, stack: Stack, status: str, reason: str = "", *, whole: bool = False
    ) -> None:
        """Store a stack's new status, with all of its resources when `whole`, and its event after it."""
        with self.lock:
            before = stack.status, stack.reason
            stack.status, stack.reason = status, reason
            if stack.status.startswith("UPDATE"):
                stack.updated_ms = self.clock.now_ms()
            try:
                if whole:
                    self.stacks.save_all(stack)
                else:
                    self.stacks.save(stack)
            except BaseException:
                # Nobody would carry out what was not stored.
                stack.status, stack.reason = before
                raise
        self.add_event(
            stack,
            logical_id=stack.name,
            physical_id=stack.stack_id,
            kind=STACK_TYPE,
            status=status,
            reason=reason,
        )

    def add_event(
        self,
        stack: Stack,
        *,
        logical_id: str,
        physical_id: str,
        kind: str,
        status: str,
        reason: str = "",
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Store an event of a stack."""
        self.stacks.add_event(
            stack.stack_id,
            {
                "EventId": self.ids.uuid(),
                "StackId": stack.stack_id,
                "StackName": stack.name,
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": physical_id,
                "ResourceType": kind,
                "Timestamp": self.clock.now_ms(),
                "ResourceStatus": status,
                "ResourceStatusReason": reason,
                "ResourceProperties": dict(properties or {}),
            },
        )
        log.info("%s %s %s %s %s", stack.name, logical_id, kind, status, reason)

    # --- what deployments ask -----------------------------------------------------------------

    def resource_type(self, name: str) -> ResourceType | None:
        """Return a resource type, or None when headrace does not know it."""
        if name.startswith("Custom::") or name == "AWS::CloudFormation::CustomResource":
            return custom_resource_type(name)
        return TYPES.get(name)

    def context(
        self,
        stack: Stack,
        logical_id: str,
        stop: threading.Event,
        note_made: Callable[[str], None],
    ) -> Context:
        """Return where a resource of a stack is made; see `Context` for `stop` and `note_made`."""
        return Context(
            control=self.control,
            clock=self.clock,
            ids=self.ids,
            account=stack.account,
            region=stack.region,
            stack_name=stack.name,
            stack_id=stack.stack_id,
            logical_id=logical_id,
            tags=stack.tags,
            endpoint_url=self.endpoint_url(),
            responses=self._responses,
            functions=self._functions,
            stop=stop,
            note_made=note_made,
        )

    @staticmethod
    def effective_parameter(stored: Mapping[str, Any]) -> Any:
        """Return what Ref gives for a stored parameter."""
        text = stored["value"] if stored.get("resolved") is None else stored["resolved"]
        return [item.strip() for item in text.split(",")] if stored.get("is_list") else text

    def receive_response(self, token: str, body: bytes) -> bool:
        """Take a custom resource's answer; whether somebody waited for it."""
        return self._responses.receive(token, body)

    # --- exports ------------------------------------------------------------------------------

    def exports(self, account: str, region: str) -> dict[str, tuple[Stack, str]]:
        """Return export name to (stack, value)."""
        return {
            output["ExportName"]: (stack, output["OutputValue"])
            for stack in self.stacks.all(account, region)
            if stack.exists
            for output in stack.outputs
            if "ExportName" in output
        }

    def read_export(self, stack: Stack, name: str) -> str:
        """Return an export's value and note that `stack` uses it. Raises ResourceFailed."""
        found = self.exports(stack.account, stack.region).get(name)
        if found is None:
            raise ResourceFailed(f"No export named {name} found.")
        with self.lock:
            if name not in stack.imports:
                stack.imports.append(name)
        return found[1]

    def importers(self, stack: Stack, export_name: str) -> list[Stack]:
        """Return the living stacks that use an export of `stack`."""
        return [
            other
            for other in self.stacks.all(stack.account, stack.region)
            if other.exists and other.stack_id != stack.stack_id and export_name in other.imports
        ]

    def check_exports(self, stack: Stack, outputs: list[dict[str, str]]) -> None:
        """Raise ResourceFailed when new outputs take or change an export that others have or use."""
        new = {o["ExportName"]: o["OutputValue"] for o in outputs if "ExportName" in o}
        for name, (owner, _) in self.exports(stack.account, stack.region).items():
            if name in new and owner.stack_id != stack.stack_id:
                raise ResourceFailed(
                    f"Export with name {name} is already exported by stack {owner.name}."
                )
        for output in stack.outputs:
            name = output.get("ExportName")
            if name is None or new.get(name) == output["OutputValue"]:
                continue
            users = self.importers(stack, name)
            if users:
                shown = ", ".join(sorted(user.name for user in users))
                verb = "update" if name in new else "delete"
                raise ResourceFailed(f"Cannot {verb} export {name} as it is in use by {shown}.")

    # --- templates ----------------------------------------------------------------------------

    def read_template(self, request: Mapping[str, Any]) -> str:
        """Return the template text that a request gives or names. Raises AwsError."""
        body, url = request.get("TemplateBody"), request.get("TemplateURL")
        if body and url:
            raise TemplateError("You cannot specify both Template URL and Template Body")
        if body:
            text = str(body)
            if refusal := too_long(text, "templateBody", limits.BODY_BYTES):
                raise refusal
            return text
        if not url:
            raise TemplateError("Either Template URL or Template Body must be specified.")
        bucket, key = bucket_and_key(str(url), self.endpoint_url())
        try:
            # Looked at before it is read: an object may have terabytes.
            if self.objects.file(bucket, key).stat().st_size > limits.URL_BODY_BYTES:
                raise TemplateError(
                    f"Template may not exceed {limits.URL_BODY_BYTES} bytes in size."
                )
            return self.objects.get(bucket, key).decode("utf-8-sig")
        except (BucketNotFound, ObjectNotFound, FileNotFoundError) as error:
            raise TemplateError(
                "S3 error: The specified key does not exist. For more information check"
                " http://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"
            ) from error
        except UnicodeDecodeError as error:
            raise TemplateError(f"Template format error: {url} is not text.") from error

    def check_types(self, template: Template) -> None:
        """Raise AwsError naming the resource types that headrace does not know, or, if strict, properties."""
        kinds = {str(resource["Type"]) for resource in template.resources.values()}
        unknown = sorted(kind for kind in kinds if self.resource_type(kind) is None)
        if unknown:
            raise AwsError(
                "ValidationError",
                f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]"
                " (headrace does not support them)",
            )
        if self._strict:
            dropped = [row for row in self.fidelity_of(template) if row["level"] == "ignored"]
            if dropped:
                shown = ", ".join(f"{row['resource']}.{row['property']}" for row in dropped)
                raise AwsError(
                    "ValidationError",
                    f"headrace --strict refuses properties it would ignore: {shown}",
                )

    def fidelity_of(self, template: Template) -> list[dict[str, str]]:
        """Return every property in `template` that is only stored, or ignored."""
        rows: list[dict[str, str]] = []
        for logical_id, resource in template.resources.items():
            kind = self.resource_type(str(resource["Type"]))
            if kind is None:
                continue
            properties = resource.get("Properties", {})
            remarks: Mapping[str, str] = {}
            if kind.remark is not None:
                remarks = kind.remark(properties)
            for name, remark in remarks.items():
                rows.append(
                    {
                        "resource": logical_id,
                        "type": kind.name,
                        "property": name,
                        "level": "stored",
                        "remark": remark,
                    }
                )
            for name in properties:
                level = kind.properties.get(name, "enforced")
                if level != "enforced":
                    rows.append(
                        {
                            "resource": logical_id,
                            "type": kind.name,
                            "property": name,
                            "level": level,
                        }
                    )
        return rows

    def fidelity(self, stack_name: str) -> list[dict[str, str]]:
        """Return the fidelity report of the living stacks of that name, of all when it is empty."""
        rows: list[dict[str, str]] = []
        for stack in self.stacks.all():
            if stack.exists and stack.body and stack_name in ("", stack.name):
                rows += [
                    {"stack": stack.name, **row} for row in self.fidelity_of(parse(stack.body))
                ]
        return rows


def cloudformation_api(cfn: CloudFormation) -> ServiceApi:
    """Return the service for the gateway."""
    from headrace.services.cloudformation import actions

    return ServiceApi(
        name="cloudformation",
        backend=cfn,
        actions=actions.ALL,
        translate=translate,
        profile=PROFILE,
        fidelity_rows=cfn.fidelity,
    )
