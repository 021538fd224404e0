"""Create, Describe, List and DeleteSecurityConfiguration: stored and shown."""

from __future__ import annotations

import json

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import moment
from headrace.services.emr.actions.common import page, present
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import invalid_request
from headrace.services.emr.limits import CLUSTERS_PER_PAGE
from headrace.services.emr.state import SecurityConfiguration


def _find(emr: Emr, call: Call, name: str) -> SecurityConfiguration:
    security_configuration = emr.store.security_configurations(call.account, call.region).get(name)
    if security_configuration is None:
        raise invalid_request(f"Security configuration with name '{name}' does not exist.")
    return security_configuration


@operation("CreateSecurityConfiguration")
def create_security_configuration(
    emr: Emr, call: Call, request: shapes.CreateSecurityConfigurationInput
) -> shapes.CreateSecurityConfigurationOutput:
    """Store a security configuration, which must be JSON."""
    name, text = request["Name"], request["SecurityConfiguration"]
    try:
        json.loads(text)
    except ValueError:
        raise invalid_request("SecurityConfiguration is not valid JSON.") from None
    with emr.store.lock:
        if name in emr.store.security_configurations(call.account, call.region):
            raise invalid_request(f"Security configuration with name '{name}' already exists.")
        emr.store.put_security_configuration(
            name,
            {"text": text, "created_ms": call.now_ms},
            account=call.account,
            region=call.region,
        )
    return {"Name": name, "CreationDateTime": moment(call.now_ms)}


@operation("DescribeSecurityConfiguration")
def describe_security_configuration(
    emr: Emr, call: Call, request: shapes.DescribeSecurityConfigurationInput
) -> shapes.DescribeSecurityConfigurationOutput:
    """Return one security configuration."""
    configuration = _find(emr, call, request["Name"])
    return {
        "Name": request["Name"],
        "SecurityConfiguration": configuration["text"],
        "CreationDateTime": moment(configuration["created_ms"]),
    }


@operation("ListSecurityConfigurations")
def list_security_configurations(
    emr: Emr, call: Call, request: shapes.ListSecurityConfigurationsInput
) -> shapes.ListSecurityConfigurationsOutput:
    """Return the names of all security configurations."""
    security_configurations = emr.store.security_configurations(call.account, call.region)
    shown, marker = page(security_configurations.items(), request.get("Marker"), CLUSTERS_PER_PAGE)
    names = [{"Name": n, "CreationDateTime": moment(v["created_ms"])} for n, v in shown]
    return present({"SecurityConfigurations": names, "Marker": marker})


@operation("DeleteSecurityConfiguration")
def delete_security_configuration(
    emr: Emr, call: Call, request: shapes.DeleteSecurityConfigurationInput
) -> shapes.DeleteSecurityConfigurationOutput:
    """Remove a security configuration."""
    with emr.store.lock:
        _find(emr, call, request["Name"])
        emr.store.put_security_configuration(
            request["Name"], None, account=call.account, region=call.region
        )
    return {}
