"""`ServiceApi`, the interface of a service to the gateway, and `Profile`, which moto's services have too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headrace.aws.calls.errors import AwsError, FaultErrors
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Action, Call, operation_name
from headrace.aws.protocols.validate import Wording
from headrace.core.ports import FidelityLevel

RawAnswer = HttpResponse | Future[HttpResponse] | None
# Operation -> parameter -> `stored` or `ignored`. Parameters that are not listed are enforced.
FidelityTable = Mapping[str, Mapping[str, FidelityLevel]]


class NothingToShow(LookupError):
    """The parameters of a page name something that does not exist; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class DataPage:
    """A page under `/_headrace/` that shows a service's own data as JSON; `headrace.pages` serves it.

    Attributes:
        path: the part of the path after `/_headrace/`.
        title: one line for the list of all pages.
        data: returns the JSON value for the query's parameters. Raises NothingToShow.
        query: example parameters, for a page that needs some; starts with `?`.
    """

    path: str
    title: str
    data: Callable[[Mapping[str, str]], Any]
    query: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """How requests name a service, owned or moto's, and how its answers differ from those of other services.

    Attributes:
        signing_scopes: its names in signatures, besides botocore's name.
        target_prefix: the part before the dot in `X-Amz-Target`; empty when the service uses none.
        paths: the prefixes of the paths of its requests, for requests that are not signed.
        path_pattern: what the paths of its unsigned requests match; empty for none.
        query_version: the Version in forms of the query protocol, for requests that are not signed.
        bare_queries: what queries without signature and Version begin with, such as those of links in its messages.
        takes_the_rest: a request that names no service is for this one.
        unsigned_methods: methods that clients use without a signature.
        exposed_headers: the headers of its answers that a web page may read; None for the default ones.
        fault_errors: its errors for injected faults.
    """

    signing_scopes: tuple[str, ...] = ()
    target_prefix: str = ""
    paths: tuple[str, ...] = ()
    path_pattern: str = ""
    query_version: str = ""
    bare_queries: tuple[str, ...] = ()
    takes_the_rest: bool = False
    unsigned_methods: frozenset[str] = frozenset()
    exposed_headers: str | None = None
    fault_errors: FaultErrors = field(default_factory=FaultErrors)


@dataclass(frozen=True, slots=True)
class ServiceApi:
    """A service that headrace owns whole.

    Attributes:
        name: botocore's name of the service (`kinesis`, `lambda`, ...).
        backend: the first argument of every action.
        actions: functions declared with `@operation`, listed one by one.
        translate: returns the AwsError of a domain error, or None (the error then becomes a 500).
        profile: how requests name it.
        raw: the raw hook: sees every request first, and answers requests on the hot path or with raw bodies, or returns
            None.
        inline: the operations that never block and run on the event loop's thread.
        may_be_quick: whether `raw` may answer a request there; it may still raise NeedsThread.
        subject: returns the stream and shard that a request names (empty when none), for fault injection; it may raise
            AwsError for a malformed request.
        fidelity: the parameters that are only stored, or ignored.
        fidelity_notes: the notes of rows of the fidelity report, by `Operation.Parameter`.
        fidelity_rows: returns more rows of the fidelity report: for the stack with a name or, when the name is empty,
            for all stacks and this machine.
        instead: what to do instead of operations that headrace does not implement.
        pages: the pages that show its data.
        shards_by_stream: returns the ids of the shards by stream, which faults may name.
        policy_of: returns the JSON policy of a resource by its ARN; None when it has none.
        key_of: takes the kind of key and a resource's ARN; returns its KMS key: the ARN, or the id or alias
            with its account and region, or empty strings. Raises LookupError or AwsError without such a resource.
        wording: how its validation differs from its model, and how its sentences differ from other services'.
    """

    name: str
    backend: Any
    actions: Sequence[Action]
    translate: Callable[[Exception], AwsError | None]
    profile: Profile = Profile()
    raw: Callable[[HttpRequest], RawAnswer] | None = None
    inline: frozenset[str] = field(default_factory=frozenset[str])
    may_be_quick: Callable[[HttpRequest], bool] | None = None
    subject: Callable[[HttpRequest, str, Call], tuple[str, str]] | None = None
    fidelity: FidelityTable = field(default_factory=dict[str, Mapping[str, FidelityLevel]])
    fidelity_notes: Mapping[str, str] = field(default_factory=dict[str, str])
    fidelity_rows: Callable[[str], Sequence[Mapping[str, str]]] | None = None
    instead: Mapping[str, str] = field(default_factory=dict[str, str])
    pages: Sequence[DataPage] = ()
    wording: Wording | None = None
    shards_by_stream: Callable[[], dict[str, set[str]]] | None = None
    policy_of: Callable[[str], str | None] | None = None
    key_of: Callable[[str, str], tuple[str, str, str]] | None = None

    def by_name(self) -> dict[str, Action]:
        """Return the actions by operation name."""
        return _by_name(tuple(self.actions)).copy()


# Computed for each cloud of the process: a test run makes one cloud a test.
@functools.lru_cache(maxsize=100)
def _by_name(actions: tuple[Action, ...]) -> dict[str, Action]:
    return {operation_name(action): action for action in actions}
