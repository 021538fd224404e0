"""Settings of a cluster (flags, tags, policies), and its application UIs, which are pages of this cloud.

Settings of an account in a region, stored and shown: security configurations, and what blocks public access.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.operation import Call, caller_arn, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.arn import Arn, make_arn
from headrace.core.values import get_list, moment, parse_json, present
from headrace.services.emr.actions.common import (
    check_managed,
    idle_timeout_s,
    job_flows,
    page,
    tag_list,
)
from headrace.services.emr.backend import Emr, PersistentUi
from headrace.services.emr.errors import (
    CLUSTERS_PER_PAGE,
    check_tag_keys,
    ended_cluster,
    ended_job_flow,
    invalid_request,
    unknown_security_configuration,
)
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, SecurityConfiguration


def _change_all(
    emr: Emr, call: Call, job_flow_ids: list[str], change: Callable[[Cluster], None]
) -> None:
    with emr.store.lock:
        clusters = job_flows(emr, call, job_flow_ids)
        if any(cluster.ending for cluster in clusters):
            raise ended_job_flow()
        for cluster in clusters:
            change(cluster)
            emr.store.save(cluster)
    for cluster in clusters:
        emr.wake(cluster.id)


def _change(
    emr: Emr,
    call: Call,
    cluster_id: str,
    change: Callable[[Cluster], None],
    *,
    takes_ended: bool = False,
) -> None:
    with emr.store.lock:
        cluster = emr.cluster(cluster_id, account=call.account, region=call.region)
        if cluster.ending and not takes_ended:
            raise ended_cluster()
        change(cluster)
        emr.store.save(cluster)
    emr.wake(cluster.id)


@operation("SetTerminationProtection")
def set_termination_protection(
    emr: Emr, call: Call, request: shapes.SetTerminationProtectionInput
) -> None:
    """Allow or forbid TerminateJobFlows."""

    def change(cluster: Cluster) -> None:
        cluster.termination_protected = request["TerminationProtected"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("SetVisibleToAllUsers")
def set_visible_to_all_users(
    emr: Emr, call: Call, request: shapes.SetVisibleToAllUsersInput
) -> None:
    """Store VisibleToAllUsers, which has no effect."""

    def change(cluster: Cluster) -> None:
        cluster.visible = request["VisibleToAllUsers"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("SetKeepJobFlowAliveWhenNoSteps")
def set_keep_job_flow_alive_when_no_steps(
    emr: Emr, call: Call, request: shapes.SetKeepJobFlowAliveWhenNoStepsInput
) -> None:
    """Set whether clusters wait or terminate after their last step."""

    def change(cluster: Cluster) -> None:
        cluster.keep_alive = request["KeepJobFlowAliveWhenNoSteps"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("SetUnhealthyNodeReplacement")
def set_unhealthy_node_replacement(
    emr: Emr, call: Call, request: shapes.SetUnhealthyNodeReplacementInput
) -> None:
    """Store the setting; there are no nodes to replace."""

    def change(cluster: Cluster) -> None:
        cluster.replace_unhealthy = request["UnhealthyNodeReplacement"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("AddTags")
def add_tags(emr: Emr, call: Call, request: shapes.AddTagsInput) -> shapes.AddTagsOutput:
    """Add tags, or overwrite the values of existing ones."""
    check_tag_keys(tag.get("Key", "") for tag in request["Tags"])

    def change(cluster: Cluster) -> None:
        cluster.tags.update({tag.get("Key", ""): tag.get("Value", "") for tag in request["Tags"]})

    _change(emr, call, request["ResourceId"], change, takes_ended=True)
    return {}


@operation("RemoveTags")
def remove_tags(emr: Emr, call: Call, request: shapes.RemoveTagsInput) -> shapes.RemoveTagsOutput:
    """Remove tags; a missing tag is not an error."""
    check_tag_keys(request["TagKeys"])

    def change(cluster: Cluster) -> None:
        for key in request["TagKeys"]:
            cluster.tags.pop(key, None)

    _change(emr, call, request["ResourceId"], change, takes_ended=True)
    return {}


@operation("PutAutoTerminationPolicy")
def put_auto_termination_policy(
    emr: Emr, call: Call, request: shapes.PutAutoTerminationPolicyInput
) -> shapes.PutAutoTerminationPolicyOutput:
    """Set after how many idle seconds the cluster terminates."""
    idle_s = idle_timeout_s(request.get("AutoTerminationPolicy") or {})

    def change(cluster: Cluster) -> None:
        cluster.idle_timeout_s = idle_s

    _change(emr, call, request["ClusterId"], change)
    return {}


@operation("GetAutoTerminationPolicy")
def get_auto_termination_policy(
    emr: Emr, call: Call, request: shapes.GetAutoTerminationPolicyInput
) -> shapes.GetAutoTerminationPolicyOutput:
    """Return the policy; nothing when there is none."""
    cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
    if cluster.idle_timeout_s is None:
        return {}
    return {"AutoTerminationPolicy": {"IdleTimeout": cluster.idle_timeout_s}}


@operation("RemoveAutoTerminationPolicy")
def remove_auto_termination_policy(
    emr: Emr, call: Call, request: shapes.RemoveAutoTerminationPolicyInput
) -> shapes.RemoveAutoTerminationPolicyOutput:
    """Remove the policy: the cluster waits without limit."""

    def change(cluster: Cluster) -> None:
        cluster.idle_timeout_s = None

    _change(emr, call, request["ClusterId"], change)
    return {}


@operation("PutManagedScalingPolicy")
def put_managed_scaling_policy(
    emr: Emr, call: Call, request: shapes.PutManagedScalingPolicyInput
) -> shapes.PutManagedScalingPolicyOutput:
    """Store the policy; there is nothing to scale."""
    policy = request["ManagedScalingPolicy"]

    def change(cluster: Cluster) -> None:
        fleets = bool(get_list(cluster.request["Instances"], "InstanceFleets"))
        check_managed(policy, fleets=fleets)
        cluster.managed_scaling = dict(policy)

    _change(emr, call, request["ClusterId"], change)
    return {}


@operation("GetManagedScalingPolicy")
def get_managed_scaling_policy(
    emr: Emr, call: Call, request: shapes.GetManagedScalingPolicyInput
) -> shapes.GetManagedScalingPolicyOutput:
    """Return the policy; nothing when there is none."""
    cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
    return present({"ManagedScalingPolicy": cluster.managed_scaling})


@operation("RemoveManagedScalingPolicy")
def remove_managed_scaling_policy(
    emr: Emr, call: Call, request: shapes.RemoveManagedScalingPolicyInput
) -> shapes.RemoveManagedScalingPolicyOutput:
    """Remove the policy."""

    def change(cluster: Cluster) -> None:
        cluster.managed_scaling = None

    _change(emr, call, request["ClusterId"], change)
    return {}


_HISTORY = "SHS"
_ON_CLUSTER_HISTORY = "SparkHistoryServer"
_RESOURCE_MANAGER = "ResourceManager"
_APPLICATION_MASTER = "ApplicationMaster"


def _cluster_of(emr: Emr, call: Call, arn: str) -> Cluster:
    try:
        parsed = Arn.parse(arn)
    except ValueError:
        raise invalid_request(f"TargetResourceArn '{arn}' is not valid.") from None
    kind, _, cluster_id = parsed.resource.partition("/")
    own = (parsed.service, parsed.account, parsed.region, kind)
    if own != ("elasticmapreduce", call.account, call.region, "cluster"):
        raise invalid_request(f"TargetResourceArn '{arn}' is not valid.")
    return emr.cluster(cluster_id, account=call.account, region=call.region)


def _find(emr: Emr, call: Call, ui_id: str) -> PersistentUi:
    app_ui = emr.app_uis.find(ui_id, account=call.account, region=call.region)
    if app_ui is None:
        raise invalid_request(f"Persistent app UI id '{ui_id}' is not valid.")
    return app_ui


def _ready(
    url: str | None, application_id: str | None
) -> shapes.GetPersistentAppUIPresignedURLOutput:
    if url is None:
        raise invalid_request(f"Application id '{application_id}' is not valid.")
    return {"PresignedURLReady": True, "PresignedURL": url}


@operation("CreatePersistentAppUI")
def create_persistent_app_ui(
    emr: Emr, call: Call, request: shapes.CreatePersistentAppUIInput
) -> shapes.CreatePersistentAppUIOutput:
    """Create a persistent UI for a cluster: the history server, which always runs."""
    cluster = _cluster_of(emr, call, request["TargetResourceArn"])
    if request.get("ProfilerType", _HISTORY) != _HISTORY:
        raise invalid_request(
            "ProfilerType must be SHS: there is no Tez and no YARN timeline here."
        )
    ui = PersistentUi(
        id=f"p-{emr.ids.alnum_upper(13)}",
        account=call.account,
        region=call.region,
        cluster_id=cluster.id,
        created_ms=call.now_ms,
        tags={tag.get("Key", ""): tag.get("Value", "") for tag in request.get("Tags") or []},
    )
    emr.app_uis.add(ui)
    return {"PersistentAppUIId": ui.id, "RuntimeRoleEnabledCluster": False}


@operation("DescribePersistentAppUI")
def describe_persistent_app_ui(
    emr: Emr, call: Call, request: shapes.DescribePersistentAppUIInput
) -> shapes.DescribePersistentAppUIOutput:
    """Return a persistent UI; it is ATTACHED at once."""
    ui = _find(emr, call, request["PersistentAppUIId"])
    return {
        "PersistentAppUI": {
            "PersistentAppUIId": ui.id,
            "PersistentAppUITypeList": [_HISTORY],
            "PersistentAppUIStatus": "ATTACHED",
            "CreationTime": moment(ui.created_ms),
            "LastModifiedTime": moment(ui.created_ms),
            "Tags": tag_list(ui.tags),
        }
    }


@operation("GetPersistentAppUIPresignedURL")
def get_persistent_app_ui_presigned_url(
    emr: Emr, call: Call, request: shapes.GetPersistentAppUIPresignedURLInput
) -> shapes.GetPersistentAppUIPresignedURLOutput:
    """Return the URL of one application's history, or of all applications'. It never expires."""
    ui = _find(emr, call, request["PersistentAppUIId"])
    if request.get("PersistentAppUIType", _HISTORY) != _HISTORY:
        raise invalid_request("PersistentAppUIType must be SHS, which is what the UI was made for.")
    application_id = request.get("ApplicationId") or None
    return _ready(emr.app_uis.history(ui.cluster_id, application_id), application_id)


@operation("GetOnClusterAppUIPresignedURL")
def get_on_cluster_app_ui_presigned_url(
    emr: Emr, call: Call, request: shapes.GetOnClusterAppUIPresignedURLInput
) -> shapes.GetOnClusterAppUIPresignedURLOutput:
    """Return the URL of an active cluster's UI: the history, the live UI or the status page."""
    cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
    if cluster.state in ENDED_CLUSTER:
        raise invalid_request(f"Cluster id '{cluster.id}' is not valid: the cluster has ended.")
    kind = request.get("OnClusterAppUIType", _ON_CLUSTER_HISTORY)
    application_id = request.get("ApplicationId") or None
    if kind == _ON_CLUSTER_HISTORY:
        return _ready(emr.app_uis.history(cluster.id, application_id), application_id)
    if kind == _RESOURCE_MANAGER:
        return _ready(emr.app_uis.status(cluster.id), application_id)
    if kind == _APPLICATION_MASTER:
        if not application_id:
            raise invalid_request("ApplicationId is required for the UI of an ApplicationMaster.")
        return _ready(emr.app_uis.live(cluster.id, application_id), application_id)
    raise invalid_request(f"OnClusterAppUIType {kind} is not there: clusters run Spark only.")


