"""Dataclasses for functions, their versions and aliases.

Configurations are dictionaries with AWS's names, because most operations take and return them. Values that headrace's
code uses have fields of their own.

Stores all functions in memory and in the state database.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, NotRequired, TypedDict

from headrace.aws.shapes.lambda_ import Cors, DestinationConfig
from headrace.core.ports import FunctionNotFound
from headrace.services.lambda_.errors import SANDBOXES_AT_MOST, SANDBOXES_PER_FUNCTION
from headrace.services.lambda_.names import LATEST, FunctionRef, parse_function
from headrace.store.database import Database


class FunctionStore:
    """All functions. Thread-safe. Change a function only inside `changing`, which makes the change durable."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("lambda_functions")
        self._lock = threading.RLock()
        self._functions: dict[str, Function] = {}

    def load(self) -> None:
        """Load all functions from the state database."""
        with self._lock:
            self._functions = {
                key: Function.from_json(value) for key, value in self._documents.items()
            }

    def find(self, ref: FunctionRef) -> Function | None:
        """Return the function, or None."""
        return self._functions.get(ref.key)

    def of_key(self, key: str) -> Function | None:
        """Return the function with this key (see `FunctionRef.key`), or None."""
        return self._functions.get(key)

    def role_of(self, function_arn: str) -> str:
        """Return the ARN of a function's role, or "" when the function does not exist."""
        function = self.find(parse_function(function_arn, account="", region=""))
        return "" if function is None else str(function.latest.config.get("Role", ""))

    def get(self, ref: FunctionRef) -> Function:
        """Return the function. Raises FunctionNotFound."""
        function = self._functions.get(ref.key)
        if function is None:
            raise FunctionNotFound(ref.qualified_arn)
        return function

    @contextmanager
    def changing(self, ref: FunctionRef) -> Generator[Function]:
        """Yield the function for a change by one thread at a time. The change is durable when the block ends.

        Raises FunctionNotFound. A block that raises must not have changed anything. If the change cannot be stored, it
        is taken back.
        """
        with self._lock:
            function = self.get(ref)
            yield function
            try:
                self._documents.put(ref.key, function.to_json())
            except OSError:
                stored: dict[str, Any] = self._documents.get(ref.key) or {}
                self._functions[ref.key] = Function.from_json(stored)
                raise

    def add(self, function: Function) -> bool:
        """Store a new function. Return False, having changed nothing, when its name is taken."""
        with self._lock:
            key = function.key
            if key in self._functions:
                return False
            self._documents.put(key, function.to_json())
            self._functions[key] = function
            return True

    def remove(self, ref: FunctionRef) -> Function:
        """Delete a function with all its versions. Raises FunctionNotFound."""
        with self._lock:
            function = self.get(ref)
            self._documents.delete(ref.key)
            del self._functions[ref.key]
            return function

    def all(self, account: str, region: str) -> list[Function]:
        """Return the functions of an account and region, sorted by name."""
        with self._lock:
            functions = [
                f for f in self._functions.values() if f.account == account and f.region == region
            ]
        return sorted(functions, key=lambda function: function.name)

    def of_url(self, url_id: str) -> tuple[Function, str] | None:
        """Return the function that has a function URL, and its alias ("": the function itself), or None."""
        with self._lock:
            for function in self._functions.values():
                for alias, config in function.urls.items():
                    if config["id"] == url_id:
                        return function, alias
        return None

    def any(self) -> bool:
        """Whether any function exists."""
        return bool(self._functions)

    def list_provisioned(self) -> list[Function]:
        """Return the functions that have provisioned concurrency."""
        with self._lock:
            return [function for function in self._functions.values() if function.provisioned]

    def digests(self) -> set[str]:
        """Return the digests of the packages that versions use."""
        with self._lock:
            versions = [v for f in self._functions.values() for v in f.versions.values()]
            return {digest for v in versions for digest in (v.digest, *v.layers)}


class PolicyStatement(TypedDict, total=False):
    """A statement of the policy of a function or of a layer version; of a document, with any of IAM's members."""

    Sid: str
    Effect: str
    Principal: Any
    NotPrincipal: Any
    Action: Any
    NotAction: Any
    Resource: Any
    NotResource: Any
    Condition: dict[str, dict[str, Any]]


