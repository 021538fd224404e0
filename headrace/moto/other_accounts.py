"""Runs a request for another account's queue in that account; decides for others, by the resource's policy.

moto looks only in the caller's own account. The gateway has already checked users and roles; the account itself needs
no permission for its own resources, but another account's resource policy must allow it, whatever `--iam` says. moto
must be loaded.
Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic-cross-account.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# ruff: noqa: SLF001 - moto's handlers read parameters through private methods

from __future__ import annotations

import re
from typing import Any

from headrace.aws.calls.operation import is_restricted
from headrace.core.arn import is_account_id, partition_of
from headrace.moto import principals
from headrace.moto.current_cloud import CURRENT
from headrace.moto.memory import policy_in_moto
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.evaluate import denial, evaluate
from headrace.permissions.policies.model import Access, NamedPolicy, Policies, Principal

_REGIONAL_HOST = re.compile(
    r"https?://(?:sqs\.([a-z]{2}(?:-[a-z]+)+-\d+)|([a-z]{2}(?:-[a-z]+)+-\d+)\.queue)\."
)
_SQS_BATCHES = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


def patch_queues() -> None:
    """Make a queue's URL decide in which account and Region the queue is; called once."""
    from moto.sqs.models import sqs_backends
    from moto.sqs.responses import SQSResponse

    def backend_of(response: Any) -> Any:
        own = sqs_backends[response.current_account][response.region]
        owner, name = _owner_of_url(str(response._get_param("QueueUrl") or ""))
        if owner in ("", response.current_account):
            return own
        theirs = sqs_backends[owner][response.region]
        action = str(response._get_action())
        action = _SQS_BATCHES.get(action, action)
        arn = f"arn:{partition_of(response.region)}:sqs:{response.region}:{owner}:{name}"
        # AWS gives the same answer for a missing queue and one whose policy refuses.
        is_let_in = name in theirs.queues and not refusal_of(response, f"sqs:{action}", arn)
        return theirs if is_let_in else own

    response: Any = SQSResponse
    response.sqs_backend = property(backend_of)
    name_of = response._get_queue_name

    def own_name_of(self: Any) -> str:
        url = str(self._get_param("QueueUrl") or "")
        # No queue is named by a URL: it is not there.
        return str(name_of(self)) if region_of_url(url) in ("", self.region) else url

    response._get_queue_name = own_name_of


def refusal_of(response: Any, action: str, arn: str) -> str:
    """Return why a caller may not act in another account; empty when it may, or the gateway has decided."""
    key = str(response.get_access_key())
    if is_restricted(key) and _has_owner(key):
        return ""
    caller = str(response.current_account)
    root = f"arn:{partition_of(str(response.region))}:iam::{caller}:root"
    principal = Principal("root", root, caller, root)
    access = Access(action, arn, arn.split(":")[4])
    decision = evaluate(principal, access, Policies(resource=_policy(arn)))
    return "" if decision.allowed else denial(principal, access, decision)


def _has_owner(key: str) -> bool:
    """Whether a key belongs to a session or a user; an unknown key counts as the account itself."""
    if CURRENT.sessions is not None and CURRENT.sessions.account_of(key) is not None:
        return True
    access_keys = (backend.access_keys.get(key) for _, backend in principals.iam_backends())
    return any(one is not None and one.user_name is not None for one in access_keys)


def _policy(arn: str) -> NamedPolicy | None:
    text = policy_in_moto(arn)
    try:
        return None if text is None else NamedPolicy.of("resource policy", text)
    except UnreadableDocument:
        return None


def region_of_url(url: str) -> str:
    """Return the Region that a queue's URL names; empty for a bare name, and for a host that names none."""
    found = _REGIONAL_HOST.match(url)
    return "" if found is None else found[1] or found[2]


def _owner_of_url(url: str) -> tuple[str, str]:
    """Return the account and the name in a queue's URL; empty texts for a bare name."""
    head, _, name = url.rstrip("/").rpartition("/")
    owner = head.rpartition("/")[2]
    return (owner, name) if is_account_id(owner) else ("", "")
