"""`headrace up --strict` for moto's services: refuses the members that they ignore, by their fidelity tables."""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest
from headrace.aws.protocols import operation_parser
from headrace.aws.protocols.strictness import Strictness
from headrace.services.iam.fidelity import moto_tables


class StrictChecks:
    """Refuses calls with members that would be ignored. Thread-safe. Services without a table refuse nothing."""

    def __init__(self) -> None:
        self._of_service = {name: Strictness(name, table) for name, table in moto_tables().items()}

    def check(self, service: str, request: HttpRequest) -> None:
        """Raise AwsError when a request to `service` has a member that would be ignored."""
        strictness = self._of_service.get(service)
        if strictness is None:
            return
        try:
            operation, params = operation_parser.operation_of(service, request)
        except operation_parser.Unreadable:
            return  # the service itself reports the error
        strictness.check(operation, params)
