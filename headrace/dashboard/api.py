"""The face of the dashboard: the JSON API `/_headrace/api/`, its server-sent events, and the page's own files.

The server-sent events of the page: what changed since the last second, for as long as a browser listens.

Serves the page's own files: HTML, one style sheet, scripts; nothing inline, nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib import resources
from typing import Any, Protocol, cast

import msgspec

from headrace import __version__
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response
from headrace.core.clock import Clock
from headrace.core.values import parse_json
from headrace.dashboard import details, export
from headrace.dashboard.account import CallRefused, Reader
from headrace.dashboard.details import Local
from headrace.dashboard.inventory import Inventory
from headrace.dashboard.objects import WRITES, failed_records, open_object
from headrace.dashboard.records import (
    BadQuestion,
    decode_payload,
    hottest_keys,
    list_shards,
    read_record,
    read_records,
)
from headrace.dashboard.sampler import Point, Reading, Sample, Sampler
from headrace.pages.routes import Route, for_people

# More browsers than this get a 503.
MOST_WATCHERS = 64
# A comment is sent this often, so that a connection whose other end is gone is noticed.
ALIVE_EVERY_S = 15.0


async def events(sampler: Sampler, stream: str) -> AsyncGenerator[bytes]:
    """Yield an event for each sample. A slow reader misses samples; it never makes the cloud keep them."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(woken.set)

    stop = sampler.watch(stream, wake)
    sent: dict[str, Any] = {}
    sent_shards: dict[str, Any] = {}
    number = 0
    try:
        yield b"retry: 1000\n\n"
        while True:
            try:
                await asyncio.wait_for(woken.wait(), ALIVE_EVERY_S)
            except TimeoutError:
                yield b": alive\n\n"
                continue
            woken.clear()
            sample = sampler.latest
            if sample is None or sample.number == number:
                continue
            number = sample.number
            yield _event(sample, stream, sent, sent_shards)
    finally:
        stop()


