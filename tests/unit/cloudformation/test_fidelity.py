"""The table of parameters that CloudFormation accepts without acting on them."""

from __future__ import annotations

from headrace.aws.calls.model import service_model
from headrace.aws.calls.operation import operation_name
from headrace.services.cloudformation.actions import ACTIONS
from headrace.services.cloudformation.fidelity import FIDELITY


def test_the_table_names_parameters_of_operations_that_headrace_has():
    model = service_model("cloudformation")
    operations = {operation_name(action) for action in ACTIONS}
    for operation, levels in FIDELITY.items():
        assert operation in operations
        shape = model.operation_model(operation).input_shape
        assert shape is not None
        tops = {name.partition(".")[0] for name in levels}
        assert tops <= set(shape.members), operation
