"""`@operation`: declares a function as the implementation of an AWS action.

@operation("PutRecord")
def put_record(kinesis: Kinesis, call: Call, request: PutRecordInput) -> PutRecordOutput: ...

Checks whether a caller may make a request, and refuses it with each service's error.

`headrace.permissions.decisions` implements `Permissions` and decides. The gateway and the services only ask, and only
for callers other than the account itself.

Reads botocore's service models: the one module that does.

Shapes are moto's subclasses of botocore's (moto's parsers and serializers need them); they are reached
through `headrace.aws.protocols.codec_moto`, the only file of this package that imports moto.

Who signed a request to a resource's own endpoint, which is a function's URL or an API's address.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from headrace.core.arn import partition_of
from headrace.core.late_imports import imports_later
from headrace.core.ports import CallerIdentity

# Descriptions need no HTTP client: its library is a twentieth of what a cloud imports before it answers.
with imports_later(
    {"botocore.utils": ("botocore.awsrequest", "botocore.httpsession")}, late={"urllib3": {}}
):
    import botocore.loaders
    from botocore.exceptions import DataNotFoundError, UnknownServiceError
    from botocore.model import OperationModel, ServiceModel

_DOCUMENTATION = re.compile(rb'"documentation":\s*"[^"\\]*(?:\\.[^"\\]*)*"')
_CBOR = "smithy-rpc-v2-cbor"


class LeanFiles(botocore.loaders.JSONFileLoader):
    """Reads description files without their documentation, which is half of them; botocore reads the member."""

    def _load_file(self, full_path: str, open_method: Callable[[str, str], Any]) -> Any:
        if not Path(full_path).is_file():
            return None
        with open_method(full_path, "rb") as file:
            return msgspec.json.decode(_DOCUMENTATION.sub(b'"documentation":""', file.read()))


class Descriptions(botocore.loaders.Loader):
    """Finds a service by its own folder; botocore first asks the disk 1,800 times about those of all others."""

    def list_names(self) -> set[str]:
        """Return the names of the services that have a folder."""
        folders = [folder for folder in self.search_paths if Path(folder).is_dir()]
        # A path for each of 430 names would take ten times as long.
        return {name for folder in folders for name in os.listdir(folder)}  # noqa: PTH208

    @botocore.loaders.instance_cache
    def load_service_model(
        self, service_name: str, type_name: str, api_version: str | None = None
    ) -> dict[str, Any]:
        """See botocore's `Loader.load_service_model`."""
        try:
            # By the folder's listing: a file system may take another spelling, or a path, for a name.
            if service_name not in self.list_names():
                raise DataNotFoundError(data_path=service_name)
            latest = self.determine_latest_version(service_name, type_name)
        except DataNotFoundError:
            # It names the services that there are.
            return super().load_service_model(service_name, type_name, api_version)
        path = f"{service_name}/{api_version or latest}/{type_name}"
        description: dict[str, Any] = self.load_data(path)
        extras: list[Any] = []
        for kind in self.extras_types:
            with contextlib.suppress(DataNotFoundError):
                extras.append(self.load_data(f"{path}.{kind}-extras"))
        botocore.loaders.ExtrasProcessor().process(description, extras)
        return description


@functools.cache
def loader() -> Descriptions:
    """Return the loader of service descriptions that headrace, its botocore clients and moto share."""
    return Descriptions(file_loader=LeanFiles())


@functools.cache
def service_description(service: str) -> dict[str, Any]:
    """Return the parsed service-2.json of `service`. Raises botocore's UnknownServiceError."""
    return loader().load_service_model(service, "service-2")


@functools.cache
def service_model(service: str) -> ServiceModel:
    """Return botocore's model of `service`."""
    return ServiceModel(service_description(service), service_name=service)


@functools.cache
def operation_model(service: str, operation: str) -> OperationModel:
    """Return the model of one operation. Raises botocore's OperationNotFoundError."""
    return service_model(service).operation_model(operation)


