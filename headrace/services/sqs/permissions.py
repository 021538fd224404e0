"""SQS's AddPermission and RemovePermission, which change a queue's policy as AWS does.

moto fails on policies whose statements have no Sid, and has its own sentences for refusals. AWS's answers are recorded
(LocalStack's test_sqs_permission_lifecycle); other sources are given beside the sentences.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import re
from typing import Any

from headrace.core.arn import is_account_id, partition_of
from headrace.permissions.policies.resource_grammar import as_list

_LABEL = re.compile(r"[\w-]{1,80}", re.ASCII)
# quotas-policies.html of SQS's developer guide.
MOST_ACTIONS = 7
MOST_STATEMENTS = 20
# AddPermission creates policies with the old version (recorded).
VERSION = "2008-10-17"
_INVALID = "Value {} for parameter {} is invalid. Reason: {}"
# Assumed: API_AddPermission.html has the rule, and CreateQueue's sentence has this form.
_CHARACTERS = (
    "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
)


def patch() -> None:
    """Replace moto's methods; the caller does it once."""
    from moto.sqs.models import SQSBackend

    backend: Any = SQSBackend
    backend.add_permission = _add
    backend.remove_permission = _remove


def _add(
    backend: Any,
    region_name: str,
    queue_name: str,
    actions: list[str] | None,
    account_ids: list[str] | None,
    label: str,
) -> None:
    queue = backend.get_queue(queue_name)
    _check(queue, actions or [], account_ids or [], label)
    statements = _statements(queue)
    if any(one.get("Sid") == label for one in statements):
        raise _invalid(label, "Label", "Already exists.")
    if len(statements) >= MOST_STATEMENTS:
        # The code is documented (API_AddPermission.html); the sentence is assumed.
        count = len(statements) + 1
        raise _build_refusal(
            "OverLimit", f"{count} Statements were found, maximum allowed is {MOST_STATEMENTS}."
        )
    who = [f"arn:{partition_of(region_name)}:iam::{account}:root" for account in account_ids or []]
    what = [f"SQS:{action}" for action in actions or []]
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": who[0] if len(who) == 1 else who},
        "Action": what[0] if len(what) == 1 else what,
        "Resource": queue.queue_arn,
    }
    kept = queue._policy_json if statements else {"Version": VERSION}
    own = {"Id": f"{queue.queue_arn}/SQSDefaultPolicy", **kept}
    queue._policy_json = {**own, "Statement": [*statements, statement]}


def _check(queue: Any, actions: list[str], account_ids: list[str], label: str) -> None:
    """Raise SQSException for an AddPermission that AWS refuses. The first four sentences are moto's."""
    from moto.sqs.exceptions import MissingParameter, OverLimit

    if not actions:
        raise MissingParameter("Actions")
    if not account_ids or not all(is_account_id(str(one)) for one in account_ids):
        shown = f"[{', '.join(map(str, account_ids))}]"
        raise _invalid(shown, "PrincipalId", "Unable to verify.")
    if len(actions) > MOST_ACTIONS:
        raise OverLimit(len(actions))
    for action in actions:
        if action not in queue.ALLOWED_PERMISSIONS:
            reason = "Only the queue owner is allowed to invoke this action."
            raise _invalid(f"SQS:{action}", "ActionName", reason)
    if not _LABEL.fullmatch(label or ""):
        raise _invalid(label or "", "Label", _CHARACTERS)


def _remove(backend: Any, queue_name: str, label: str) -> None:
    queue = backend.get_queue(queue_name)
    statements = _statements(queue)
    kept = [one for one in statements if one.get("Sid") != label]
    if len(kept) == len(statements):
        raise _invalid(label, "Label", "can't find label.")
    queue._policy_json = {**queue._policy_json, "Statement": kept}


def _statements(queue: Any) -> list[dict[str, Any]]:
    return list(as_list(queue._policy_json.get("Statement") or []))


def _invalid(value: str, parameter: str, reason: str) -> Exception:
    return _build_refusal("InvalidParameterValue", _INVALID.format(value, parameter, reason))


def _build_refusal(code: str, sentence: str) -> Exception:
    from moto.sqs.exceptions import SQSException

    return SQSException(code, sentence)
