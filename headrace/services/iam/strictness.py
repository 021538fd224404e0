"""`headrace up --strict` for moto's services: refuses the members that they ignore, by their fidelity tables."""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest
from headrace.aws.protocols import codec_moto
from headrace.aws.protocols.owned_service import Strictness
from headrace.services.iam.fidelity import moto_tables

# botocore's names of services whose requests name themselves otherwise, in their signature's scope.
_SCOPES = {
    "apigatewayv2": "apigateway",
    "cloudwatch": "monitoring",
    "efs": "elasticfilesystem",
    "elbv2": "elasticloadbalancing",
    "kinesisanalyticsv2": "kinesisanalytics",
    "opensearch": "es",
    "opensearchserverless": "aoss",
    "sesv2": "ses",
}
# Of services that share their scope's protocol with an older one: what the bodies of their requests have.
_VERSIONS = {"elbv2": b"Version=2015-12-01"}


class StrictChecks:
    """Refuses calls with members that would be ignored. Thread-safe. Services without a table refuse nothing."""

    def __init__(self) -> None:
        # By the names in signatures, and by botocore's.
        self._named: dict[str, list[tuple[str, Strictness]]] = {}
        for name, table in moto_tables().items():
            one = (name, Strictness(name, table))
            for known in {name, _SCOPES.get(name, name)}:
                self._named.setdefault(known, []).append(one)

    def check(self, service: str, request: HttpRequest) -> None:
        """Raise AwsError when a request to `service` has a member that would be ignored."""
        for name, strictness in self._named.get(service, ()):
            if _VERSIONS.get(name, b"") not in request.body:
                continue
            try:
                operation, params = codec_moto.operation_of(name, request)
            except codec_moto.Unreadable:
                continue  # the service itself reports the error
            strictness.check(operation, params)
