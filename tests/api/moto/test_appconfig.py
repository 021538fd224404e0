"""AppConfig: a deployment goes on by the cloud's clock, and clients get what is deployed."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.support.clock import ShiftedClock
from tests.support.cloud import InProcessCloud

FLAGS = {
    "version": "1",
    "flags": {"dark": {"name": "dark"}, "old": {"name": "old"}},
    "values": {
        "dark": {"enabled": True, "hue": 3, "_createdAt": "x"},
        "old": {"enabled": False, "hue": 1},
    },
}


def test_a_deployment_bakes_and_is_served(tmp_path: Path):
    clock = ShiftedClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        config, data = cloud.client("appconfig"), cloud.client("appconfigdata")
        app = config.create_application(Name="shop")["Id"]
        environment = config.create_environment(ApplicationId=app, Name="prod")["Id"]
        profile = config.create_configuration_profile(
            ApplicationId=app, Name="flags", LocationUri="hosted", Type="AWS.AppConfig.FeatureFlags"
        )["Id"]
        config.create_hosted_configuration_version(
            ApplicationId=app,
            ConfigurationProfileId=profile,
            Content=json.dumps(FLAGS).encode(),
            ContentType="application/json",
        )
        # 0 percent a step would never end.
        for bad in ({"GrowthFactor": 0}, {"GrowthFactor": 20, "FinalBakeTimeInMinutes": 1441}):
            with pytest.raises(config.exceptions.BadRequestException):
                config.create_deployment_strategy(
                    Name="s", DeploymentDurationInMinutes=10, GrowthType="EXPONENTIAL", **bad
                )
        strategy = config.create_deployment_strategy(
            Name="s", DeploymentDurationInMinutes=10, GrowthFactor=20, FinalBakeTimeInMinutes=5
        )["Id"]
        named = {"ApplicationId": app, "EnvironmentId": environment}
        asked = {**named, "ConfigurationProfileId": profile, "ConfigurationVersion": "1"}
        started = config.start_deployment(**asked, DeploymentStrategyId=strategy)
        assert (started["State"], started["DeploymentNumber"]) == ("DEPLOYING", 1)
        with pytest.raises(config.exceptions.ConflictException):
            config.start_deployment(**asked, DeploymentStrategyId=strategy)
        token = data.start_configuration_session(
            ApplicationIdentifier="shop",
            EnvironmentIdentifier="prod",
            ConfigurationProfileIdentifier="flags",
        )["InitialConfigurationToken"]
        with pytest.raises(data.exceptions.ResourceNotFoundException):
            data.get_latest_configuration(ConfigurationToken=token)
        shown = []
        for minutes in (5, 6, 5):
            clock.advance(minutes * 60)
            deployment = config.get_deployment(**named, DeploymentNumber=1)
            shown.append((deployment["State"], deployment["PercentageComplete"]))
        assert shown == [("DEPLOYING", 40.0), ("BAKING", 100.0), ("COMPLETE", 100.0)]
        latest = data.get_latest_configuration(ConfigurationToken=token)
        assert json.loads(latest["Configuration"].read()) == {
            "dark": {"enabled": True, "hue": 3},
            "old": {"enabled": False},
        }
        again = data.get_latest_configuration(
            ConfigurationToken=latest["NextPollConfigurationToken"]
        )
        assert again["Configuration"].read() == b""
        kept = again["NextPollConfigurationToken"]
        raw = base64.urlsafe_b64decode(token)
        for forged in (
            "x", "é", base64.b64encode(b"{}").decode(), base64.b64encode(b'["shop","prod","flags",60,0]').decode(),
            base64.urlsafe_b64encode(raw.replace(b"flags", b"other")).decode(), token[:-4], "W10=" * 2000,
        ):  # fmt: skip
            with pytest.raises(data.exceptions.BadRequestException):
                data.get_latest_configuration(ConfigurationToken=forged)
        config.start_deployment(**asked, DeploymentStrategyId="AppConfig.Canary10Percent20Minutes")
        config.stop_deployment(**named, DeploymentNumber=2)
        listed = config.list_deployments(**named)["Items"]
        assert [(one["DeploymentNumber"], one["State"]) for one in listed] == [
            (2, "ROLLED_BACK"),
            (1, "COMPLETE"),
        ]
        assert config.get_environment(**named)["State"] == "ROLLED_BACK"
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        assert len(cloud.client("appconfig").list_deployments(**named)["Items"]) == 2
        data = cloud.client("appconfigdata")
        latest = data.get_latest_configuration(ConfigurationToken=kept)
        clock.advance(24 * 3600 + 1)
        with pytest.raises(data.exceptions.BadRequestException):
            data.get_latest_configuration(ConfigurationToken=latest["NextPollConfigurationToken"])
