"""SQS by the query protocol, as curl and SDKs of before 2023 speak it: forms, and queries at the queue's address."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import ACCOUNT, InProcessCloud

VERSION = "Version=2012-11-05"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_a_message_goes_through_a_queue_s_address(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("sqs").create_queue(QueueName="q")

        def ask(method: str, path: str, parameters: str) -> tuple[int, str]:
            query, body, more = (
                (parameters, b"", {}) if method == "GET" else ("", parameters.encode(), FORM)
            )
            headers = {"host": "localhost:4566", **more}
            answer = cloud.handle(HttpRequest(method, path, query, headers, body))
            return answer.status, bytes(answer.body).decode()  # type: ignore[arg-type]

        queue = f"/{ACCOUNT}/q"
        for method, body in (("GET", "first"), ("POST", "second")):
            send = f"Action=SendMessage&MessageBody={body}&{VERSION}"
            status, said = ask(method, queue, send)
            assert (status, "<MD5OfMessageBody>" in said) == (200, True), said
        receive = f"Action=ReceiveMessage&MaxNumberOfMessages=10&{VERSION}"
        status, said = ask("GET", queue, receive)
        assert status == 200, said
        assert sorted(re.findall("<Body>(.*?)</Body>", said)) == ["first", "second"], said
        status, said = ask("GET", "/", f"Action=GetQueueUrl&QueueName=none&{VERSION}")
        assert (status, "AWS.SimpleQueueService.NonExistentQueue" in said) == (400, True)
        # What names no version of a known service is an object.
        status, said = ask("GET", queue, "Action=SendMessage")
        assert (status, "NoSuchBucket" in said) == (404, True)


def test_a_message_s_text_is_no_parameter(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        sqs, ssm, apis = (cloud.client(name) for name in ("sqs", "ssm", "apigateway"))
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        text = f"https://x?a&Action=DeleteQueue&QueueUrl={queue}&Name=other&name=other&b"
        sqs.send_message(QueueUrl=queue, MessageBody=text)
        (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
        assert message["Body"] == text
        ssm.put_parameter(Name="n", Type="String", Value=text)
        assert ssm.get_parameter(Name="n")["Parameter"]["Value"] == text
        api = apis.create_rest_api(name="n", description=text)
        assert (api["name"], api["description"]) == ("n", text)


def test_a_parameter_comes_from_one_place(tmp_path: Path):
    """Permissions are asked for the request that moto runs."""
    with InProcessCloud(tmp_path / "data", iam="enforce") as cloud:
        iam, scheduler = cloud.client("iam"), cloud.client("scheduler")
        iam.create_user(UserName="reader")
        may = {"Effect": "Allow", "Action": ["iam:List*", "scheduler:List*"], "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [may]})
        iam.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=policy)
        key = iam.create_access_key(UserName="reader")["AccessKey"]["AccessKeyId"]
        iam.create_user(UserName="other")
        scheduler.create_schedule_group(Name="g")

        def ask(service: str, method: str, target: str, body: str, **more: str) -> int:
            signed = f"AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/{service}/aws4_request"
            headers = {
                "host": "localhost:4566",
                "authorization": f"{signed}, SignedHeaders=host, Signature=00",
                **{name.replace("_", "-"): value for name, value in more.items()},
            }
            path, _, query = target.partition("?")
            answer = cloud.handle(HttpRequest(method, path, query, headers, body.encode()))
            return answer.status

        version, form = "Version=2010-05-08", FORM["content-type"]
        listing, deletion = f"Action=ListUsers&{version}", f"Action=DeleteUser&{version}"
        deletion += "&UserName=other"
        assert ask("iam", "POST", "/", listing, content_type=form) == 200
        assert ask("iam", "POST", "/", deletion, content_type=form) == 403
        assert ask("iam", "POST", f"/?{listing}", deletion, content_type=form) == 400
        assert ask("iam", "POST", "/", deletion, content_type="text/plain") == 400
        target = "AWSFoo.ListUsers"
        assert ask("iam", "POST", f"/?{deletion}", "", x_amz_target=target) == 400
        path, target = "/schedule-groups/g", "AWSFoo.ListScheduleGroups"
        assert ask("scheduler", "DELETE", path, "") == 403
        assert ask("scheduler", "DELETE", path, "{}", x_amz_target=target) == 403
        assert len(iam.list_users()["Users"]) == 2
        groups = scheduler.list_schedule_groups()["ScheduleGroups"]
        assert [group["Name"] for group in groups] == ["default", "g"]
