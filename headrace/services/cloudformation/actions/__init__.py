"""CloudFormation's operations."""

from headrace.services.cloudformation.actions.change_sets import (
    create_change_set,
    delete_change_set,
    describe_change_set,
    execute_change_set,
    list_change_sets,
)
from headrace.services.cloudformation.actions.describe import (
    describe_stack_events,
    describe_stack_resource,
    describe_stack_resources,
    describe_stacks,
    list_exports,
    list_imports,
    list_stack_resources,
    list_stacks,
)
from headrace.services.cloudformation.actions.drift import (
    describe_stack_drift_detection_status,
    describe_stack_resource_drifts,
    detect_stack_drift,
    detect_stack_resource_drift,
)
from headrace.services.cloudformation.actions.signals import signal_resource
from headrace.services.cloudformation.actions.stacks import (
    cancel_update_stack,
    continue_update_rollback,
    create_stack,
    delete_stack,
    get_stack_policy,
    rollback_stack,
    set_stack_policy,
    update_stack,
    update_termination_protection,
)
from headrace.services.cloudformation.actions.templates import (
    get_template,
    get_template_summary,
    validate_template,
)
from headrace.services.cloudformation.actions.types import (
    describe_type,
    list_type_versions,
    list_types,
)

ACTIONS = [
    cancel_update_stack,
    continue_update_rollback,
    create_change_set,
    create_stack,
    delete_change_set,
    delete_stack,
    describe_change_set,
    describe_stack_drift_detection_status,
    describe_stack_events,
    describe_stack_resource,
    describe_stack_resource_drifts,
    describe_stack_resources,
    describe_stacks,
    describe_type,
    detect_stack_drift,
    detect_stack_resource_drift,
    execute_change_set,
    get_stack_policy,
    get_template,
    get_template_summary,
    list_change_sets,
    list_exports,
    list_imports,
    list_stack_resources,
    list_stacks,
    list_type_versions,
    list_types,
    rollback_stack,
    set_stack_policy,
    signal_resource,
    update_stack,
    update_termination_protection,
    validate_template,
]
