"""Reads which operation a request is for, and its parameters, of a service that headrace does not own."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.protocols import codec_json, codec_moto


class Unreadable(Exception):
    """The request is for no operation, or its parameters cannot be read.

    Attributes:
        refusal: the error that AWS answers, or, when that cannot be told, a denial.
    """

    def __init__(self, refusal: AwsError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def operation_of(service: str, request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Return the operation of a request and its parameters. Raises Unreadable.

    `service` is botocore's name of it.
    """
    try:
        target = request.headers.get("x-amz-target")
        if target is None or codec_moto.is_rest(service):
            return codec_moto.parse_request(service, request)
        operation = target.rpartition(".")[2]
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        return operation, codec_json.decode_input(service, operation, request.body, content_type)
    except AwsError as error:
        raise Unreadable(error) from error
    except (UnknownServiceError, OperationNotFoundError) as error:
        sentence = f"headrace cannot tell which permission this request needs ({error})"
        raise Unreadable(AwsError("AccessDeniedException", sentence, 403)) from error
