"""Create, Describe, List and DeleteSecurityConfiguration: stored and shown.

Get and PutBlockPublicAccessConfiguration: a setting of an account in a region, stored and shown.
"""

from __future__ import annotations

import json

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.arn import make_arn
from headrace.core.values import moment
from headrace.services.emr.actions.common import page, present
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    CLUSTERS_PER_PAGE,
    invalid_request,
    unknown_security_configuration,
)
from headrace.services.emr.state import SecurityConfiguration

# On by default, with an exception for SSH (documented: emr-block-public-access).
_DEFAULT: shapes.BlockPublicAccessConfiguration = {
    "BlockPublicSecurityGroupRules": True,
    "PermittedPublicSecurityGroupRuleRanges": [{"MinRange": 22, "MaxRange": 22}],
}
_MOST_PORT = 65_535


@operation("GetBlockPublicAccessConfiguration")
def get_block_public_access_configuration(
    emr: Emr, call: Call, request: shapes.GetBlockPublicAccessConfigurationInput
) -> shapes.GetBlockPublicAccessConfigurationOutput:
    """Return the account's setting. Source: API_GetBlockPublicAccessConfiguration."""
    public_access = emr.store.public_access(call.account, call.region) or {
        "configuration": _DEFAULT,
        "created_ms": 0,
        "created_by": make_arn("iam", "", call.account, "root"),
    }
    return {
        "BlockPublicAccessConfiguration": public_access["configuration"],
        "BlockPublicAccessConfigurationMetadata": {
            "CreationDateTime": moment(public_access["created_ms"]),
            "CreatedByArn": public_access["created_by"],
        },
    }


@operation("PutBlockPublicAccessConfiguration")
def put_block_public_access_configuration(
    emr: Emr, call: Call, request: shapes.PutBlockPublicAccessConfigurationInput
) -> shapes.PutBlockPublicAccessConfigurationOutput:
    """Store the account's setting. Source: API_PutBlockPublicAccessConfiguration."""
    configuration = request["BlockPublicAccessConfiguration"]
    for ports in configuration.get("PermittedPublicSecurityGroupRuleRanges") or []:
        least, most = ports["MinRange"], ports.get("MaxRange", ports["MinRange"])
        if not 0 <= least <= most <= _MOST_PORT:
            raise invalid_request(f"Port range {least}-{most} is not valid.")
    emr.store.put_public_access(
        {
            "configuration": configuration,
            "created_ms": call.now_ms,
            "created_by": make_arn("iam", "", call.account, "root"),
        },
        account=call.account,
        region=call.region,
    )
    return {}


def _find(emr: Emr, call: Call, name: str) -> SecurityConfiguration:
    security_configuration = emr.store.security_configurations(call.account, call.region).get(name)
    if security_configuration is None:
        raise invalid_request(unknown_security_configuration(name))
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
