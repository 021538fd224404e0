"""MQTT for a cloud's devices: its sessions, and its sockets once started."""

from __future__ import annotations

import ssl

from headrace.aws.server.tls import Tls
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.deliveries.outbox import MOST_WAITING, OUTBOX
from headrace.moto.engine import MotoEngine
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.iot.mqtt.access import (
    REVIEW,
    DeviceAccess,
    Note,
)
from headrace.services.iot.mqtt.broker import Broker
from headrace.services.iot.mqtt.listener import Admit, Listener
from headrace.services.iot.mqtt.messages import SessionStore
from headrace.store.database import Database


class Mqtt:
    """MQTT for a cloud's devices: its sessions, and its sockets once started. `start` and `stop` are for one thread.

    Attributes:
        broker: the sessions and retained messages, which exist without sockets too.
        listener: the sockets; None before `start`.
    """

    def __init__(
        self,
        config: Config,
        *,
        database: Database,
        clock: Clock,
        ids: Ids,
        engine: MotoEngine,
        tls: Tls,
        note: Note,
    ) -> None:
        """Nothing is read or opened before `load` and `start`. `note` notes what policies of devices decide."""
        self._config = config
        self._needs_certificate = config.iam == "enforce" or config.auth
        self._admit: Admit = lambda _, __: None
        self._clock, self._engine, self._tls = clock, engine, tls
        self._access = DeviceAccess(
            account=config.account_id,
            region=config.region,
            mode=config.iam,
            needs_certificate=self._needs_certificate,
            note=note,
        )
        self.broker = Broker(
            SessionStore(database),
            self._access,
            clock=clock,
            ids=ids,
            change=engine.change,
            has_room=lambda: len(OUTBOX.waiting) < MOST_WAITING // 2,
        )
        self.listener: Listener | None = None
        self._trusted: set[str] = set()
        self._context: ssl.SSLContext | None = None
        engine.listen("iot", self._forget_access)

    def admit_by(self, admit: Admit) -> None:
        """Say what checks the requests that open WebSockets; once, before `start`."""
        self._admit = admit

    def start(self, supervisor: Supervisor) -> None:
        """Let devices connect, once moto's services are loaded. Raises OSError when a port is taken, AwsError."""
        config = self._config
        self._engine.warm_up()
        self._context = self._tls.device_context()
        with MOTO_LOCK:
            self._trust()
        listener = Listener(
            self.broker,
            host=config.host,
            port=config.mqtt_port,
            tls_port=config.mqtt_tls_port,
            is_open=not self._needs_certificate,
            tls_context=self._context,
            clock=self._clock,
            is_throttled=config.limits == "aws",
            admit=self._admit,
        )
        is_local = config.endpoint_host in ("127.0.0.1", "::1")
        listener.start(
            "localhost" if is_local else config.endpoint_host, supervisor.start(self.broker).wake
        )
        self.listener = listener

    def stop(self) -> None:
        """Disconnect the devices."""
        if self.listener is not None:
            self.listener.stop()

    def ports(self) -> dict[str, int] | None:
        """Return `tls` and, when clients need no TLS, `plain`; nothing before `start`, None when it will not start."""
        if not self._config.mqtt:
            return None
        listener = self.listener
        if listener is None:
            return {}
        plain = {} if self._needs_certificate else {"plain": listener.port}
        return {"tls": listener.tls_port, **plain}

    def _forget_access(self) -> None:
        """IoT's certificates, policies or things may have changed. Moto's lock is held."""
        self._access.forget()
        if self._context is not None:
            self._trust()
            self.broker.submit(None, REVIEW)

    def _trust(self) -> None:
        """Let the certificates pass that are registered; whether one is active is asked at each connection."""
        assert self._context is not None
        for pem in self._access.pems():
            if pem not in self._trusted:
                self._trusted.add(pem)
                self._context.load_verify_locations(cadata=pem)
