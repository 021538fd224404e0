"""Redshift Serverless' operations: namespaces, workgroups, logins, tags. Snapshots and usage limits are not built."""

from __future__ import annotations

from headrace.aws.calls.operation import Action
from headrace.services.redshift_serverless.actions.workgroups import (
    create_namespace,
    create_workgroup,
    delete_namespace,
    delete_workgroup,
    get_credentials,
    get_namespace,
    get_workgroup,
    list_namespaces,
    list_tags_for_resource,
    list_workgroups,
    tag_resource,
    untag_resource,
    update_namespace,
    update_workgroup,
)

ACTIONS: list[Action] = [
    create_namespace,
    get_namespace,
    list_namespaces,
    update_namespace,
    delete_namespace,
    create_workgroup,
    get_workgroup,
    list_workgroups,
    update_workgroup,
    delete_workgroup,
    get_credentials,
    tag_resource,
    untag_resource,
    list_tags_for_resource,
]
