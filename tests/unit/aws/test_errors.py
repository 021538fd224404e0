"""Which of AWS's errors may pass, so that what was refused with them is sent again."""

from __future__ import annotations

import pytest

from headrace.aws.calls.errors import AwsError


@pytest.mark.parametrize(
    ("code", "status", "may_pass"),
    [
        ("InternalFailure", 500, True),
        ("ServiceUnavailable", 503, True),
        ("ThrottlingException", 400, True),
        ("AccessDenied", 403, False),
        # What headrace does not simulate is refused for good: a shard would wait for ever.
        ("NotImplemented", 501, False),
    ],
)
def test_what_may_pass(code: str, status: int, may_pass: bool):
    assert AwsError(code, "", status).may_pass is may_pass
