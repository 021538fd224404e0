"""EC2: a request with a client token that was used is answered as the first was, and changes nothing.

Documented: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html; a token is valid for 24 hours at least,
whatever becomes of what was made.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.patches.repeated_tokens import digest_of

# moto's calls that take a ClientToken.
CALLS = (
    *("allocate_hosts", "copy_image", "create_carrier_gateway", "create_fleet", "create_flow_logs"),
    *("create_egress_only_internet_gateway", "create_launch_template", "create_network_acl"),
    *("create_launch_template_version", "create_managed_prefix_list", "create_nat_gateway"),
    *("create_network_interface", "create_route_table", "create_traffic_mirror_filter"),
    *("create_traffic_mirror_session", "create_traffic_mirror_target", "create_volume"),
    *("create_vpc_endpoint", "create_vpc_endpoint_service_configuration", "modify_launch_template"),
    *("request_spot_instances", "run_instances"),
)
_VALID_MS = 24 * 3600 * 1000
_KEPT = "answers_by_token"


def answer_again(module: Any) -> None:
    """Patch `moto.ec2.responses`."""
    for name in CALLS:
        handler = module.EC2Response
        setattr(handler, name, _once_per_token(getattr(handler, name), name))


def _once_per_token(call: Any, name: str) -> Any:
    from moto.core.responses import ActionResult
    from moto.ec2.exceptions import EC2ClientError

    @functools.wraps(call)
    def answer(self: Any) -> Any:
        token = self._get_param("ClientToken")
        if not token:
            return call(self)
        asked = {key: value for key, value in self.querystring.items() if key != "ClientToken"}
        digest = digest_of(asked)
        kept = vars(self.ec2_backend).setdefault(_KEPT, {})
        now_ms = CURRENT.clock.now_ms()
        for old in [key for key, (_, _, ms) in kept.items() if now_ms - ms > _VALID_MS]:
            del kept[old]
        if (name, token) in kept:
            for_what, result, _ = kept[name, token]
            if for_what == digest:
                return ActionResult(result)
            raise EC2ClientError(
                "IdempotentParameterMismatch",
                "The request uses the same client token as a previous, but non-identical request.",
            )
        made = call(self)
        kept[name, token] = (digest, made.result, now_ms)
        return made

    return answer
