"""CreatePersistentAppUI, DescribePersistentAppUI, and the URLs of application UIs, which are pages of this cloud."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.arn import Arn
from headrace.core.values import moment
from headrace.services.emr.actions.common import tag_list
from headrace.services.emr.app_uis import PersistentUi
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import invalid_request
from headrace.services.emr.state import ENDED_CLUSTER, Cluster

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
