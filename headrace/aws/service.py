"""`ServiceApi`: what a service gives to the gateway, and what the gateway knows of services that moto serves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.fault_errors import FaultErrors
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.operation import Action, Call, operation_name
from headrace.aws.validate import Wording
from headrace.core.ports import FidelityLevel

RawAnswer = HttpResponse | Future[HttpResponse] | None
# Operation -> parameter -> what is done with it. What is not listed is enforced.
FidelityTable = Mapping[str, Mapping[str, FidelityLevel]]


class NothingToShow(LookupError):
    """A page's parameters name nothing that there is; the text is one sentence that says so."""


@dataclass(frozen=True, slots=True)
class DataPage:
    """A page under `/_headrace/` that shows a service's own data as JSON; `headrace.pages` serves it.

    Attributes:
        path: what follows `/_headrace/`.
        title: one line for the list of all pages.
        data: gives the JSON value for the query's parameters. Raises NothingToShow.
        query: an example of the parameters, for a page that cannot be shown without; starts with `?`.
    """

    path: str
    title: str
    data: Callable[[Mapping[str, str]], Any]
    query: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """How requests name a service, and how its answers differ from other services'; of owned ones and moto's.

    Attributes:
        signing_scopes: its names in signatures, besides botocore's name of it.
        target_prefix: what stands before the dot in `X-Amz-Target`; empty where nothing does.
        paths: what the paths of its requests begin with, for those that are not signed.
        query_version: the Version in forms of the query protocol, for those that are not signed.
        takes_the_rest: a request that says of no service that it is for it is for this one.
        unsigned_methods: methods that clients use without a signature.
        exposed_headers: headers of its answers that a web page may read; None for those of most services.
        fault_errors: what it answers when a fault on demand throttles it or fails.
    """

    signing_scopes: tuple[str, ...] = ()
    target_prefix: str = ""
    paths: tuple[str, ...] = ()
    query_version: str = ""
    takes_the_rest: bool = False
    unsigned_methods: frozenset[str] = frozenset()
    exposed_headers: str | None = None
    fault_errors: FaultErrors = field(default_factory=FaultErrors)


@dataclass(frozen=True, slots=True)
class ServiceApi:
    """A service that headrace owns whole.

    Attributes:
        name: botocore's name of it (`kinesis`, `lambda`, ...).
        backend: the first argument of every action.
        actions: functions declared with `@operation`, listed one by one.
        translate: gives the AwsError of a domain error, or None (an unknown one becomes a 500).
        profile: how requests name it.
        raw: sees every request first; answers the hot path and raw bodies, or returns None.
        inline: operations that never block and run on the event loop's thread.
        subject: gives the stream and shard of a request to an operation (empty where it names none), for faults
            on demand; it may raise AwsError for a request of the wrong form.
        fidelity: its parameters that are only stored, or ignored.
        fidelity_notes: what the report says beside a row, by `Operation.Parameter`.
        fidelity_rows: gives more rows of the fidelity report: of the stack of a name, or, when that is empty, of all
            stacks and of this machine.
        pages: the pages that show its data.
        wording: how it judges and words failures where it is not as its model says.
    """

    name: str
    backend: Any
    actions: Sequence[Action]
    translate: Callable[[Exception], AwsError | None]
    profile: Profile = Profile()
    raw: Callable[[HttpRequest], RawAnswer] | None = None
    inline: frozenset[str] = field(default_factory=frozenset[str])
    subject: Callable[[HttpRequest, str, Call], tuple[str, str]] | None = None
    fidelity: FidelityTable = field(default_factory=dict[str, Mapping[str, FidelityLevel]])
    fidelity_notes: Mapping[str, str] = field(default_factory=dict[str, str])
    fidelity_rows: Callable[[str], Sequence[Mapping[str, str]]] | None = None
    pages: Sequence[DataPage] = ()
    wording: Wording | None = None

    def by_name(self) -> dict[str, Action]:
        """Return the actions by operation name."""
        return _by_name(tuple(self.actions)).copy()


# Of each cloud of a process: a test run has one a test.
@functools.lru_cache(maxsize=100)
def _by_name(actions: tuple[Action, ...]) -> dict[str, Action]:
    return {operation_name(action): action for action in actions}
