"""A pipe's input template makes no more than an evaluation may."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.ports import ControlPlane
from headrace.services.pipes.delivery import Batch, PipeFailed, deliver

SOURCE = "arn:aws:sqs:us-east-1:000000000000:a"
TARGET = "arn:aws:sqs:us-east-1:000000000000:b"


def test_a_template_that_repeats_its_event_is_refused():
    batch = Batch(
        arn="arn:aws:pipes:us-east-1:000000000000:pipe/p",
        source=SOURCE,
        target=TARGET,
        role_arn="",
        target_parameters={"InputTemplate": "<$.x>" * 1600},
    )
    nothing: Any = object()
    control: ControlPlane = nothing
    with pytest.raises(PipeFailed, match="InputTemplate asks for too much"):
        deliver(batch, [{"x": "a" * 200_000}], control, 0)
