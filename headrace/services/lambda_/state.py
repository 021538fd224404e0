"""Functions, their versions and aliases, as records.

Configurations keep AWS's spelling, because that is what most operations take and return; what the code reasons
about has fields of its own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NotRequired, TypedDict

from headrace.aws.shapes.lambda_ import Cors, DestinationConfig
from headrace.core.ports import FunctionNotFound
from headrace.services.lambda_.limits import SANDBOXES_AT_MOST, SANDBOXES_PER_FUNCTION
from headrace.services.lambda_.names import LATEST, FunctionRef


class PolicyStatement(TypedDict):
    """A statement of the policy of a function or of a layer version."""

    Sid: str
    Effect: str
    Principal: str | dict[str, str]
    Action: str
    Resource: str
    Condition: NotRequired[dict[str, dict[str, str]]]


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
    """The end of a creation or of an update, which AWS takes some seconds for.

    Attributes:
        creates: whether the version is Pending; otherwise its update is in progress.
        revision_id: the RevisionId until then.
        until_ms: when it is done, in milliseconds since 1970.
    """

    creates: bool
    revision_id: str
    until_ms: int


@dataclass(slots=True)
class Version:
    """One version: `$LATEST`, which changes, or a published one, which never does.

    Attributes:
        digest: of the deployment package, see `CodeStore`.
        config: AWS's FunctionConfiguration.
        layers: digests of its layers' packages, kept here because a deleted layer goes on serving.
        transition: the last creation or update; None when it was long ago.
        latest_description: the Description that `$LATEST` had when this version was published.
    """

    digest: str
    config: dict[str, Any]
    layers: list[str] = field(default_factory=list[str])
    transition: Transition | None = None
    latest_description: str | None = None

    def is_changing(self, now_ms: int) -> bool:
        """Whether its creation or update has not ended yet."""
        return self.transition is not None and now_ms < self.transition.until_ms

    @property
    def number(self) -> str:
        """`$LATEST` or the version's number."""
        return str(self.config["Version"])


@dataclass(slots=True)
class Alias:
    """A name for a version, or for two with weights."""

    name: str
    version: str
    description: str
    revision_id: str
    weights: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class Function:
    """A function with its versions, aliases, policies and settings.

    Attributes:
        versions: by number, `$LATEST` among them.
        policies: statements by qualifier (empty: the function itself), then by statement id.
        event_invoke: AWS's FunctionEventInvokeConfig by qualifier.
        reserved_concurrency: None when the function shares the account's.
        provisioned: provisioned concurrency by version number or alias.
        provisioned_ms: when it was last set, by the same, in milliseconds since 1970.
        urls: function URL configurations by qualifier (empty: the function itself).
        settings: RecursiveLoop and the request of PutRuntimeManagementConfig, which are shown and change nothing.
        key: the function's in the state database.
    """

    account: str
    region: str
    name: str
    versions: dict[str, Version]
    aliases: dict[str, Alias] = field(default_factory=dict[str, Alias])
    policies: dict[str, dict[str, PolicyStatement]] = field(
        default_factory=dict[str, dict[str, PolicyStatement]]
    )
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
        """The version that changes."""
        return self.versions[LATEST]

    @property
    def most_processes(self) -> int:
        """How many processes of a version may run at a time on this machine."""
        asked = max(self.reserved_concurrency or 0, sum(self.provisioned.values()))
        return max(SANDBOXES_PER_FUNCTION, min(asked, SANDBOXES_AT_MOST))

    def published(self) -> list[Version]:
        """Return the published versions, oldest first."""
        numbers = sorted((n for n in self.versions if n != LATEST), key=int)
        return [self.versions[number] for number in numbers]

    def resolve(self, qualifier: str | None, *, draw: float = 1.0) -> Version:
        """Return the version that a qualifier means; an alias's second version by chance.

        Args:
            qualifier: a version number, an alias, or None for `$LATEST`.
            draw: a number in [0, 1); 1 always takes an alias's main version.

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
        """Return the RevisionId of `$LATEST`, a version or an alias, which is its policy's. Raises FunctionNotFound."""
        alias = self.aliases.get(qualifier or "")
        if alias is not None:
            return alias.revision_id
        return str(self.resolve(qualifier).config["RevisionId"])

    def revise(self, qualifier: str | None, revision_id: str) -> None:
        """Note a change of the policy of `$LATEST`, a version or an alias."""
        alias = self.aliases.get(qualifier or "")
        if alias is not None:
            alias.revision_id = revision_id
        else:
            self.resolve(qualifier).config["RevisionId"] = revision_id

    def forget_alias(self, name: str) -> None:
        """Drop the settings of an alias that is deleted; its URL stays, and answers nobody, as on AWS."""
        url = self.urls.get(name)
        self.forget(name)
        if url is not None:
            self.urls[name] = url

    def forget(self, qualifier: str) -> None:
        """Drop the settings of a version or alias that is deleted."""
        for kept in (
            self.policies,
            self.event_invoke,
            self.provisioned,
            self.provisioned_ms,
            self.urls,
        ):
            kept.pop(qualifier, None)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Function:
        """Read what `to_json` wrote."""
        fields = dict(value)
        fields["versions"] = {k: _version(v) for k, v in value["versions"].items()}
        fields.pop("policy_revisions", None)  # of data directories of earlier versions
        fields["aliases"] = {k: Alias(**v) for k, v in value["aliases"].items()}
        return Function(**fields)

    def to_json(self) -> dict[str, Any]:
        """Return the function as JSON values."""
        value = asdict(self)
        del value["key"]
        return value


def _version(value: dict[str, Any]) -> Version:
    version = Version(**value)
    transition: dict[str, Any] | None = value.get("transition")
    version.transition = None if transition is None else Transition(**transition)
    return version