class LayerDescription(TypedDict):
    """The members of PublishLayerVersion that a layer version shows as they were given."""

    Description: str
    CompatibleRuntimes: NotRequired[list[str]]
    LicenseInfo: NotRequired[str]
    CompatibleArchitectures: NotRequired[list[str]]


class LayerVersion(LayerDescription):
    """AWS's LayerVersionsListItem with the digest of the package; `policy` is by statement id."""

    LayerArn: str
    LayerVersionArn: str
    Version: int
    CreatedDate: str
    digest: str
    size_bytes: int
    policy: NotRequired[dict[str, PolicyStatement]]
    policy_revision: NotRequired[str]


class AsyncSettings(TypedDict, total=False):
    """How asynchronous invocations are tried again, and where their records go."""

    MaximumRetryAttempts: int
    MaximumEventAgeInSeconds: int
    DestinationConfig: DestinationConfig


class EventInvokeConfig(AsyncSettings):
    """AWS's FunctionEventInvokeConfig, as it is stored."""

    last_modified_ms: int


class UrlConfig(TypedDict):
    """AWS's FunctionUrlConfig, as it is stored; `id` is in the URL."""

    id: str
    AuthType: str
    Cors: Cors
    InvokeMode: NotRequired[str]
    CreationTime: str
    LastModifiedTime: str


@dataclass(slots=True)
class Transition:
    """A creation or an update in progress, which takes some seconds on AWS.

    Attributes:
        creates: whether it is a creation, so that the version is Pending; otherwise it is an update.
        revision_id: the RevisionId while it is in progress.
        until_ms: when it ends, in milliseconds since 1970.
    """

    creates: bool
    revision_id: str
    until_ms: int


@dataclass(slots=True)
class Version:
    """One version: `$LATEST`, which changes, or a published version, which never changes.

    Attributes:
        digest: the digest of the deployment package, see `CodeStore`.
        config: AWS's FunctionConfiguration.
        layers: the digests of the layers' packages, stored here because a function can use a deleted layer.
        transition: the last creation or update; None when it was long ago.
        latest_description: the Description that `$LATEST` had when this version was published.
    """

    digest: str
    config: dict[str, Any]
    layers: list[str] = field(default_factory=list[str])
    transition: Transition | None = None
    latest_description: str | None = None

    def is_changing(self, now_ms: int) -> bool:
        """Whether a creation or update of the version is in progress."""
        return self.transition is not None and now_ms < self.transition.until_ms

    @property
    def number(self) -> str:
        """The version's number, or `$LATEST`."""
        return str(self.config["Version"])


