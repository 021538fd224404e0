"""Policies for tests that need one and do not care which."""

from __future__ import annotations

import json
from typing import Any

# Lets Lambda assume a role.
TRUST: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
TRUST_TEXT = json.dumps(TRUST)
# Lets its holder read every queue's messages.
PERMIT_TEXT = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "*"}],
    }
)
