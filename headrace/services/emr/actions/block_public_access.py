"""Get and PutBlockPublicAccessConfiguration: a setting of an account in a region, stored and shown."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.arn import make_arn
from headrace.core.values import moment
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import invalid_request

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
