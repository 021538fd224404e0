"""EMR's operations."""

from __future__ import annotations

from headrace.aws.calls.operation import Action
from headrace.services.emr.actions.clusters import (
    describe_cluster,
    list_bootstrap_actions,
    list_clusters,
    modify_cluster,
    terminate_job_flows,
)
from headrace.services.emr.actions.instance_groups import (
    add_instance_groups,
    list_instance_groups,
    modify_instance_groups,
    put_auto_scaling_policy,
    remove_auto_scaling_policy,
)
from headrace.services.emr.actions.instances import (
    add_instance_fleet,
    list_instance_fleets,
    list_instances,
    modify_instance_fleet,
)
from headrace.services.emr.actions.job_flows import describe_job_flows
from headrace.services.emr.actions.releases import describe_release_label, list_release_labels
from headrace.services.emr.actions.security_configurations import (
    create_security_configuration,
    delete_security_configuration,
    describe_security_configuration,
    get_block_public_access_configuration,
    list_security_configurations,
    put_block_public_access_configuration,
)
from headrace.services.emr.actions.settings import (
    add_tags,
    create_persistent_app_ui,
    describe_persistent_app_ui,
    get_auto_termination_policy,
    get_managed_scaling_policy,
    get_on_cluster_app_ui_presigned_url,
    get_persistent_app_ui_presigned_url,
    put_auto_termination_policy,
    put_managed_scaling_policy,
    remove_auto_termination_policy,
    remove_managed_scaling_policy,
    remove_tags,
    set_keep_job_flow_alive_when_no_steps,
    set_termination_protection,
    set_unhealthy_node_replacement,
    set_visible_to_all_users,
)
from headrace.services.emr.actions.steps import (
    add_job_flow_steps,
    cancel_steps,
    describe_step,
    list_steps,
    run_job_flow,
)

ACTIONS: list[Action] = [
    add_instance_fleet,
    add_instance_groups,
    add_job_flow_steps,
    add_tags,
    cancel_steps,
    create_persistent_app_ui,
    create_security_configuration,
    delete_security_configuration,
    describe_cluster,
    describe_job_flows,
    describe_persistent_app_ui,
    describe_release_label,
    describe_security_configuration,
    describe_step,
    get_auto_termination_policy,
    get_block_public_access_configuration,
    get_managed_scaling_policy,
    get_on_cluster_app_ui_presigned_url,
    get_persistent_app_ui_presigned_url,
    list_bootstrap_actions,
    list_clusters,
    list_instance_fleets,
    list_instance_groups,
    list_instances,
    list_release_labels,
    list_security_configurations,
    list_steps,
    modify_cluster,
    modify_instance_fleet,
    modify_instance_groups,
    put_auto_scaling_policy,
    put_auto_termination_policy,
    put_block_public_access_configuration,
    put_managed_scaling_policy,
    remove_auto_scaling_policy,
    remove_auto_termination_policy,
    remove_managed_scaling_policy,
    remove_tags,
    run_job_flow,
    set_keep_job_flow_alive_when_no_steps,
    set_termination_protection,
    set_unhealthy_node_replacement,
    set_visible_to_all_users,
    terminate_job_flows,
]
