"""`headrace lint --stack`: what is deployed, with the parameters that it was given."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

import headrace.testing
from headrace.cli.commands import headrace as command

TEMPLATE = """
Parameters:
  Shards: {Type: Number, Default: 1}
Resources:
  Clicks:
    Type: AWS::Kinesis::Stream
    Properties:
      ShardCount: !Ref Shards
      StreamEncryption: {EncryptionType: KMS, KeyId: alias/aws/kinesis}
Outputs:
  Name: {Value: !Ref Clicks}
"""


def lint(stacks: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    # The cloud of a test has no socket.
    monkeypatch.setattr("headrace.cli.lint.client", lambda *_, **__: stacks)
    return CliRunner().invoke(command, ["lint", "--only-streaming", *arguments])


def test_a_deployed_stack_is_linted_as_it_was_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    with headrace.testing.cloud():
        stacks: Any = boto3.client("cloudformation", region_name="us-east-1")
        stacks.create_stack(
            StackName="clicks",
            TemplateBody=TEMPLATE,
            Parameters=[{"ParameterKey": "Shards", "ParameterValue": "12"}],
        )
        stacks.get_waiter("stack_create_complete").wait(
            StackName="clicks", WaiterConfig={"Delay": 1}
        )

        sound = lint(stacks, monkeypatch, "--stack", "clicks")
        strict = lint(stacks, monkeypatch, "--stack", "clicks", "-x", "W9070:shards=11")
        missing = lint(stacks, monkeypatch, "--stack", "orders")

    assert (sound.exit_code, sound.output) == (0, "")
    assert strict.exit_code == 4
    assert "12 shards; an account in us-east-1 has 11" in strict.output
    assert missing.exit_code == 1
    assert "orders" in missing.stderr
    assert "does not exist" in missing.stderr