def _event(sample: Sample, stream: str, sent: dict[str, Any], sent_shards: dict[str, Any]) -> bytes:
    document = {
        "timeMs": sample.time_ms,
        "version": str(sample.version),
        "readings": _find_changes(sample.readings, sent),
        "shards": _find_changes(sample.shards.get(stream, {}), sent_shards),
    }
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def _find_changes(readings: dict[str, Reading], sent: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that differ from those that were sent, and null for those that are gone."""
    rows = {key: reading.row() for key, reading in readings.items()}
    changed: dict[str, Any] = {key: row for key, row in rows.items() if sent.get(key) != row}
    changed.update(dict.fromkeys(sent.keys() - rows.keys()))
    sent.clear()
    sent.update(rows)
    return changed


PATH = "/_headrace/api"
TOKEN_HEADER = "x-headrace-token"
MOST_STEPS = 400


class History(Protocol):
    """Returns the points of a resource over time. Raises CallRefused."""

    def __call__(self, inventory: Inventory, resource_id: str, /, *, is_day: bool) -> list[Point]:
        """Return the points of the last hours, or of the last day, oldest first."""
        ...


class Dashboard:
    """Answers the page's requests. Thread-safe.

    Args:
        history: returns a resource's points from elsewhere; without it they come from the rings.
        token: what a write must bring in the header X-Headrace-Token; only a page of this origin can read it.
    """

    def __init__(
        self,
        sampler: Sampler,
        clock: Clock,
        *,
        token: str,
        local: Local | None,
        history: History | None = None,
    ) -> None:
        self.sampler = sampler
        self._account = sampler.account
        self._clock = clock
        self._token = token
        self._local = local
        self._past = history

    def routes(self) -> list[Route]:
        """Return the routes: the API, its events, and the files of the page."""
        answers: Mapping[str, Callable[[HttpRequest, list[str]], Any]] = {
            "session": self._session,
            "resources": self._resources,
            "map": self._map,
            "addresses": self._addresses,
            "history": self._history,
            "streams": self._streams,
            "functions": self._functions,
            "deliveries": self._deliveries,
            "jobs": self._jobs,
            "stacks": self._stacks,
            "permissions": self._permissions,
            "trace": self._trace,
            "export": self._export,
        }
        return [
            Route(f"{PATH}/events", self._events, ("GET",)),
            *(
                Route(f"{PATH}/{name}", partial(_answer, answer), ("GET",), below=True)
                for name, answer in answers.items()
            ),
            *(Route(f"{PATH}/{name}", partial(self._write, name), ("POST",)) for name in WRITES),
            # It changes nothing: a POST for the length of a schema.
            Route(f"{PATH}/decode", partial(_answer, self._decode), ("POST",)),
            *static_routes(),
        ]

    # --- reading ------------------------------------------------------------------------------

    def _session(self, _: HttpRequest, __: list[str]) -> dict[str, Any]:
        account = self._account
        return {
            "source": account.source,
            "account": account.account_id,
            "region": account.region,
            "isReadOnly": account.is_read_only,
            "token": "" if account.is_read_only else self._token,
            "version": __version__,
            "timeMs": self._clock.now_ms(),
        }

    def _resources(self, _: HttpRequest, __: list[str]) -> dict[str, Any]:
        sample, inventory = self.sampler.fresh(), self.sampler.inventory
        sparks = self.sampler.rings.sparklines(list(inventory.resources))
        rows: list[dict[str, Any]] = []
        for resource in inventory.resources.values():
            reading = sample.readings.get(resource.id)
            row: dict[str, Any] = asdict(resource)
            row["reading"] = None if reading is None else reading.row()
            row["spark"] = [point[1:3] for point in sparks[resource.id]]
            row["problem"] = resource.problem or ("" if reading is None else reading.problem)
            rows.append(row)
        # What fails first, then what is behind, then by name.
        rows.sort(key=lambda row: (not row["problem"], -_lag(row), row["kind"], row["name"]))
        return {
            "timeMs": sample.time_ms,
            "version": str(sample.version),
            "resources": rows,
            "refused": inventory.refused,
        }

    def _addresses(self, _: HttpRequest, __: list[str]) -> dict[str, Any]:
        if self._local is None:
            return {"addresses": [], "refused": []}
        # Imported here, since the page of AWS does not need it.
        from headrace.dashboard.addresses import read_addresses

        return read_addresses(self._account)

    def _map(self, request: HttpRequest, rest: list[str]) -> dict[str, Any]:
        listed = self._resources(request, rest)
        edges = [asdict(edge) for edge in self.sampler.inventory.edges]
        ends = {end for edge in edges for end in (edge["start"], edge["end"])}
        nodes = [row for row in listed["resources"] if row["id"] in ends or row["kind"] == "stream"]
        return {**listed, "resources": nodes, "edges": edges}

    def _history(self, request: HttpRequest, _: list[str]) -> dict[str, Any]:
        asked = request.query_params()
        one = asked.get("id", "")
        points = self._points(one, is_day=asked.get("span") == "day")
        return {"id": one, "columns": ["timeMs", "rate", "lagMs", "waiting"], "points": points}

    def _streams(self, request: HttpRequest, rest: list[str]) -> dict[str, Any]:
        asked, now_ms = request.query_params(), self._clock.now_ms()
        match rest:
            case [name]:
                self.sampler.fresh()
                inventory = self.sampler.inventory
                return details.stream_detail(self._account, inventory, name, self._local)
            case [name, "records"]:
                return read_records(self._account, name, asked, now_ms)
            case [name, "records", shard_id, sequence]:
                return read_record(self._account, name, shard_id, sequence)
            case [name, "keys"]:
                shards = list_shards(Reader(self._account), name)
                ids = [one["ShardId"] for one in shards]
                return hottest_keys(self._account, name, ids, now_ms)
            case [name, "lineage"]:
                span_ms = _whole(asked, "span", 0) or None
                return details.shards_over_time(self._account, name, span_ms, now_ms, self._local)
            case [name, "timeline"]:
                from_ms, to_ms = (
                    _whole(asked, "from", now_ms - 3_600_000),
                    _whole(asked, "to", now_ms + 1),
                )
                steps = min(MOST_STEPS, max(1, _whole(asked, "steps", 120)))
                return details.timeline(
                    self._account, name, from_ms, max(to_ms, from_ms + 1), steps, self._local
                )
            case _:
                raise BadQuestion(f"No such page: {'/'.join(rest)}")

    def _functions(self, _: HttpRequest, rest: list[str]) -> dict[str, Any]:
        return details.function_detail(self._account, _one(rest), self._local)

    def _deliveries(self, request: HttpRequest, rest: list[str]) -> dict[str, Any]:
        match rest:
            case [name, "failed"]:
                return failed_records(self._account, name)
            case [name, "object"]:
                return open_object(self._account, name, request.query_params().get("key", ""))
            case _:
                name = _one(rest)
        reading = self.sampler.fresh().readings.get(f"delivery:{name}")
        figures = {} if reading is None else asdict(reading)
        return details.delivery_detail(self._account, name, figures)

    def _jobs(self, _: HttpRequest, rest: list[str]) -> dict[str, Any]:
        if len(rest) != 2:
            raise BadQuestion("A job is /jobs/<cluster or application>/<step or run>.")
        return details.job_detail(self._account, rest[0], rest[1], self._local)

    def _stacks(self, _: HttpRequest, rest: list[str]) -> dict[str, Any]:
        return details.stack_detail(self._account, _one(rest), self._local)

    def _permissions(self, _: HttpRequest, __: list[str]) -> dict[str, Any]:
        return (
            {"denied": [], "isKnown": False}
            if self._local is None
            else {
                **self._local.permissions(),
                "isKnown": True,
            }
        )

    def _trace(self, request: HttpRequest, _: list[str]) -> dict[str, Any]:
        """Return what each function that reads a stream did with one of its records."""
        asked = request.query_params()
        stream, sequence = f"stream:{asked.get('stream', '')}", asked.get("sequence", "")
        self.sampler.fresh()
        functions = [
            edge.end.removeprefix("function:")
            for edge in self.sampler.inventory.edges
            if edge.start == stream and edge.end.startswith("function:")
        ]
        local = self._local
        reports = (
            [] if local is None else [one for f in functions for one in local.traces(f, sequence)]
        )
        return {"stream": asked.get("stream", ""), "sequence": sequence, "mappings": reports}

    def _export(self, _: HttpRequest, rest: list[str]) -> Any:
        self.sampler.fresh()
        inventory, region = self.sampler.inventory, self._account.region
        match rest:
            case ["cloudwatch"]:
                return export.cloudwatch_dashboard(inventory, region)
            case ["cdk"]:
                return {"code": export.cdk_code(inventory, region, self._lags_ms())}
            case ["alarms"]:
                forecasts = [
                    one.now(self._points(self._with_age(one), is_day=False))
                    for one in export.forecasts_of(inventory)
                ]
                alarms = export.suggested_alarms(inventory, self._lags_ms())
                return {"alarms": alarms, "forecasts": forecasts}
            case _:
                raise BadQuestion("An export is cloudwatch, cdk or alarms.")

    def _lags_ms(self) -> dict[str, list[int]]:
        """Return the lags of the last day of all that reads streams, by reader."""
        return {
            one.reader: [
                lag_ms
                for _, _, lag_ms, _ in self._points(self._with_age(one), is_day=True)
                if lag_ms is not None
            ]
            for one in export.forecasts_of(self.sampler.inventory)
        }

    def _with_age(self, forecast: export.Forecast) -> str:
        """Return the id of what has a reader's age: on AWS the function, here its mapping."""
        return forecast.via if self._past is None else forecast.reader

    def _points(self, resource_id: str, *, is_day: bool) -> list[Point]:
        if self._past is not None:
            return self._past(self.sampler.inventory, resource_id, is_day=is_day)
        rings = self.sampler.rings
        return rings.minutes(resource_id) if is_day else rings.seconds(resource_id)

    def _events(self, request: HttpRequest, _: list[str]) -> HttpResponse:
        if self.sampler.watchers >= MOST_WATCHERS:
            return json_response({"message": "Too many pages are open."}, 503)
        stream = request.query_params().get("stream", "")
        kind = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")]
        return HttpResponse(200, kind, events(self.sampler, stream))

    def _decode(self, request: HttpRequest, _: list[str]) -> dict[str, str]:
        return decode_payload(_object(request))

    # --- writing ------------------------------------------------------------------------------

    def _write(self, name: str, request: HttpRequest, _: list[str]) -> HttpResponse:
        if self._account.is_read_only:
            return json_response({"message": "This page only looks: it changes nothing."}, 403)
        token = request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            sentence = "Send the token of /_headrace/api/session in the header X-Headrace-Token."
            return json_response({"message": sentence}, 403)
        try:
            values = _object(request)
        except BadQuestion as error:
            return json_response({"message": str(error)}, 400)

        def change(_: HttpRequest, __: list[str]) -> dict[str, Any]:
            return WRITES[name](self._account, values)

        answer = _answer(change, request, [])
        self.sampler.forget_inventory()
        return answer


def _answer(
    answer: Callable[[HttpRequest, list[str]], Any], request: HttpRequest, rest: list[str]
) -> HttpResponse:
    try:
        return json_response(answer(request, rest))
    except BadQuestion as error:
        return json_response({"message": str(error)}, 400)
    except CallRefused as refusal:
        status = 404 if "NotFound" in refusal.code or "does not exist" in refusal.message else 400
        return json_response({**refusal.as_json(), "refused": [refusal.as_json()]}, status)


def _object(request: HttpRequest) -> dict[str, Any]:
    try:
        value: Any = parse_json(request.body or b"{}")
    except ValueError:
        raise BadQuestion("The body is not JSON.") from None
    if not isinstance(value, dict):
        raise BadQuestion("The body is not a JSON object.")
    return cast("dict[str, Any]", value)


def _one(rest: list[str]) -> str:
    if len(rest) != 1:
        raise BadQuestion("Name one resource in the path.")
    return rest[0]


def _whole(asked: Mapping[str, str], name: str, otherwise: int) -> int:
    try:
        return int(float(asked.get(name, otherwise)))
    except (ValueError, OverflowError):
        raise BadQuestion(f"{name} is a number.") from None


def _lag(row: Mapping[str, Any]) -> int:
    reading = row["reading"]
    return 0 if reading is None else (reading[4] or 0)


FILES = "/_headrace/dashboard"
_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
# Everything comes from this origin; uPlot and the bars set styles by script, which needs no permission.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-cache"),
)


