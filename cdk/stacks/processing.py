"""The function that enriches flights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct

from cdk.constructs.stream_function import StreamFunction

CODE = Path(__file__).resolve().parents[2] / "lambdas" / "enrich"


class ProcessingStack(Stack):
    """`enrich`, from `flights` to `enriched`. Outputs: EnrichFunctionName, FailureQueueUrl."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        flights: kinesis.IStream,
        enriched: kinesis.IStream,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        enrich = StreamFunction(
            self,
            "Enrich",
            name="enrich",
            code=CODE,
            source=flights,
            environment={"OUTPUT_STREAM": enriched.stream_name},
            batch_size=500,
            # Full batches when there is much to do, at most a second's wait when there is little.
            batching_window_s=1,
            # A record that can never pass holds up its shard while it is retried: so not for long.
            retry_attempts=3,
        )
        enriched.grant(enrich.role, "kinesis:PutRecords")
        CfnOutput(self, "EnrichFunctionName", value=enrich.function.function_name)
        CfnOutput(
            self,
            "FailureQueueUrl",
            value=enrich.failures.queue_url,
            description="what could not be enriched is named here",
        )
