"""Serves, with LocalStack's own moto, services that LocalStack's open edition lacks or would download.

moto only keeps state: an EMR step never runs, a Glue crawler never crawls.
"""

# LocalStack is installed in a separate environment.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

from localstack.aws.skeleton import Skeleton
from localstack.aws.spec import load_service
from localstack.services.moto import call_moto
from localstack.services.plugins import Service, aws_provider


def _on_moto(api: str) -> Any:
    model = load_service(api)

    def answer(context: Any, _request: Any) -> Any:
        return call_moto(context)

    return Service(name=api, skeleton=Skeleton(model, dict.fromkeys(model.operation_names, answer)))


@aws_provider(api="dynamodb", name="moto")
def dynamodb() -> Any:
    """DynamoDB: LocalStack's own is a Java program that it downloads."""
    return _on_moto("dynamodb")


@aws_provider(api="dynamodbstreams", name="moto")
def dynamodbstreams() -> Any:
    """DynamoDB's streams."""
    return _on_moto("dynamodbstreams")


@aws_provider(api="glue", name="moto")
def glue() -> Any:
    """Glue's catalogue."""
    return _on_moto("glue")


@aws_provider(api="emr", name="moto")
def emr() -> Any:
    """EMR's clusters and steps, as state."""
    return _on_moto("emr")
