"""Reports whether the cloud is ready and what it lost: `/_headrace/health`, and what scripts for LocalStack ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import __version__
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response
from headrace.pages.localstack import localstack_routes
from headrace.pages.routes import Route

PATH = "/_headrace/health"


@dataclass(frozen=True, slots=True)
class Health:
    """The sources of the health pages. Thread-safe.

    Attributes:
        is_started: whether the services run.
        moto: returns the progress of loading moto's services, as members of the answer.
        services: the names of headrace's own services.
        losses: returns what the start found lost or damaged.
        mqtt: returns the ports of MQTT; None when it is not asked for, nothing while it does not listen.
        endpoint_url: returns the cloud's URL.
        data_dir: the cloud's data directory; only authorized requests see it.
        knows: whether a request is authorized.
    """

    is_started: Callable[[], bool]
    moto: Callable[[], dict[str, Any]]
    services: Callable[[], Collection[str]]
    losses: Callable[[], Sequence[Any]]
    mqtt: Callable[[], dict[str, int] | None]
    endpoint_url: Callable[[], str]
    data_dir: Path
    knows: Callable[[HttpRequest], bool]

    def routes(self) -> list[Route]:
        """Return the routes to the pages."""
        return [
            Route(PATH, self._health, ("GET",)),
            *localstack_routes(
                services=self.services,
                is_started=self.is_started,
                is_moto_ready=lambda: self.moto()["moto"] == "ready",
            ),
        ]

    def _health(self, request: HttpRequest, _: list[str]) -> HttpResponse:
        known = self.knows(request)
        status, moto = "ok" if self.is_started() else "starting", self.moto()
        if status == "ok" and moto["moto"] != "ready":
            # headrace's own services answer already; calls of moto's services wait.
            status = str(moto["moto"])
        mqtt = self.mqtt()
        if status == "ok" and mqtt == {}:
            status = "starting"
        return json_response(
            {
                "status": status,
                "version": __version__,
                "pid": os.getpid(),
                **({"data_dir": str(self.data_dir)} if known else {}),
                "endpoint_url": self.endpoint_url(),
                "services": sorted(self.services()),
                **moto,
                **({"mqtt": mqtt} if mqtt else {}),
                "losses": self.losses(),
            }
        )
