"""The operations that are not here: each is refused in one sentence, and none is answered with success."""

from __future__ import annotations

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from headrace.aws.calls.operation import operation_name, service_model
from headrace.services.cloudformation.actions import ACTIONS
from headrace.services.cloudformation.fidelity import INSTEAD
from tests.support.cloud import InProcessCloud

HERE = {operation_name(action) for action in ACTIONS}
MISSING = sorted(set(service_model("cloudformation").operation_names) - HERE)


def test_each_is_refused_in_one_sentence(cloud: InProcessCloud):
    cfn = cloud.client("cloudformation")
    for operation in MISSING:
        with pytest.raises(ClientError) as caught:
            getattr(cfn, xform_name(operation))()
        answer = caught.value.response
        assert answer["ResponseMetadata"]["HTTPStatusCode"] in (400, 501), operation
        instead = f": {INSTEAD[operation]}" if operation in INSTEAD else ""
        assert answer["Error"]["Message"] == (
            f"headrace does not implement cloudformation:{operation}{instead}"
        )
    assert set(INSTEAD) <= set(MISSING)


def test_stack_refactors_and_the_registry_s_write_side_are_among_them():
    assert {"CreateStackRefactor", "RegisterType", "CreateGeneratedTemplate"} <= set(MISSING)
