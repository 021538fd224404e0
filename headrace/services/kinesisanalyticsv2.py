"""Managed Flink: changes and deletes applications, and adds and removes log streams, VPC configurations and tags.

Each change makes a new version of the application; a request with a version that is not current is refused
(documented: API_UpdateApplication). The sentences of errors are assumed, their codes documented.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import json
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import utcnow

# Computes a Managed Flink application's configuration after UpdateApplication, in the form of a description.
#
# A member's name ends with `Update` in an update, and with `Description` in a description.

NETWORKS = "VpcConfigurationDescriptions"
# Documented: with the type DEFAULT these values apply, whatever the request gives (API_CheckpointConfiguration,
# API_MonitoringConfiguration, API_ParallelismConfiguration).
_DEFAULTS: dict[str, dict[str, Any]] = {
    "CheckpointConfigurationDescription": {
        "CheckpointingEnabled": True,
        "CheckpointInterval": 60000,
        "MinPauseBetweenCheckpoints": 5000,
    },
    "MonitoringConfigurationDescription": {"MetricsLevel": "APPLICATION", "LogLevel": "INFO"},
    "ParallelismConfigurationDescription": {
        "Parallelism": 1,
        "ParallelismPerKPU": 1,
        "AutoScalingEnabled": False,
        "CurrentParallelism": 1,
    },
}
# Members whose description and update have unrelated names.
_SECTIONS = {
    ("CodeContentUpdate", "S3ContentLocationUpdate"): "S3ApplicationCodeLocationDescription",
}


def apply_update(
    described: dict[str, Any], update: dict[str, Any], run: dict[str, Any]
) -> dict[str, Any]:
    """Return the description after an ApplicationConfigurationUpdate and a RunConfigurationUpdate.

    Raises AwsError; `described` is not changed.
    """
    update = dict(update)
    if update.pop("SqlApplicationConfigurationUpdate", None):
        # moto does not store it, and AWS has discontinued these applications.
        raise AwsError(
            "UnsupportedOperationException",
            "The inputs and outputs of an application for SQL cannot be changed",
        )
    networks = update.pop("VpcConfigurationUpdates", [])
    properties = update.pop("EnvironmentPropertyUpdates", None)
    merged_configuration = _merge(described, update)
    if properties is not None:
        # Documented: the property groups of an update replace all others.
        groups: list[Any] = properties.get("PropertyGroups") or []
        merged_configuration["EnvironmentPropertyDescriptions"] = {
            "PropertyGroupDescriptions": groups
        }
    for network in networks:
        merged_configuration[NETWORKS] = _with_network(
            merged_configuration.get(NETWORKS, []), network
        )
    if run:
        merged_configuration["RunConfigurationDescription"] = {
            **merged_configuration.get("RunConfigurationDescription", {}),
            **{f"{name}Description": value for name, value in run.items()},
        }
    return merged_configuration


def vpc(network: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a VpcConfiguration; moto has a single VPC."""
    from moto.kinesisanalyticsv2.models import FAKE_VPC_ID

    return {
        "VpcId": FAKE_VPC_ID,
        "SubnetIds": network["SubnetIds"],
        "SecurityGroupIds": network["SecurityGroupIds"],
    }


def _merge(described: dict[str, Any], update: dict[str, Any], at: str = "") -> dict[str, Any]:
    shown = dict(described)
    for member, value in update.items():
        name = member.removesuffix("Update")
        section = _SECTIONS.get((at, member), f"{name}Description")
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            merged = _merge(shown.get(section, {}), inner, member)
            if merged.get("ConfigurationType") == "DEFAULT":
                merged |= _DEFAULTS.get(section, {})
            if section == "ParallelismConfigurationDescription" and "Parallelism" in merged:
                merged["CurrentParallelism"] = merged["Parallelism"]
            shown[section] = merged
        elif isinstance(value, list):
            shown[section] = [
                _artifact(artifact) for artifact in cast("list[dict[str, Any]]", value)
            ]
        elif member == "ZipFileContentUpdate":
            shown |= _code(str(value))
        else:
            shown[name] = value
    return shown


