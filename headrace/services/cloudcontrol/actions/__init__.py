"""Cloud Control's operations."""

from __future__ import annotations

from headrace.aws.calls.operation import Action
from headrace.services.cloudcontrol.actions.requests import (
    cancel_resource_request,
    get_resource_request_status,
    list_resource_requests,
)
from headrace.services.cloudcontrol.actions.resources import (
    create_resource,
    delete_resource,
    get_resource,
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
