"""Finds which service a request is for: by its signature's scope, its target, its path, or its form's Version."""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest, Scope
from headrace.aws.protocols.service import Profile
from headrace.aws.signatures.credential_scopes import scope_of


class ServiceNames:
    """Finds the service of a request by the services' profiles."""

    def __init__(self) -> None:
        self._of_scope: dict[str, str] = {}
        self._of_target: dict[str, str] = {}
        self._of_path: dict[str, str] = {}
        self._paths: tuple[str, ...] = ()
        self._of_version: dict[bytes, str] = {}
        self._rest = ""

    def add(self, name: str, profile: Profile) -> None:
        """Note how requests name a service."""
        self._of_scope.update(dict.fromkeys(profile.signing_scopes, name))
        if profile.target_prefix:
            self._of_target[profile.target_prefix] = name
        self._of_path.update(dict.fromkeys(profile.paths, name))
        self._paths = tuple(self._of_path)
        if profile.query_version:
            self._of_version[f"Version={profile.query_version}".encode()] = name
        if profile.takes_the_rest:
            self._rest = name

    def service_of(self, request: HttpRequest) -> str:
        """Return botocore's name of a request's service, computed once; empty when it is unknown."""
        if not request.service:
            known = self.of_head(request, scope_of(request))
            request.service = known or self.of_body(request.body)
        return request.service

    def of_head(self, request: HttpRequest, scope: Scope) -> str | None:
        """Return botocore's name of a request's service by its head; None when only the body can tell."""
        if scope.service:
            return self._of_scope.get(scope.service, scope.service)
        target = request.headers.get("x-amz-target", "")
        if target:
            prefix = target.partition(".")[0]
            return self._of_target.get(prefix, prefix.partition("_")[0].lower())
        if request.path.startswith(self._paths):
            return next(n for path, n in self._of_path.items() if request.path.startswith(path))
        if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            return None
        return self._rest

    def of_body(self, body: bytes) -> str:
        """Return the service of a form by the form's Version."""
        return next((n for version, n in self._of_version.items() if version in body), self._rest)
