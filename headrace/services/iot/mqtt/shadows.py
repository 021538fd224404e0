"""Devices' shadows over MQTT: requests on reserved topics, and what others are told of a change.

The documents are moto's. Documented: docs.aws.amazon.com/iot/latest/developerguide/device-shadow-mqtt.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from headrace.core.values import parse_json
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES
from headrace.services.iot import rules
from headrace.services.iot.mqtt.packets import Publish
from headrace.services.iot.mqtt.topics import publish_json, shadow_request

_Publish = Callable[[str, bytes], None]
# Documented: developerguide/device-shadow-error-messages.html.
_TOO_DEEP = "JSON contains too many levels of nesting; maximum is 6"


def answer_shadow_request(scope: tuple[str, str], message: Publish, publish: _Publish) -> None:
    """Carry out a request to a shadow and publish its answer; other messages are none. Holds moto's lock."""
    request = shadow_request(message.topic)
    if request is None:
        return
    from moto.core.exceptions import JsonRESTError
    from moto.iotdata.models import iotdata_backends

    prefix, thing, name, verb = request
    backends: Any = iotdata_backends
    backend = backends[scope[0]][scope[1]]
    token = _client_token(message.payload)
    try:
        if verb == "get":
            answer = backend.get_thing_shadow(thing, name).to_dict()
        elif verb == "delete":
            answer = backend.delete_thing_shadow(thing, name).to_dict()
        else:
            payload = message.payload.decode(errors="replace")
            answer = backend.update_thing_shadow(thing, payload, name).to_response_dict()
    except JsonRESTError as error:
        code = int(error.code or 400)
        sentence = str(error.message) if code != 404 else f"No shadow exists with name: '{thing}'"
        rejection = {"code": code, "message": sentence, "timestamp": _now_s(), **token}
        publish_json(publish, f"{prefix}/{verb}/rejected", rejection)
        return
    publish_json(publish, f"{prefix}/{verb}/accepted", {**answer, **token})


def _client_token(payload: bytes) -> dict[str, Any]:
    try:
        value = parse_json(payload or b"{}")
    except ValueError:
        return {}
    return _token_of(value) if isinstance(value, dict) else {}


def _token_of(document: dict[str, Any]) -> dict[str, Any]:
    return {"clientToken": document["clientToken"]} if "clientToken" in document else {}


def _part(metadata: Any, delta: Any) -> Any:
    """Return the metadata of what differs. Documented: developerguide/device-shadow-document.html."""
    if not isinstance(metadata, dict) or not isinstance(delta, dict):
        return metadata
    return {name: _part(metadata[name], value) for name, value in delta.items() if name in metadata}


def _now_s() -> int:
    return CURRENT.clock.now_ms() // 1000


def announce_changes(module: Any) -> None:
    """Make `moto.iotdata.models` store changed shadows, and publish the documents and the delta of each update."""
    backend: Any = module.IoTDataPlaneBackend
    update, delete = backend.update_thing_shadow, backend.delete_thing_shadow

    @functools.wraps(update)
    def update_and_tell(self: Any, thing_name: str, payload: Any, shadow_name: str | None) -> Any:
        thing = self.iot_backend.describe_thing(thing_name)
        before = thing.thing_shadows.get(shadow_name)
        try:
            document = _parse_document(module, payload)
            if before is None and "version" in document:
                raise module.ConflictException("Version conflict")
            shadow = update(self, thing_name, payload, shadow_name)
        except RecursionError as error:
            raise module.InvalidRequestException(_TOO_DEEP) from error
        # Shadows are kept with IoT's things, not with this service.
        CHANGES.made("iot")
        suffix = "" if shadow_name is None else f"/name/{shadow_name}"
        prefix = f"$aws/things/{thing_name}/shadow{suffix}/update"

        def publish(topic: str, data: bytes) -> None:
            rules.publish(str(self.account_id), str(self.region_name), topic, data)

        current = shadow.to_dict()
        previous = None if before is None else _document(before.to_dict())
        documents = {"previous": previous, "current": _document(current), "timestamp": _now_s()}
        publish_json(publish, f"{prefix}/documents", {**documents, **_token_of(document)})
        delta = current["state"].get("delta")
        if delta:
            told = {
                "version": shadow.version,
                "timestamp": shadow.timestamp,
                "state": delta,
                "metadata": _part(current["metadata"].get("desired", {}), delta),
            }
            publish_json(publish, f"{prefix}/delta", {**told, **_token_of(document)})
        return shadow

    @functools.wraps(delete)
    def delete_and_store(self: Any, thing_name: str, shadow_name: str | None) -> Any:
        shadow = delete(self, thing_name, shadow_name)
        CHANGES.made("iot")
        return shadow

    backend.update_thing_shadow, backend.delete_thing_shadow = update_and_tell, delete_and_store


def _parse_document(module: Any, payload: Any) -> dict[str, Any]:
    """Return the document of an update; refuse what moto would fail at. Moto refuses the rest itself."""
    refuse = module.InvalidRequestException
    try:
        document = json.loads(payload)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise refuse("Invalid JSON")
    state: Any = document.get("state")
    for name in ("desired", "reported") if isinstance(state, dict) else ():
        if not isinstance(state.get(name), (dict, type(None))):
            raise refuse(f"{name.capitalize()} node must be an object")
    return document


def _document(shadow: dict[str, Any]) -> dict[str, Any]:
    state = {name: part for name, part in shadow.get("state", {}).items() if name != "delta"}
    return {"state": state, "metadata": shadow.get("metadata", {}), "version": shadow["version"]}
