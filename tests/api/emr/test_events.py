"""Rules of EventBridge see what becomes of clusters and steps."""

from __future__ import annotations

import json
from typing import Any

from tests.api.emr.conftest import Lab
from tests.support.server import wait_until


def _queue_of_events(lab: Lab) -> str:
    """Return the URL of a queue that a rule sends every event of EMR to."""
    sqs, events = lab.cloud.client("sqs"), lab.cloud.client("events")
    url = sqs.create_queue(QueueName="emr-events")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    events.put_rule(Name="emr", EventPattern=json.dumps({"source": ["aws.emr"]}))
    events.put_targets(Rule="emr", Targets=[{"Id": "queue", "Arn": arn["QueueArn"]}])
    return str(url)


def _until_seen(lab: Lab, url: str, kind: str, last_state: str) -> list[dict[str, Any]]:
    """Take events from the queue until one of that kind has that state; return the details of that kind."""
    sqs = lab.cloud.client("sqs")
    seen: list[dict[str, Any]] = []

    def last_came() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            event = json.loads(message["Body"])
            if event["detail-type"] == kind:
                seen.append(event["detail"])
        return any(detail["state"] == last_state for detail in seen)

    wait_until(last_came, what=f"{kind} {last_state}")
    return seen


def test_rules_see_every_state_of_a_failing_step(lab: Lab) -> None:
    url = _queue_of_events(lab)
    cluster_id = lab.cluster(lab.step("false"))

    seen = _until_seen(lab, url, "EMR Step Status Change", "FAILED")

    assert sorted(d["state"] for d in seen) == ["FAILED", "PENDING", "RUNNING"]
    failed = next(d for d in seen if d["state"] == "FAILED")
    step_id = lab.steps(cluster_id)[0]["Id"]
    assert failed["severity"] == "ERROR"
    assert failed["actionOnFailure"] == "CONTINUE"
    assert (failed["stepId"], failed["clusterId"]) == (step_id, cluster_id)
    assert failed["message"].startswith(
        f"Step {step_id} (a step) in Amazon EMR cluster {cluster_id} (a cluster) failed at "
    )


def test_rules_see_a_cluster_begin_and_end(lab: Lab) -> None:
    url = _queue_of_events(lab)
    cluster_id = lab.cluster(lab.step("true"), keep_alive=False)

    seen = _until_seen(lab, url, "EMR Cluster State Change", "TERMINATED")

    assert {d["state"] for d in seen} >= {"STARTING", "RUNNING", "TERMINATED"}
    ended = next(d for d in seen if d["state"] == "TERMINATED")
    assert ended["clusterId"] == cluster_id
    assert json.loads(ended["stateChangeReason"]) == {
        "code": "ALL_STEPS_COMPLETED",
        "message": "Steps completed",
    }
    assert ended["message"].endswith("with a reason of ALL_STEPS_COMPLETED.")


def test_rules_see_a_waiting_step_cancelled(lab: Lab) -> None:
    url = _queue_of_events(lab)
    cluster_id = lab.cluster(lab.step("sleep", "60"), lab.step("true"))
    running, waiting = (step["Id"] for step in lab.steps(cluster_id))
    lab.running(cluster_id, running)
    lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=[waiting])

    seen = _until_seen(lab, url, "EMR Step Status Change", "CANCELLED")

    cancelled = next(d for d in seen if d["state"] == "CANCELLED")
    assert (cancelled["stepId"], cancelled["severity"]) == (waiting, "WARN")