# On by default, with an exception for SSH (documented: emr-block-public-access).
_DEFAULT: shapes.BlockPublicAccessConfiguration = {
    "BlockPublicSecurityGroupRules": True,
    "PermittedPublicSecurityGroupRuleRanges": [{"MinRange": 22, "MaxRange": 22}],
}
_MOST_PORT = 65_535


@operation("GetBlockPublicAccessConfiguration")
def get_block_public_access_configuration(
    emr: Emr, call: Call, request: shapes.GetBlockPublicAccessConfigurationInput
) -> shapes.GetBlockPublicAccessConfigurationOutput:
    """Return the account's setting. Source: API_GetBlockPublicAccessConfiguration."""
    public_access = emr.store.public_access(call.account, call.region) or {
        "configuration": _DEFAULT,
        "created_ms": 0,
        "created_by": make_arn("iam", "", call.account, "root"),
    }
    return {
        "BlockPublicAccessConfiguration": public_access["configuration"],
        "BlockPublicAccessConfigurationMetadata": {
            "CreationDateTime": moment(public_access["created_ms"]),
            "CreatedByArn": public_access["created_by"],
        },
    }


@operation("PutBlockPublicAccessConfiguration")
def put_block_public_access_configuration(
    emr: Emr, call: Call, request: shapes.PutBlockPublicAccessConfigurationInput
) -> shapes.PutBlockPublicAccessConfigurationOutput:
    """Store the account's setting. Source: API_PutBlockPublicAccessConfiguration."""
    configuration = request["BlockPublicAccessConfiguration"]
    for ports in configuration.get("PermittedPublicSecurityGroupRuleRanges") or []:
        least, most = ports["MinRange"], ports.get("MaxRange", ports["MinRange"])
        if not 0 <= least <= most <= _MOST_PORT:
            raise invalid_request(f"Port range {least}-{most} is not valid.")
    emr.store.put_public_access(
        {
            "configuration": configuration,
            "created_ms": call.now_ms,
            "created_by": caller_arn(call),
        },
        account=call.account,
        region=call.region,
    )
    return {}


