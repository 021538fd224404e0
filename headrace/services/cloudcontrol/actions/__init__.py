"""Cloud Control's operations."""

from __future__ import annotations

from headrace.aws.calls.operation import Action
from headrace.services.cloudcontrol.actions.resources import (
    cancel_resource_request,
    create_resource,
    delete_resource,
    get_resource,
    get_resource_request_status,
    list_resource_requests,
    list_resources,
    update_resource,
)

ACTIONS: list[Action] = [
    create_resource,
    get_resource,
    update_resource,
    delete_resource,
    list_resources,
    get_resource_request_status,
    list_resource_requests,
    cancel_resource_request,
]