def static_routes() -> list[Route]:
    """Return the routes to the files of the page."""
    return for_people(FILES, _serve_file, below=True)


def page_file(request: HttpRequest, _: list[str]) -> HttpResponse:
    """Answer with the page itself."""
    return _file(request, "index.html")


def _serve_file(request: HttpRequest, rest: list[str]) -> HttpResponse:
    return _file(request, "/".join(rest))


def _file(request: HttpRequest, name: str) -> HttpResponse:
    data = _files().get(name)
    if data is None:
        return HttpResponse(404, [*_HEADERS, ("Content-Type", _TYPES["txt"])], b"no such file\n")
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    headers = [*_HEADERS, ("ETag", tag), ("Content-Type", _TYPES[name.rpartition(".")[2]])]
    if request.headers.get("if-none-match") == tag:
        return HttpResponse(304, headers)
    return HttpResponse(200, headers, data)


@functools.cache
def _files() -> dict[str, bytes]:
    """Return the files by their path; read once, so that no path of a request reaches the disk."""
    root = resources.files("headrace.dashboard") / "static"
    files = {one.name: one.read_bytes() for one in root.iterdir() if one.is_file()}
    vendored = (root / "vendor").iterdir()
    files.update({f"vendor/{one.name}": one.read_bytes() for one in vendored if one.is_file()})
    return files