@dataclass(slots=True)
class Alias:
    """An alias: a name for a version, or for two versions with weights."""

    name: str
    version: str
    description: str
    revision_id: str
    weights: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class Function:
    """A function with its versions, aliases, policies and settings.

    Attributes:
        versions: the versions by number, with `$LATEST`.
        policies: the policy statements by qualifier ("": the function itself), then by statement id (of a statement
            without one, `#` and its number).
        policy_heads: the other members of a policy that was put as a document, by qualifier.
        event_invoke: AWS's FunctionEventInvokeConfig by qualifier.
        reserved_concurrency: the reserved concurrency; None when the function uses the account's unreserved one.
        provisioned: the provisioned concurrency by version number or alias.
        provisioned_ms: when the provisioned concurrency was last set, in milliseconds since 1970, by the same names.
        urls: the function URL configurations by qualifier ("": the function itself).
        settings: RecursiveLoop and the request of PutRuntimeManagementConfig, which are returned but have no effect.
        key: the function's key in the state database.
    """

    account: str
    region: str
    name: str
    versions: dict[str, Version]
    aliases: dict[str, Alias] = field(default_factory=dict[str, Alias])
    policies: dict[str, dict[str, PolicyStatement]] = field(
        default_factory=dict[str, dict[str, PolicyStatement]]
    )
    policy_heads: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    event_invoke: dict[str, EventInvokeConfig] = field(default_factory=dict[str, EventInvokeConfig])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    reserved_concurrency: int | None = None
    last_version: int = 0
    provisioned: dict[str, int] = field(default_factory=dict[str, int])
    provisioned_ms: dict[str, int] = field(default_factory=dict[str, int])
    urls: dict[str, UrlConfig] = field(default_factory=dict[str, UrlConfig])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.key = self.ref.key

    @property
    def ref(self) -> FunctionRef:
        """The function, without a qualifier."""
        return FunctionRef(self.account, self.region, self.name)

    @property
    def latest(self) -> Version:
        """The version `$LATEST`."""
        return self.versions[LATEST]

    def most_processes(self) -> int:
        """How many processes of a version may run at a time on this machine."""
        asked = max(self.reserved_concurrency or 0, sum(self.provisioned.values()))
        return max(SANDBOXES_PER_FUNCTION, min(asked, SANDBOXES_AT_MOST))

    def list_published(self) -> list[Version]:
        """Return the published versions, oldest first."""
        numbers = sorted((n for n in self.versions if n != LATEST), key=int)
        return [self.versions[number] for number in numbers]

    def resolve(self, qualifier: str | None, *, draw: float = 1.0) -> Version:
        """Return the version of a qualifier; an alias with two versions chooses one at random.

        Args:
            qualifier: a version number, an alias, or None for `$LATEST`.
            draw: the random number, in [0, 1); 1 always chooses the main version of an alias.

        Raises:
            FunctionNotFound: no such version or alias.
        """
        number = qualifier or LATEST
        alias = self.aliases.get(number)
        if alias is not None:
            number = alias.version
            for other, weight in alias.weights.items():
                if draw < weight:
                    number = other
                    break
                draw -= weight
        version = self.versions.get(number)
        if version is None:
            missing = FunctionRef(self.account, self.region, self.name, qualifier)
            raise FunctionNotFound(missing.qualified_arn)
        return version

    def revision_of(self, qualifier: str | None) -> str:
        """Return the RevisionId of `$LATEST`, a version or an alias, and of its policy. Raises FunctionNotFound."""
        alias = self.aliases.get(qualifier or "")
        if alias is not None:
            return alias.revision_id
        return str(self.resolve(qualifier).config["RevisionId"])

    def revise(self, qualifier: str | None, revision_id: str) -> None:
        """Set a new RevisionId after a change of the policy of `$LATEST`, a version or an alias."""
        alias = self.aliases.get(qualifier or "")
        if alias is not None:
            alias.revision_id = revision_id
        else:
            self.resolve(qualifier).config["RevisionId"] = revision_id

    def forget_alias(self, name: str) -> None:
        """Remove the settings of a deleted alias. As on AWS, its URL stays but refuses all requests."""
        url = self.urls.get(name)
        self.forget(name)
        if url is not None:
            self.urls[name] = url

    def forget(self, qualifier: str) -> None:
        """Remove the settings of a deleted version or alias."""
        for kept in (
            self.policies,
            self.policy_heads,
            self.event_invoke,
            self.provisioned,
            self.provisioned_ms,
            self.urls,
        ):
            kept.pop(qualifier, None)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Function:
        """Return the function that `to_json` has written."""
        fields = dict(value)
        fields["versions"] = {k: _parse_version(v) for k, v in value["versions"].items()}
        fields.pop("policy_revisions", None)  # from data directories of earlier versions
        fields["aliases"] = {k: Alias(**v) for k, v in value["aliases"].items()}
        return Function(**fields)

    def to_json(self) -> dict[str, Any]:
        """Return the function as JSON values."""
        value = asdict(self)
        del value["key"]
        return value


class Target(NamedTuple):
    """The function and the version that an invocation runs.

    Attributes:
        arn: the ARN that the caller named, with the qualifier if it has one.
        number: the number of the version.
    """

    function: Function
    version: Version
    qualifier: str | None
    arn: str
    number: str


def _parse_version(value: dict[str, Any]) -> Version:
    version = Version(**value)
    transition: dict[str, Any] | None = value.get("transition")
    version.transition = None if transition is None else Transition(**transition)
    return version
