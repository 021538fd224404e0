"""Functions, their versions and aliases, in memory and in the state database.

Configurations are kept in AWS's spelling, because that is what most operations take and give; what the code
reasons about has fields of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.core.ports import FunctionNotFound
from headrace.services.lambda_.limits import SANDBOXES_AT_MOST, SANDBOXES_PER_FUNCTION
from headrace.services.lambda_.names import LATEST, FunctionRef
from headrace.store.database import Database


@dataclass(slots=True)
class Version:
    """One version: `$LATEST`, which changes, or a published one, which never does.

    Attributes:
        digest: of the deployment package, see `CodeStore`.
        config: AWS's FunctionConfiguration.
        layers: digests of its layers' packages, kept here because a deleted layer goes on serving.
    """

    digest: str
    config: dict[str, Any]
    layers: list[str] = field(default_factory=list[str])

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
    """A function and everything that belongs to it.

    Attributes:
        versions: by number, `$LATEST` among them.
        policies: statements by qualifier (empty: the function itself), then by statement id.
        event_invoke: AWS's FunctionEventInvokeConfig by qualifier.
        reserved_concurrency: None when the function shares the account's.
        provisioned: provisioned concurrency by version number or alias.
        provisioned_ms: when it was last set, by the same, in milliseconds since 1970.
        urls: function URL configurations by qualifier (empty: the function itself).
        settings: RecursiveLoop and what PutRuntimeManagementConfig was told, for them to be shown.
    """

    account: str
    region: str
    name: str
    versions: dict[str, Version]
    aliases: dict[str, Alias] = field(default_factory=dict[str, Alias])
    policies: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    policy_revisions: dict[str, str] = field(default_factory=dict[str, str])
    event_invoke: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    reserved_concurrency: int | None = None
    last_version: int = 0
    provisioned: dict[str, int] = field(default_factory=dict[str, int])
    provisioned_ms: dict[str, int] = field(default_factory=dict[str, int])
    urls: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])

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

    def forget(self, qualifier: str) -> None:
        """Drop what hangs on a version or alias that is being deleted."""
        for kept in (
            self.policies,
            self.policy_revisions,
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
        fields["versions"] = {k: Version(**v) for k, v in value["versions"].items()}
        fields["aliases"] = {k: Alias(**v) for k, v in value["aliases"].items()}
        return Function(**fields)

    def to_json(self) -> dict[str, Any]:
        """Return the function as JSON values."""
        return asdict(self)


class FunctionStore:
    """All functions. Thread-safe: change them inside `changing`, which makes the change durable."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("lambda_functions")
        self._lock = threading.RLock()
        self._functions: dict[str, Function] = {}

    def load(self) -> None:
        """Read every function from the state database."""
        with self._lock:
            self._functions = {
                key: Function.from_json(value) for key, value in self._documents.items()
            }

    def find(self, ref: FunctionRef) -> Function | None:
        """Return the function, or None."""
        return self._functions.get(ref.key)

    def of_key(self, key: str) -> Function | None:
        """Return the function with the key of its reference, or None."""
        return self._functions.get(key)

    def get(self, ref: FunctionRef) -> Function:
        """Return the function. Raises FunctionNotFound."""
        function = self._functions.get(ref.key)
        if function is None:
            raise FunctionNotFound(ref.qualified_arn)
        return function

    @contextmanager
    def changing(self, ref: FunctionRef) -> Generator[Function]:
        """Give the function to change alone; it is durable when the block ends.

        Raises FunctionNotFound. A block that raises must not have changed anything; what cannot be stored is as it was.
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
        """Store a new function; return False, and change nothing, when its name is taken."""
        with self._lock:
            key = function.ref.key
            if key in self._functions:
                return False
            self._documents.put(key, function.to_json())
            self._functions[key] = function
            return True

    def remove(self, ref: FunctionRef) -> Function:
        """Forget a function with all its versions. Raises FunctionNotFound."""
        with self._lock:
            function = self.get(ref)
            self._documents.delete(ref.key)
            del self._functions[ref.key]
            return function

    def all(self, account: str, region: str) -> list[Function]:
        """Return the functions of an account and region, by name."""
        with self._lock:
            found = [
                f for f in self._functions.values() if f.account == account and f.region == region
            ]
        return sorted(found, key=lambda function: function.name)

    def of_url(self, url_id: str) -> tuple[Function, str] | None:
        """Return the function that has a URL, and its alias (empty: the function itself)."""
        with self._lock:
            for function in self._functions.values():
                for alias, config in function.urls.items():
                    if config["id"] == url_id:
                        return function, alias
        return None

    def any(self) -> bool:
        """Whether there is a function."""
        return bool(self._functions)

    def provisioned(self) -> list[Function]:
        """Return the functions that have provisioned concurrency."""
        with self._lock:
            return [function for function in self._functions.values() if function.provisioned]

    def digests(self) -> set[str]:
        """Return the packages that some version uses."""
        with self._lock:
            versions = [v for f in self._functions.values() for v in f.versions.values()]
            return {digest for v in versions for digest in (v.digest, *v.layers)}
