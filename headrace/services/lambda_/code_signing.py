"""Code signing configurations: which signatures functions' code needs, and what happens to unsigned code.

No package in headrace is signed by AWS Signer, so each one is an untrusted artifact. A configuration that enforces
signatures refuses every package, as AWS refuses an unsigned one; a configuration that warns accepts every package.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.ids import Ids
from headrace.services.lambda_.names import format_lambda_time
from headrace.store.database import Database

log = logging.getLogger(__name__)

# The name in a function's settings for the ARN of its configuration.
CODE_SIGNING = "CodeSigningConfigArn"
_DEFAULT_POLICIES = {"UntrustedArtifactOnDeployment": "Warn"}


class CodeSigning:
    """Stores all code signing configurations, by ARN, in the state database. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("lambda_code_signing")
        self._tags = database.documents("lambda_code_signing_tags")

    def create(
        self, account: str, region: str, request: Mapping[str, Any], *, ids: Ids, now_ms: int
    ) -> dict[str, Any]:
        """Store a configuration and return it as AWS's CodeSigningConfig."""
        name = f"csc-{ids.hex(17)}"
        arn = make_arn("lambda", region, account, f"code-signing-config:{name}")
        config = {
            "CodeSigningConfigId": name,
            "CodeSigningConfigArn": arn,
            "Description": request.get("Description", ""),
            "AllowedPublishers": request["AllowedPublishers"],
            "CodeSigningPolicies": request.get("CodeSigningPolicies") or _DEFAULT_POLICIES,
            "LastModified": format_lambda_time(now_ms),
        }
        self.put(config, request.get("Tags") or {})
        return config

    def find(self, arn: str) -> dict[str, Any] | None:
        """Return a configuration, or None."""
        return self._documents.get(arn)

    def get(self, arn: str) -> dict[str, Any]:
        """Return a configuration. Raises AwsError."""
        config = self.find(arn)
        if config is None:
            raise AwsError(
                "ResourceNotFoundException",
                f"The Lambda code signing configuration {arn} can not be found.",
                404,
            )
        return config

    def find_attached(self, arn: str) -> dict[str, Any]:
        """Return the configuration for a function; a missing one has another error than in `get`. Raises AwsError."""
        config = self.find(arn)
        if config is None:
            raise AwsError(
                "CodeSigningConfigNotFoundException",
                "The code signing configuration cannot be found. Check that the provided configuration is not "
                f"deleted: {arn}.",
                404,
                {"Type": "User"},
            )
        return config

    def put(self, config: dict[str, Any], tags: Mapping[str, str] | None = None) -> None:
        """Store a changed configuration, with new tags if they are given."""
        arn = str(config["CodeSigningConfigArn"])
        self._documents.put(arn, config)
        if tags is not None:
            self._tags.put(arn, dict(tags))

    def tags(self, arn: str) -> dict[str, str]:
        """Return the tags of a configuration."""
        return dict(self._tags.get(arn) or {})

    def delete(self, arn: str) -> None:
        """Remove a configuration."""
        self._documents.delete(arn)
        self._tags.delete(arn)

    def all(self, account: str, region: str) -> list[dict[str, Any]]:
        """Return the configurations of an account and region, sorted by ARN."""
        prefix = make_arn("lambda", region, account, "code-signing-config:")
        return [config for _, config in self._documents.items(prefix)]

    def check_code(self, arn: str | None) -> None:
        """Refuse the code of a function whose configuration enforces signatures. Raises AwsError.

        Source of the message: the API reference's description of CodeVerificationFailedException (documented).
        """
        if arn is None:
            return
        policies = self.find_attached(arn)["CodeSigningPolicies"]
        if policies.get("UntrustedArtifactOnDeployment") == "Enforce":
            raise AwsError(
                "CodeVerificationFailedException",
                "The code signature failed one or more of the validation checks for signature mismatch or expiry, "
                "and the code signing policy is set to ENFORCE. Lambda blocks the deployment.",
                400,
                {"Type": "User"},
            )
        log.warning(
            "unsigned code is deployed: the code signing configuration %s only warns about it", arn
        )
