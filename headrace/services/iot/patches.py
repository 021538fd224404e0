"""IoT on moto: the calls of the data plane that moto lacks or answers otherwise, and the endpoint of devices.

IoT: queries of things match by wildcards in bounded time.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import base64
import functools
import json
import re
import ssl
from collections.abc import Callable
from types import ModuleType
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.patterns import glob_matches
from headrace.moto.current_cloud import CURRENT
from headrace.services.iot import rules
from headrace.services.iot.sql import refusal_of

_MOST_LISTED = 200
_OF_DEVICES = ("iot:Data", "iot:Data-ATS")


def name_endpoint(module: ModuleType) -> None:
    """Make DescribeEndpoint name this cloud's host where devices can connect, so that a device finds it."""
    endpoint: Any = module.FakeEndpoint
    describe = endpoint.to_dict

    @functools.wraps(describe)
    def describe_own(self: Any) -> dict[str, str]:
        host = CURRENT.devices.host if CURRENT.devices is not None else ""
        if host and self.endpoint_type in _OF_DEVICES:
            return {"endpointAddress": host}
        return describe(self)

    endpoint.to_dict = describe_own


def refuse_unknown_names(module: ModuleType) -> None:
    """Refuse what moto fails at: parents, executions of jobs and certificates that are not there or are none."""
    backend: Any = module.IoTBackend
    create_group = backend.create_thing_group

    @functools.wraps(create_group)
    def create_below(
        self: Any, thing_group_name: str, parent_group_name: Any, thing_group_properties: Any
    ) -> Any:
        names = {group.thing_group_name for group in self.thing_groups.values()}
        if parent_group_name and parent_group_name not in names:
            # The sentence is assumed.
            raise AwsError(
                "ResourceNotFoundException", f"Thing group {parent_group_name} not found", 404
            )
        return create_group(self, thing_group_name, parent_group_name, thing_group_properties)

    backend.create_thing_group = create_below
    for name in ("cancel_job_execution", "delete_job_execution"):
        setattr(backend, name, _of_known_execution(getattr(backend, name)))
    for name in ("register_certificate", "register_certificate_without_ca"):
        setattr(backend, name, _of_certificate(getattr(backend, name)))
    backend.create_certificate_from_csr = _of_request(backend.create_certificate_from_csr)


def _of_known_execution(change: Any) -> Any:
    @functools.wraps(change)
    def check_and_change(self: Any, job_id: str, thing_name: str, *rest: Any, **named: Any) -> Any:
        if (job_id, thing_name) not in self.job_executions:
            raise AwsError(
                "ResourceNotFoundException", "The specified resource does not exist", 404
            )
        return change(self, job_id, thing_name, *rest, **named)

    return check_and_change


def _of_certificate(register: Any) -> Any:
    @functools.wraps(register)
    def check_and_register(self: Any, certificate_pem: str, *values: Any, **named: Any) -> Any:
        try:
            ssl.PEM_cert_to_DER_cert(certificate_pem.strip())
        except ValueError as error:
            # Documented: API_RegisterCertificate; the sentence is assumed.
            raise AwsError(
                "CertificateValidationException", "The certificate is not valid", 400
            ) from error
        return register(self, certificate_pem, *values, **named)

    return check_and_register


def _of_request(create: Any) -> Any:
    @functools.wraps(create)
    def check_and_create(self: Any, *values: Any, **named: Any) -> Any:
        try:
            return create(self, *values, **named)
        except ValueError as error:
            # Documented: API_CreateCertificateFromCsr; the sentence is assumed.
            raise AwsError(
                "InvalidRequestException", "The certificate signing request is not valid", 400
            ) from error

    return check_and_create


def refuse_registration(module: ModuleType) -> None:
    """Refuse by name what would let authorities register devices (JITR, JITP): moto takes it, and nothing happens."""
    response: Any = module.IoTResponse
    register, update = response.register_ca_certificate, response.update_ca_certificate

    def check(call: Any) -> None:
        config = call._get_param("registrationConfig") or {}
        asks = (
            str(call._get_param("allowAutoRegistration")).lower() == "true"
            or call._get_param("newAutoRegistrationStatus") == "ENABLE"
            or bool({"templateBody", "templateName"} & set(config))
        )
        if asks:
            sentence = "headrace has no registration of devices by their authority (JITR, JITP)"
            raise AwsError("NotImplemented", sentence, 501)

    @functools.wraps(register)
    def check_and_register(self: Any) -> Any:
        check(self)
        return register(self)

    @functools.wraps(update)
    def check_and_update(self: Any) -> Any:
        check(self)
        return update(self)

    response.register_ca_certificate = check_and_register
    response.update_ca_certificate = check_and_update