def protocol_of(service: str) -> str:
    """Return the name of a service's protocol, such as `rest-xml`; `json` for an unknown service."""
    if service == "execute-api":
        return "rest-json"  # the APIs that users make; botocore has no model of them
    try:
        metadata = service_model(service).metadata
    except UnknownServiceError:
        return "json"
    protocol = str(metadata["protocol"])
    # The gateway translates CBOR to the JSON of the same service (`headrace.aws.protocols.encodings`).
    return "json" if protocol == _CBOR and "json" in metadata.get("protocols", []) else protocol


# The prefixes of the keys of users and sessions, as on AWS; all other keys belong to the account itself.
_KEY_PREFIXES = ("AKIA", "ASIA")


class Permit(Protocol):
    """Checks the permissions of one caller, request by request. Thread-safe."""

    @property
    def acting(self) -> CallerIdentity | None:
        """The caller's identity, for calls that a service makes on its behalf; None for the account itself."""
        ...

    def ask(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> None:
        """Note the use of an operation with its parameters, or refuse it. Raises AwsError."""
        ...

    def ask_for(self, service: str, action: str, resource: str, of: str = "") -> None:
        """Note the use of an action (`kinesis:PutRecords`) on a resource, or refuse it. Raises AwsError.

        For the use of a KMS key, `of` is the ARN of the resource that the key encrypts.

        Cheaper than `ask` (a dictionary lookup), for the operations that must be fast.
        """
        ...

    def denial(self, action: str, resource: str, context: Mapping[str, tuple[str, ...]]) -> str:
        """Note the use of an action on a resource; return AWS's sentence when it is to be refused, else "".

        `context`: further condition keys, in lower case. For endpoints, which refuse in a form of their own.
        """
        ...


class Callers(Protocol):
    """Names the holders of access keys, whether or not permissions are checked. Thread-safe."""

    def name_of(self, access_key: str, token: str) -> tuple[str, str] | None:
        """Return the ARN and the unique id of a user or of a session; None for the account itself.

        Waits until IAM is loaded.
        """
        ...


class Permissions(Protocol):
    """Returns the permits of callers. Thread-safe."""

    @property
    def enforces(self) -> bool:
        """Whether denied requests are refused; checking them may have to wait until policies are loaded."""
        ...

    def permit_of(self, access_key: str, token: str, account: str) -> Permit | None:
        """Return the permit of the holder of a key; None when it may do everything. Never blocks.

        A key that belongs to an account itself may do everything in its own account: in this cloud's, or, when denied
        requests are not refused, in each.
        """
        ...

    def permit_as(self, acting: CallerIdentity) -> Permit | None:
        """Return the permit of the identity under which a service acts. Never blocks."""
        ...

    def before_policies_change(self) -> None:
        """Decide on what was accessed so far by the policies as they are."""
        ...


def is_restricted(access_key: str) -> bool:
    """Whether a key may belong to a user or a session, rather than to the account itself."""
    return len(access_key) == 20 and access_key.startswith(_KEY_PREFIXES)


class SharedWrite(Protocol):
    """A write that several requests of one turn of the event loop share."""

    def write(self) -> bool:
        """Write unless that was tried; return whether it succeeded. Without success, nothing was written."""
        ...


Action = Callable[[Any, "Call", Any], Any]
_F = TypeVar("_F", bound=Callable[..., Any])

_NAME_ATTRIBUTE = "__headrace_operation__"

# Operations, of any service, that change what a decision on an access reads: a policy, a permission, a grant, a tag, or
# the resource that has them. Objects and their versions have none that is read.
_CHANGES_POLICIES = re.compile(
    r"(?!Get|List|Describe|Head|DeleteObjects?$)"
    r"(?:.*(?:Polic(?:y|ies)|Permission|Tag|Grant)|Delete|Deregister|Set(?:Queue|Topic)Attributes$"
    r"|Create(?:Queue|Topic|Key|Repository|EventBus)$|(?:Put|Update|Import)RestApi$|UpdateStack$)"
)


class Pending(Protocol):
    """What an answer waits for: a Future, or as much of one as the server asks."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> object:
        """Call `fn` with this object once it is done: at once if it is."""
        ...

    def exception(self) -> BaseException | None:
        """Return why it failed; None when it succeeded. It must be done."""
        ...

    def result(self) -> None:
        """Raise what `exception` returns."""
        ...


# A msgspec.Struct is made in a fifth of a dataclass's time, and each request makes one. Do not change it. Its empty
# defaults are literals: a factory such as `list[Pending]` would take four times as long as all the rest.
class Call(msgspec.Struct):
    """The context of one request: account, region, caller, time. `now_ms` is read once, when the request arrives.

    Attributes:
        waits: what must be done before the answer is sent, such as an fsync. An action adds it instead of waiting, so
            that it may run on the event loop.
        permit: checks the caller's permissions; None for callers who may do everything.
        acting: the identity of a service that calls in process; None for a client's request.
        may_share: the action may put its write off, to the end of the event loop's turn, into `shared`.
        shared: the answer may only go out once this write has succeeded; otherwise the request is answered again.
    """

    account: str
    region: str
    request_id: str
    now_ms: int
    service: str = ""
    operation: str = ""
    access_key: str = ""
    headers: Mapping[str, str] = {}
    waits: list[Pending] = []
    permit: Permit | None = None
    acting: CallerIdentity | None = None
    may_share: bool = False
    shared: SharedWrite | None = None


def caller_arn(call: Call) -> str:
    """Return who calls, as AWS shows who made something; the account itself is its root."""
    acting = call.acting or (None if call.permit is None else call.permit.acting)
    if acting is None:
        return f"arn:{partition_of(call.region)}:iam::{call.account}:root"
    return acting.caller_arn


def operation(name: str) -> Callable[[_F], _F]:
    """Mark a function `(backend, call, request) -> output | None` as AWS's operation `name`."""

    def mark(function: _F) -> _F:
        setattr(function, _NAME_ATTRIBUTE, name)
        return function

    return mark


def changes_policies(operation: str) -> bool:
    """Whether an operation of any service may change what decisions on accesses read."""
    return _CHANGES_POLICIES.match(operation) is not None


def operation_name(action: Callable[..., Any]) -> str:
    """Return the operation that `action` implements. Raises TypeError when it is not decorated."""
    name = getattr(action, _NAME_ATTRIBUTE, None)
    if name is None:
        raise TypeError(f"{action} is not decorated with @operation")
    return str(name)


@dataclass(frozen=True, slots=True)
class Signer:
    """The caller of an endpoint, as events name it. `Gateway.admit` finds it.

    Attributes:
        access_key: the id of its key.
        account: its account.
        arn: a user's, a role's session's (`arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`), or that of the root.
        user_id: as `aws:userid`: a user's id, `ROLE_ID:SESSION`, or the account.
        permit: checks its permissions; None for the account itself.
    """

    access_key: str
    account: str
    arn: str
    user_id: str
    permit: Permit | None = None

    @staticmethod
    def root(account: str, access_key: str = "") -> Signer:
        """Return the account itself as a caller; if it has no access key, its id stands for one."""
        return Signer(access_key or account, account, *name_of_root(account))

    def denial(self, action: str, resource: str, context: dict[str, tuple[str, ...]]) -> str:
        """Return AWS's sentence that refuses an action; empty when it is allowed. `context`: further condition keys."""
        return "" if self.permit is None else self.permit.denial(action, resource, context)


def name_of_root(account: str) -> tuple[str, str]:
    """Return the ARN and the unique id of an account itself."""
    return f"arn:aws:iam::{account}:root", account


def iam_context(signer: Signer) -> dict[str, Any]:
    """Return `requestContext.authorizer.iam` of the events of function URLs and HTTP APIs.

    Source: lambda/latest/dg/urls-invocation.html (documented).
    """
    return {
        "accessKey": signer.access_key,
        "accountId": signer.account,
        "callerId": signer.user_id,
        "cognitoIdentity": None,
        "principalOrgId": None,
        "userArn": signer.arn,
        "userId": signer.user_id,
    }
