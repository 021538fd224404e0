"""The CDK app without the stages that a cloud cannot do."""

from __future__ import annotations

import pytest

from cdk.app import build, new_app


def test_a_stage_that_is_left_out_has_no_stack_and_the_others_stand() -> None:
    app = new_app()
    app.node.set_context("leave_out", "delivery, analytics")
    assert [stack.stack_name for stack in build(app)] == ["headrace-ingest", "headrace-processing"]


def test_a_stage_that_there_is_not_is_named() -> None:
    app = new_app()
    app.node.set_context("leave_out", "delivery,ingest")
    with pytest.raises(ValueError, match=r"^leave_out names ingest: the stages are processing, "):
        build(app)
