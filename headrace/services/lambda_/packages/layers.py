"""Stores layer versions (packages that functions share) in the state database."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.services.lambda_.names import build_layer_arn, format_lambda_time
from headrace.services.lambda_.packages.code import Package
from headrace.services.lambda_.packages.public_layers import PublicLayers, refuse_foreign
from headrace.services.lambda_.state import LayerDescription, LayerVersion
from headrace.store.database import Database


class LayerStore:
    """Stores all layer versions, as AWS's LayerVersionsListItem plus the package's digest. Thread-safe."""

    def __init__(self, database: Database, public: PublicLayers) -> None:
        self._documents = database.documents("lambda_layers")
        self._counters = database.documents("lambda_layer_counters")
        self._database = database
        self._public = public
        self._lock = threading.Lock()

    def publish(
        self,
        *,
        account: str,
        region: str,
        name: str,
        package: Package,
        now_ms: int,
        members: LayerDescription,
    ) -> LayerVersion:
        """Store a new version and return it. A version number is never used twice."""
        arn = build_layer_arn(region, account, name)
        with self._lock, self._database.transaction():
            number = int(self._counters.get(arn) or 0) + 1
            self._counters.put(arn, number)
            version: LayerVersion = {
                "LayerArn": arn,
                "LayerVersionArn": f"{arn}:{number}",
                "Version": number,
                "CreatedDate": format_lambda_time(now_ms),
                "digest": package.digest,
                "size_bytes": package.size_bytes,
                **members,
            }
            self._documents.put(f"{arn}:{number:010d}", version)
        return version

    def find(self, arn: str) -> LayerVersion | None:
        """Return a version by its ARN, or None."""
        layer, _, number = arn.rpartition(":")
        if not number.isdigit():
            return None
        return self._documents.get(f"{layer}:{int(number):010d}")

    def resolve(self, arn: str, account: str) -> LayerVersion | None:
        """Return the version that a user of this account gets: the stored one, or what stands in for it.

        A folder that `headrace up --layer` names comes first. Raises AwsError for another account's layer that
        headrace does not have.
        """
        package = self._public.find_folder(arn)
        if package is None:
            version = self.find(arn)
            if version is not None or arn.split(":")[4] == account:
                return version
            package = self._public.find_powertools(arn)
        if package is None:
            raise refuse_foreign(arn)
        layer, _, number = arn.rpartition(":")
        return {
            "LayerArn": layer,
            "LayerVersionArn": arn,
            "Version": int(number),
            "CreatedDate": format_lambda_time(0),
            "Description": "",
            "digest": package.digest,
            "size_bytes": package.size_bytes,
            "policy": {"public": {"Principal": "*"}},
        }

    def change(self, arn: str, change: Callable[[LayerVersion], None]) -> LayerVersion | None:
        """Apply `change` to a version, store and return the result, or return None if the version is missing.

        Only one change runs at a time.
        """
        with self._lock:
            version = self.find(arn)
            if version is None:
                return None
            change(version)
            self._documents.put(f"{version['LayerArn']}:{version['Version']:010d}", version)
            return version

    def delete(self, arn: str) -> None:
        """Remove a version. As on AWS, functions that use the version keep it."""
        version = self.find(arn)
        if version is not None:
            self._documents.delete(f"{version['LayerArn']}:{version['Version']:010d}")

    def versions(self, arn: str) -> list[LayerVersion]:
        """Return a layer's versions, newest first."""
        return [value for _, value in reversed(self._documents.items(f"{arn}:"))]

    def latest(
        self, account: str, region: str, suits: Callable[[LayerVersion], bool]
    ) -> list[LayerVersion]:
        """Return for each layer the newest version that suits, sorted by name."""
        newest = {
            value["LayerArn"]: value
            for _, value in self._documents.items(build_layer_arn(region, account, ""))
            if suits(value)
        }
        return [newest[arn] for arn in sorted(newest)]

    def size_bytes(self, account: str, region: str) -> int:
        """Return the total size of the packages of all layer versions of an account and region."""
        documents = self._documents.items(build_layer_arn(region, account, ""))
        return sum(value["size_bytes"] for _, value in documents)

    def digests(self) -> set[str]:
        """Return the digests of the packages that layer versions use."""
        return {value["digest"] for _, value in self._documents.items()}
