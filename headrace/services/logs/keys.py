"""Accepts a KMS key for a log group only if the key exists and its policy lets CloudWatch Logs use it for the group.

moto stores any text as a key, and has neither AssociateKmsKey nor DisassociateKmsKey.
Sources: AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html (the service principal, the encryption context);
github.com/hashicorp/terraform-provider-aws/issues/29282 and ministryofjustice/modernisation-platform/issues/7870 (code
and sentence).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.ports import CallerIdentity
from headrace.moto.current_cloud import CURRENT
from headrace.moto.memory.memory import state_of_key

# The actions of the documented key policy that a log group needs.
_USES = ("kms:GenerateDataKey", "kms:Decrypt")
_CONTEXT = "kms:encryptioncontext:aws:logs:arn"
_REFUSED = "The specified KMS key does not exist or is not allowed to be used with Arn '{}'"


def patch() -> None:
    """Replace moto's methods; the caller does it once."""
    from moto.logs.models import LogsBackend
    from moto.logs.responses import LogsResponse

    backend: Any = LogsBackend
    backend.create_log_group = _with_key_checked(backend.create_log_group)
    response: Any = LogsResponse
    response.associate_kms_key = _associate
    response.disassociate_kms_key = _disassociate


def _with_key_checked(create_log_group: Any) -> Any:
    @functools.wraps(create_log_group)
    def create(self: Any, log_group_name: str, *args: Any, **named: Any) -> Any:
        if named.get("kmsKeyId"):
            _check_key(self, log_group_name, str(named["kmsKeyId"]))
        return create_log_group(self, log_group_name, *args, **named)

    return create


def _check_key(backend: Any, group: str, key_id: str) -> None:
    """Refuse a key that Logs may not use for a group. Raises AwsError. No check is made while state is being loaded."""
    if CURRENT.control is None:
        return
    account, region = str(backend.account_id), str(backend.region_name)
    arn = make_arn("logs", region, account, f"log-group:{group}")
    key, state = state_of_key(key_id, account, region)
    acting = CallerIdentity(f"logs.{region}.amazonaws.com", source_arn=arn)
    is_usable = state == "Enabled"
    denials = [CURRENT.guard.denial(acting, use, key, {_CONTEXT: (arn,)}) for use in _USES if key]
    if not is_usable or any(denials):
        raise AwsError("AccessDeniedException", _REFUSED.format(arn))


def _group_of(response: Any) -> Any:
    name = response._get_param("logGroupName")
    if not name:
        # `arn:aws:logs:REGION:ACCOUNT:log-group:NAME`
        name = str(response._get_param("resourceIdentifier") or "").split(":log-group:", 1)[-1]
    group = response.logs_backend.groups.get(name)
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    return group


def _associate(response: Any) -> str:
    group = _group_of(response)
    key_id = str(response._get_param("kmsKeyId") or "")
    _check_key(response.logs_backend, str(group.name), key_id)
    group.kms_key_id = key_id
    return ""


def _disassociate(response: Any) -> str:
    _group_of(response).kms_key_id = None
    return ""