def patch_data_plane(module: Any) -> None:
    """Let Publish reach rules and subscribers, and answer for retained messages."""
    response = module.IoTDataPlaneResponse

    def publish(self: Any) -> str:
        topic = self._get_param("topic") or self.path.split("/topics/")[-1]
        rules.publish(
            str(self.current_account),
            str(self.region),
            topic,
            _bytes(self.body),
            qos=int(self._get_param("qos") or 0),
            retain=str(self._get_param("retain")).lower() == "true",
        )
        return json.dumps({})

    def get_retained_message(self: Any) -> str:
        topic = self._get_param("topic")
        for message in _list_retained_messages(self):
            if message["topic"] == topic:
                return json.dumps(
                    {
                        **_summary(message),
                        "payload": base64.b64encode(message["payload"]).decode(),
                    }
                )
        raise AwsError("ResourceNotFoundException", f"No message is retained for {topic}", 404)

    def list_retained_messages(self: Any) -> str:
        most = min(int(self._get_param("maxResults") or _MOST_LISTED), _MOST_LISTED)
        after = self._get_param("nextToken") or ""
        rest = [retained for retained in _list_retained_messages(self) if retained["topic"] > after]
        page = [
            {**_summary(retained), "payloadSize": len(retained["payload"])}
            for retained in rest[:most]
        ]
        token = {"nextToken": page[-1]["topic"]} if len(rest) > most else {}
        return json.dumps({"retainedTopics": page, **token})

    response.publish = publish
    response.get_retained_message = get_retained_message
    response.list_retained_messages = list_retained_messages


def _list_retained_messages(call: Any) -> list[dict[str, Any]]:
    if CURRENT.devices is None:
        return []
    return CURRENT.devices.retained(str(call.current_account), str(call.region))


def _summary(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": message["topic"],
        "qos": message["qos"],
        "lastModifiedTime": message["modified_ms"],
    }


def _bytes(body: bytes | str) -> bytes:
    return body.encode() if isinstance(body, str) else body


def match_by_wildcards(models: ModuleType) -> None:
    """Match queries of things by wildcards instead of regular expressions."""
    thing: Any = models.FakeThing
    matches: Any = thing._matches_single_query

    @functools.wraps(matches)
    def matches_by_wildcard(self: Any, query_string: str) -> bool:
        kind, separator, pattern = query_string.partition(":")
        if separator and kind == "thingName":
            return glob_matches(pattern, self.thing_name)
        if separator and kind == "thingTypeName":
            return bool(self.thing_type) and glob_matches(pattern, self.thing_type.thing_type_name)
        if not separator or kind != "thingGroupNames":
            return bool(matches(self, query_string))
        backend: Any = models.iot_backends[self.account_id][self.region_name]
        groups = [group.thing_group_name for group in backend.list_thing_groups(None, None, None)]
        names = [*groups, *filter(None, [self.billing_group_name])]
        return any(
            matches(self, f"thingGroupNames:{re.escape(name)}")
            for name in names
            if glob_matches(pattern, name)
        )

    thing._matches_single_query = matches_by_wildcard


def check_statements(models: ModuleType) -> None:
    """Refuse rules whose SQL is too long or nests too deeply when they are made."""
    backend: Any = models.IoTBackend
    backend.create_topic_rule = _check_statement(backend.create_topic_rule)
    # moto replaces a rule by deleting it first.
    backend.replace_topic_rule = _check_statement(backend.replace_topic_rule)


def _check_statement(store: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a rule's statement that is too long or nests too deeply; others fail when they select a message."""

    @functools.wraps(store)
    def check_and_store(self: Any, rule_name: str, **named: Any) -> Any:
        refusal = refusal_of(str(named.get("sql", "")))
        if refusal:
            from moto.iot.exceptions import IoTClientError

            # Documented: API_CreateTopicRule; the sentence is assumed.
            raise IoTClientError("SqlParseException", refusal)
        return store(self, rule_name, **named)

    return check_and_store
