"""Finds the server behind an OpenSearch domain: headrace's own in the data directory, or the user's OpenSearch.

A domain in the data directory answers below `/_headrace/opensearch/<account>/<region>/<domain>`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane
from headrace.core.ports.messages import SearchDomainNotFound, SearchServer

# The index is imported with the first request to a domain: a cloud that nobody searches does without 1.6 MB.
if TYPE_CHECKING:
    from headrace.services.opensearch.rest import RestAnswer, SearchRestApi
    from headrace.services.opensearch.store import Store

PATH = "/_headrace/opensearch"
FILE = "opensearch.sqlite"
_JSON = "application/json; charset=UTF-8"


@dataclass(frozen=True, slots=True)
class _Domain:
    """A `SearchServer` on a domain's indexes in the data directory."""

    rest: SearchRestApi
    key: str

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """See `SearchServer.ask`."""
        from headrace.services.opensearch.rest import SearchRequest

        parts = [unquote(part) for part in path.split("/") if part]
        reply = self.rest.answer(SearchRequest(self.key, method, parts, {}, body))
        return reply.status, _bytes_of(reply)


class SearchHome:
    """Finds the servers of domains, and answers requests to the domains in the data directory. Thread-safe.

    The SQLite file is made for the first document: a cloud that nobody searches has none.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock,
        ids: Ids,
        control: ControlPlane,
        endpoint_url: Callable[[], str],
        real_url: str = "",
        fsync: bool = False,
    ) -> None:
        """Store the settings; the file stays closed.

        Args:
            data_dir: the cloud's data directory, for the file.
            clock: the cloud's clock.
            ids: the cloud's generator of ids.
            control: lists the domains.
            endpoint_url: the cloud's URL.
            real_url: the user's own OpenSearch, which then holds every domain's documents; empty for none.
            fsync: whether a write waits for the disk.
        """
        self._path = data_dir / FILE
        self._clock = clock
        self._ids = ids
        self._control = control
        self._endpoint_url = endpoint_url
        self._real_url = real_url
        self._fsync = fsync
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._api: SearchRestApi | None = None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._api is not None:
                self._api.close()
            if self._store is not None:
                self._store.close()
            self._store = self._api = None

    def _rest(self) -> SearchRestApi:
        from headrace.services.opensearch.rest import SearchRestApi
        from headrace.services.opensearch.store import Store

        with self._lock:
            if self._api is None:
                self._store = Store(self._path, fsync=self._fsync)
                self._api = SearchRestApi(self._store, self._clock, self._ids)
            return self._api

    # --- which server -------------------------------------------------------------------------

    def endpoint_of(self, account: str, region: str, name: str) -> str:
        """Return a domain's endpoint, without a scheme."""
        if self._real_url:
            parts = urlsplit(self._real_url)
            return parts.netloc.rpartition("@")[2] + parts.path.rstrip("/")
        host = self._endpoint_url().partition("://")[2]
        return f"{host}{PATH}/{account}/{region}/{name}"

    def of_domain(self, name: str, *, account: str, region: str) -> SearchServer | str:
        """See `SearchDomains.of_domain`."""
        self._check(name, account, region)
        return self._real_url or _Domain(self._rest(), f"{account}/{region}/{name}")

    def of_endpoint(self, url: str, *, account: str, region: str) -> SearchServer | str:
        """See `SearchDomains.of_endpoint`."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if parts.path.startswith(f"{PATH}/"):
            names = parts.path.removeprefix(f"{PATH}/").split("/")
            if len(names) >= 3:
                return self.of_domain(names[2], account=names[0], region=names[1])
        if host.endswith(".es.amazonaws.com"):
            label, _, rest = host.partition(".")
            return self.of_domain(_domain_of(label), account=account, region=rest.partition(".")[0])
        if host.endswith(".aoss.amazonaws.com"):
            label, _, rest = host.partition(".")
            return self._of_collection(label, account, rest.partition(".")[0])
        return url

    def _of_collection(self, id_: str, account: str, region: str) -> SearchServer | str:
        answer = self._control.call(
            "opensearchserverless",
            "BatchGetCollection",
            {"ids": [id_]},
            account=account,
            region=region,
        )
        if not answer.get("collectionDetails"):
            raise SearchDomainNotFound(f"There is no collection {id_} in {region}.")
        return self._real_url or _Domain(self._rest(), f"{account}/{region}/aoss/{id_}")

    def _check(self, name: str, account: str, region: str) -> None:
        try:
            self._control.call(
                "opensearch",
                "DescribeDomain",
                {"DomainName": name},
                account=account,
                region=region,
            )
        except AwsError as error:
            raise SearchDomainNotFound(f"There is no domain {name} in {region}.") from error

    def forget(self, account: str, region: str, name: str) -> None:
        """Drop a deleted domain's indexes. Documents on a real server stay there."""
        if not self._real_url and self._path.exists():
            self._rest().forget(f"{account}/{region}/{name}")

    # --- requests -----------------------------------------------------------------------------

    def answer(self, request: HttpRequest, rest: list[str]) -> HttpResponse:
        """Answer a request below `PATH`; `rest` is the rest of the path."""
        from headrace.services.opensearch.fields import SearchError
        from headrace.services.opensearch.rest import RestAnswer, SearchRequest

        if len(rest) < 3 or self._real_url:
            where = self._real_url and urlsplit(self._real_url).netloc.rpartition("@")[2]
            sentence = (
                f"The documents are at {where}." if where else f"Ask {PATH}/account/region/domain."
            )
            return _response(
                request, RestAnswer(404, SearchError(404, "not_found", sentence).body())
            )
        account, region, name, *path = rest
        try:
            self._check(name, account, region)
        except SearchDomainNotFound as error:
            refusal = SearchError(404, "resource_not_found_exception", str(error))
            return _response(request, RestAnswer(404, refusal.body()))
        body = request.body if request.body_file is None else request.body_file.read_bytes()
        asked = SearchRequest(
            f"{account}/{region}/{name}", request.method, path, request.query_params(), body
        )
        return _response(request, self._rest().answer(asked))


def _domain_of(label: str) -> str:
    """Return the domain in a host's first label: AWS's `search-NAME-xxxx` or `vpc-NAME-xxxx`, or moto's `NAME`."""
    if label.startswith(("search-", "vpc-")) and label.count("-") > 1:
        return label.partition("-")[2].rpartition("-")[0]
    return label


def _bytes_of(reply: RestAnswer) -> bytes:
    return reply.body.encode() if isinstance(reply.body, str) else json.dumps(reply.body).encode()


def _response(request: HttpRequest, reply: RestAnswer) -> HttpResponse:
    kind = "text/plain; charset=UTF-8" if isinstance(reply.body, str) else _JSON
    body = b"" if request.method == "HEAD" else _bytes_of(reply)
    return HttpResponse(reply.status, [("Content-Type", kind)], body)
