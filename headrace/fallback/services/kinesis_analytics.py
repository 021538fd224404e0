"""Managed Flink: applications can be deleted, and log streams be added to them and taken away."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import itertools
import json
from typing import Any

from headrace.aws.errors import AwsError


def patch(module: Any) -> None:
    """Replace methods of `moto.kinesisanalyticsv2.responses`."""
    response = module.KinesisAnalyticsV2Response
    response.add_application_cloud_watch_logging_option = _add_option
    response.delete_application_cloud_watch_logging_option = _delete_option
    response.delete_application = _delete_application


def _add_option(self: Any) -> str:
    application, option = _found(self), self._get_param("CloudWatchLoggingOption")
    kept = application.cloud_watch_logging_description or []
    # Documented: each change makes the application another version. The id is its number, which no option had
    # before: an id that comes again would have CloudFormation take the new option for the one it replaces.
    application.application_version_id += 1
    used = {each["CloudWatchLoggingOptionId"] for each in kept}
    ids = (f"{application.application_version_id}.{number}" for number in itertools.count(1))
    described = {
        "CloudWatchLoggingOptionId": next(each for each in ids if each not in used),
        "LogStreamARN": option["LogStreamARN"],
    }
    application.cloud_watch_logging_description = [*kept, described]
    return _answer(application)


def _delete_option(self: Any) -> str:
    application, gone = _found(self), self._get_param("CloudWatchLoggingOptionId")
    kept = application.cloud_watch_logging_description or []
    left = [each for each in kept if each["CloudWatchLoggingOptionId"] != gone]
    if len(left) == len(kept):
        # The code is documented, the sentence assumed.
        raise AwsError(
            "ResourceNotFoundException",
            f"CloudWatch logging option {gone} does not exist in application"
            f" {application.application_name}",
        )
    application.application_version_id += 1
    application.cloud_watch_logging_description = left
    return _answer(application)


def _delete_application(self: Any) -> str:
    application = _found(self)
    del self.kinesisanalyticsv2_backend.applications[application.application_name]
    return json.dumps({})


def _found(self: Any) -> Any:
    name = self._get_param("ApplicationName")
    application = self.kinesisanalyticsv2_backend.applications.get(name)
    if application is None:
        raise AwsError("ResourceNotFoundException", f"Application {name} does not exist")
    return application


def _answer(application: Any) -> str:
    return json.dumps(
        {
            "ApplicationARN": application.application_arn,
            "ApplicationVersionId": application.application_version_id,
            "CloudWatchLoggingOptionDescriptions": application.cloud_watch_logging_description,
        }
    )
