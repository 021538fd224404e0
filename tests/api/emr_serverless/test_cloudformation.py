"""`AWS::EMRServerless::Application` in a template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.api.cloudformation.test_lambda_resources import deploy
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until


def application(**properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::EMRServerless::Application",
        "Properties": {
            "Name": "flights",
            "ReleaseLabel": "emr-7.9.0",
            "Type": "Spark",
            "AutoStopConfiguration": {"Enabled": "true", "IdleTimeoutMinutes": "5"},
            "InitialCapacity": [
                {
                    "Key": "Driver",
                    "Value": {
                        "WorkerCount": "1",
                        "WorkerConfiguration": {"Cpu": "2 vCPU", "Memory": "4 GB"},
                    },
                }
            ],
            "MaximumCapacity": {"Cpu": "4 vCPU", "Memory": "16 GB"},
            "RuntimeConfiguration": [
                {"Classification": "spark-defaults", "Properties": {"Spark.Some.Key": 1}}
            ],
            **properties,
        },
    }


def test_an_application_is_made_changed_and_deleted_with_its_stack(data_dir: Path) -> None:
    with InProcessCloud(data_dir) as cloud:
        cfn, emr = cloud.client("cloudformation"), cloud.client("emr-serverless")
        outputs = {"Id": {"Ref": "App"}, "Arn": {"Fn::GetAtt": ["App", "Arn"]}}
        made = deploy(cfn, {"App": application(Tags=[{"Key": "a", "Value": "1"}])}, **outputs)
        found = emr.get_application(applicationId=made["Id"])["application"]
        assert made["Arn"] == found["arn"]
        assert found["name"] == "flights"
        assert found["autoStopConfiguration"] == {"enabled": True, "idleTimeoutMinutes": 5}
        assert found["initialCapacity"]["Driver"]["workerCount"] == 1
        assert found["maximumCapacity"] == {"cpu": "4 vCPU", "memory": "16 GB"}
        assert found["runtimeConfiguration"][0]["properties"] == {"Spark.Some.Key": "1"}
        assert found["tags"]["a"] == "1"

        emr.start_application(applicationId=made["Id"])
        changed = application(AutoStartConfiguration={"Enabled": False})
        assert deploy(cfn, {"App": changed}, **outputs) == made
        found = emr.get_application(applicationId=made["Id"])["application"]
        assert found["autoStartConfiguration"] == {"enabled": False}
        assert "a" not in found["tags"]

        emr.start_application(applicationId=made["Id"])
        cfn.delete_stack(StackName="s")
        wait_until(
            lambda: (
                emr.get_application(applicationId=made["Id"])["application"]["state"]
                == "TERMINATED"
            )
        )


def test_an_unknown_release_fails_the_stack_in_both_services(data_dir: Path) -> None:
    cluster = {
        "Type": "AWS::EMR::Cluster",
        "Properties": {
            "Name": "c", "ReleaseLabel": "emr-7.1.7", "JobFlowRole": "r", "ServiceRole": "r",
            "Instances": {},
        },
    }  # fmt: skip
    with InProcessCloud(data_dir) as cloud:
        cfn = cloud.client("cloudformation")
        for name, resource, sentence in (
            ("c", cluster, "The supplied release label is invalid: emr-7.1.7."),
            ("a", application(ReleaseLabel="emr-6.5.0"), "Unsupported release label emr-6.5.0"),
        ):
            cfn.create_stack(
                StackName=name, TemplateBody=json.dumps({"Resources": {"It": resource}})
            )
            wait_until(
                lambda name=name: (
                    cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
                    == "ROLLBACK_COMPLETE"
                )
            )
            events = cfn.describe_stack_events(StackName=name)["StackEvents"]
            assert any(sentence in event.get("ResourceStatusReason", "") for event in events)