def _artifact(artifact: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a notebook's artifact."""
    return {
        f"{name}Description" if isinstance(value, dict) else name: value
        for name, value in artifact.items()
    }


def _code(content: str) -> dict[str, Any]:
    """Return the description of inline code, in Base64."""
    data = base64.b64decode(content)
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return {"CodeMD5": digest, "CodeSize": len(data)}


def _with_network(networks: list[dict[str, Any]], update: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the VPC configurations after an update of one."""
    if update["VpcConfigurationId"] not in {network["VpcConfigurationId"] for network in networks}:
        raise AwsError(
            "ResourceNotFoundException",
            f"VPC configuration {update['VpcConfigurationId']} does not exist",
        )
    changed = {
        name: update[f"{name.removesuffix('s')}Updates"]
        for name in ("SubnetIds", "SecurityGroupIds")
        if f"{name.removesuffix('s')}Updates" in update
    }
    return [
        {**network, **changed}
        if network["VpcConfigurationId"] == update["VpcConfigurationId"]
        else network
        for network in networks
    ]


def _refuse_start(_self: Any) -> None:
    raise AwsError(
        "NotImplemented",
        "headrace does not run Flink: say the application in SQL (headrace sql), or as a Spark job and a step of EMR.",
        501,
    )


def patch(module: Any) -> None:
    """Replace methods of `moto.kinesisanalyticsv2.responses`."""
    response = module.KinesisAnalyticsV2Response
    create, describe = response.create_application, response.describe_application

    @functools.wraps(create)
    def create_application(self: Any) -> str:
        name = self._get_param("ApplicationName")
        if name in self.kinesisanalyticsv2_backend.applications:
            raise AwsError("ResourceInUseException", f"Application {name} already exists")
        create(self)
        # Documented: a new application is READY, and starts on request.
        _find_application(self).application_status = "READY"
        return describe_application(self)

    @functools.wraps(describe)
    def describe_application(self: Any) -> str:
        application, answer = _find_application(self), json.loads(describe(self))
        answer["ApplicationDetail"]["ApplicationName"] = application.application_name
        return json.dumps(answer)

    response.create_application = create_application
    response.describe_application = describe_application
    response.update_application = _update_application
    response.delete_application = _delete_application
    response.add_application_cloud_watch_logging_option = _add_option
    response.delete_application_cloud_watch_logging_option = _delete_option
    response.add_application_vpc_configuration = _add_network
    response.delete_application_vpc_configuration = _delete_network
    response.tag_resource = _tag_resource
    response.untag_resource = _untag_resource
    response.start_application = _refuse_start


def _update_application(self: Any) -> str:
    application = _find_application(self)
    version, token = (
        self._get_param(n) for n in ("CurrentApplicationVersionId", "ConditionalToken")
    )
    if version is None and token is None:
        raise AwsError(
            "InvalidArgumentException",
            "You must provide the CurrentApplicationVersionId or the ConditionalToken",
        )
    _check_version(self, application)
    configuration = apply_update(
        application.app_config_description or {},
        self._get_param("ApplicationConfigurationUpdate") or {},
        self._get_param("RunConfigurationUpdate") or {},
    )
    options = _update_options(self, application)
    # Everything is checked: from here on nothing is refused.
    application.app_config_description = configuration or None
    application.cloud_watch_logging_description = options
    for member, attribute in (
        ("ServiceExecutionRoleUpdate", "service_execution_role"),
        ("RuntimeEnvironmentUpdate", "runtime_environment"),
    ):
        if self._get_param(member) is not None:
            setattr(application, attribute, self._get_param(member))
    _make_version(application)
    return self.describe_application()


def _update_options(self: Any, application: Any) -> list[dict[str, str]] | None:
    kept = application.cloud_watch_logging_description
    updates = {
        option["CloudWatchLoggingOptionId"]: option.get("LogStreamARNUpdate")
        for option in self._get_param("CloudWatchLoggingOptionUpdates") or []
    }
    for gone in updates.keys() - {option["CloudWatchLoggingOptionId"] for option in kept or []}:
        raise _no_option(application, gone)
    return kept and [
        {
            **option,
            "LogStreamARN": updates.get(option["CloudWatchLoggingOptionId"])
            or option["LogStreamARN"],
        }
        for option in kept
    ]


def _add_option(self: Any) -> str:
    application, option = _find_application(self), self._get_param("CloudWatchLoggingOption")
    _check_version(self, application)
    kept = application.cloud_watch_logging_description or []
    # The id is the version's number, which no option had before: with a reused id CloudFormation would mistake the new
    # option for the one that it replaces.
    _make_version(application)
    used = {existing["CloudWatchLoggingOptionId"] for existing in kept}
    described = {
        "CloudWatchLoggingOptionId": _new_id(application, used),
        "LogStreamARN": option["LogStreamARN"],
    }
    application.cloud_watch_logging_description = [*kept, described]
    return _options_answer(application)


def _delete_option(self: Any) -> str:
    application, gone = _find_application(self), self._get_param("CloudWatchLoggingOptionId")
    _check_version(self, application)
    kept = application.cloud_watch_logging_description or []
    left = [option for option in kept if option["CloudWatchLoggingOptionId"] != gone]
    if len(left) == len(kept):
        raise _no_option(application, gone)
    _make_version(application)
    application.cloud_watch_logging_description = left
    return _options_answer(application)


def _add_network(self: Any) -> str:
    application, network = _find_application(self), self._get_param("VpcConfiguration")
    _check_version(self, application)
    described = dict(application.app_config_description or {})
    kept = described.get(NETWORKS, [])
    if kept:
        # Documented: an application has one VPC configuration at most.
        raise AwsError(
            "InvalidArgumentException",
            f"Application {application.application_name} already has a VPC configuration",
        )
    _make_version(application)
    added = {"VpcConfigurationId": _new_id(application, set()), **vpc(network)}
    application.app_config_description = {**described, NETWORKS: [added]}
    return json.dumps({**_version_of(application), "VpcConfigurationDescription": added})


def _delete_network(self: Any) -> str:
    application, gone = _find_application(self), self._get_param("VpcConfigurationId")
    _check_version(self, application)
    described = dict(application.app_config_description or {})
    kept = described.pop(NETWORKS, [])
    left = [network for network in kept if network["VpcConfigurationId"] != gone]
    if len(left) == len(kept):
        raise AwsError(
            "ResourceNotFoundException",
            f"VPC configuration {gone} does not exist in application"
            f" {application.application_name}",
        )
    _make_version(application)
    networks = {NETWORKS: left} if left else {}
    application.app_config_description = {**described, **networks}
    return json.dumps(_version_of(application))


def _delete_application(self: Any) -> str:
    application = _find_application(self)
    backend = self.kinesisanalyticsv2_backend
    backend.tagger.delete_all_tags_for_resource(application.application_arn)
    del backend.applications[application.application_name]
    return json.dumps({})


def _tag_resource(self: Any) -> str:
    arn = _find_tagged_arn(self)
    self.kinesisanalyticsv2_backend.tagger.tag_resource(arn, self._get_param("Tags"))
    return json.dumps({})


def _untag_resource(self: Any) -> str:
    arn = _find_tagged_arn(self)
    self.kinesisanalyticsv2_backend.untag_resource(arn, self._get_param("TagKeys"))
    return json.dumps({})


def _find_tagged_arn(self: Any) -> str:
    """Return the ARN of the application whose tags change."""
    arn = str(self._get_param("ResourceARN"))
    for application in self.kinesisanalyticsv2_backend.applications.values():
        if application.application_arn == arn:
            return arn
    raise AwsError("ResourceNotFoundException", f"Application {arn} does not exist")


def _find_application(self: Any) -> Any:
    name = self._get_param("ApplicationName")
    application = self.kinesisanalyticsv2_backend.applications.get(name)
    if application is None:
        raise AwsError("ResourceNotFoundException", f"Application {name} does not exist")
    return application


def _check_version(self: Any, application: Any) -> None:
    """Refuse a change of a version that is not current."""
    for member, current in (
        ("CurrentApplicationVersionId", application.application_version_id),
        ("ConditionalToken", application.conditional_token),
    ):
        version_given = self._get_param(member)
        if version_given is not None and version_given != current:
            raise AwsError(
                "ConcurrentModificationException",
                f"{member} {version_given} is not that of application {application.application_name},"
                f" which is {current}",
            )


def _make_version(application: Any) -> None:
    application.application_version_id += 1
    # Documented: the token belongs to one version.
    application.conditional_token = f"{application.application_version_id:032x}"
    application.last_updated_date_time = utcnow().isoformat()


def _new_id(application: Any, used: set[str]) -> str:
    ids = (f"{application.application_version_id}.{number}" for number in itertools.count(1))
    return next(candidate for candidate in ids if candidate not in used)


def _no_option(application: Any, option: str) -> AwsError:
    return AwsError(
        "ResourceNotFoundException",
        f"CloudWatch logging option {option} does not exist in application"
        f" {application.application_name}",
    )


def _version_of(application: Any) -> dict[str, Any]:
    return {
        "ApplicationARN": application.application_arn,
        "ApplicationVersionId": application.application_version_id,
    }


def _options_answer(application: Any) -> str:
    options = application.cloud_watch_logging_description
    return json.dumps({**_version_of(application), "CloudWatchLoggingOptionDescriptions": options})
