"""Assembles CloudFormation: builds its parts, and describes it to the gateway."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.errors import FaultErrors
from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, FunctionInvoker, ObjectStore
from headrace.core.workers import Supervisor
from headrace.services.cloudformation.actions import ACTIONS
from headrace.services.cloudformation.backend import CloudFormation, Notifications, Operations
from headrace.services.cloudformation.deployment.parallel_runs import AT_ONCE
from headrace.services.cloudformation.errors import translate
from headrace.services.cloudformation.fidelity import FIDELITY, INSTEAD
from headrace.services.cloudformation.resources.base import Ports
from headrace.services.cloudformation.signals import Responses, Signals
from headrace.services.cloudformation.single_resources import SingleResources
from headrace.services.cloudformation.stack_sets import StackSets
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.scope import Exports, Lookups
from headrace.services.cloudformation.template.template_text import read_included_text
from headrace.services.cloudformation.template.transforms import Transforms
from headrace.store.database import Database

PROFILE = Profile(
    query_version="2010-05-15",
    fault_errors=FaultErrors(throttle=("Throttling", "Rate exceeded", 400)),
)


def build_cloudformation(
    *,
    clock: Clock,
    ids: Ids,
    database: Database,
    supervisor: Supervisor,
    control: ControlPlane,
    objects: ObjectStore,
    functions: FunctionInvoker,
    endpoint_url: Callable[[], str],
    answers_url: Callable[[], str],
    strict: bool = False,
) -> CloudFormation:
    """Return CloudFormation with its parts; no operation runs before `CloudFormation.start`."""
    notifications = Notifications(control, supervisor)
    stacks = Stacks(database, clock, ids, on_event=notifications.tell)
    exports = Exports(stacks)
    lookups = Lookups(exports, control)
    responses = Responses(clock, ids, answers_url)
    signals = Signals()
    ports = Ports(
        clock,
        ids,
        control,
        functions,
        responses,
        endpoint_url,
        lambda: supervisor.executor(AT_ONCE, "cfn"),
        signals,
    )
    return CloudFormation(
        ids=ids,
        stacks=stacks,
        exports=exports,
        lookups=lookups,
        operations=Operations(stacks, lookups, ports, supervisor),
        responses=responses,
        objects=objects,
        transforms=Transforms(
            stacks=stacks,
            control=control,
            functions=functions,
            ids=ids,
            read_object=lambda url: read_included_text(_as_https(url), objects, endpoint_url()),
        ),
        endpoint_url=endpoint_url,
        strict=strict,
        single_resources=SingleResources(stacks, ports),
        notifications=notifications,
        stack_sets=StackSets(database, clock, ids, control, supervisor, stacks.lock),
    )


def _as_https(url: str) -> str:
    """Return the HTTPS address of an object that `s3://bucket/key` names, in the form that TemplateURL takes."""
    return url.replace("s3://", "https://s3.amazonaws.com/", 1) if url.startswith("s3://") else url


def cloudformation_api(cfn: CloudFormation) -> ServiceApi:
    """Return the service for the gateway."""
    return ServiceApi(
        name="cloudformation",
        backend=cfn,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        instead=INSTEAD,
        fidelity_rows=cfn.fidelity,
    )