def _find_configuration(emr: Emr, call: Call, name: str) -> SecurityConfiguration:
    security_configuration = emr.store.security_configurations(call.account, call.region).get(name)
    if security_configuration is None:
        raise invalid_request(unknown_security_configuration(name))
    return security_configuration


@operation("CreateSecurityConfiguration")
def create_security_configuration(
    emr: Emr, call: Call, request: shapes.CreateSecurityConfigurationInput
) -> shapes.CreateSecurityConfigurationOutput:
    """Store a security configuration, which must be JSON."""
    name, text = request["Name"], request["SecurityConfiguration"]
    try:
        parse_json(text)
    except ValueError:
        raise invalid_request("SecurityConfiguration is not valid JSON.") from None
    with emr.store.lock:
        if name in emr.store.security_configurations(call.account, call.region):
            raise invalid_request(f"Security configuration with name '{name}' already exists.")
        emr.store.put_security_configuration(
            name,
            {"text": text, "created_ms": call.now_ms},
            account=call.account,
            region=call.region,
        )
    return {"Name": name, "CreationDateTime": moment(call.now_ms)}


@operation("DescribeSecurityConfiguration")
def describe_security_configuration(
    emr: Emr, call: Call, request: shapes.DescribeSecurityConfigurationInput
) -> shapes.DescribeSecurityConfigurationOutput:
    """Return one security configuration."""
    configuration = _find_configuration(emr, call, request["Name"])
    return {
        "Name": request["Name"],
        "SecurityConfiguration": configuration["text"],
        "CreationDateTime": moment(configuration["created_ms"]),
    }


@operation("ListSecurityConfigurations")
def list_security_configurations(
    emr: Emr, call: Call, request: shapes.ListSecurityConfigurationsInput
) -> shapes.ListSecurityConfigurationsOutput:
    """Return the names of all security configurations."""
    security_configurations = emr.store.security_configurations(call.account, call.region)
    shown, marker = page(security_configurations.items(), request.get("Marker"), CLUSTERS_PER_PAGE)
    names = [{"Name": n, "CreationDateTime": moment(v["created_ms"])} for n, v in shown]
    return present({"SecurityConfigurations": names, "Marker": marker})


@operation("DeleteSecurityConfiguration")
def delete_security_configuration(
    emr: Emr, call: Call, request: shapes.DeleteSecurityConfigurationInput
) -> shapes.DeleteSecurityConfigurationOutput:
    """Remove a security configuration."""
    with emr.store.lock:
        _find_configuration(emr, call, request["Name"])
        emr.store.put_security_configuration(
            request["Name"], None, account=call.account, region=call.region
        )
    return {}
