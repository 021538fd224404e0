"""AppConfig: environments, deployment strategies, deployments by the cloud's clock, and what AppConfig Data answers.

Source: docs.aws.amazon.com/appconfig/2019-10-09/APIReference and the user guide's pages on strategies and feature
flags (documented). Assumed: the sentences of refusals; that a target gets the new configuration when a deployment has
reached its last percentage, not by its share of the hosts. Alarms of an environment roll nothing back.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import base64
import hmac
import json
import secrets
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headrace.core.arn import make_arn
from headrace.core.values import iso_seconds_of
from headrace.moto.current_cloud import CURRENT

_MINUTE_MS = 60_000
# Documented: a token is valid for up to 24 hours.
_TOKEN_LASTS_MS = 24 * 60 * _MINUTE_MS
_SEAL_BYTES = 16
_UNFINISHED = ("DEPLOYING", "BAKING")
_FLAGS = "AWS.AppConfig.FeatureFlags"
_STRATEGIES: dict[str, dict[str, Any]] = {
    f"AppConfig.{name}": {
        "Id": f"AppConfig.{name}",
        "Name": f"AppConfig.{name}",
        "Description": description,
        "DeploymentDurationInMinutes": minutes,
        "GrowthType": growth,
        "GrowthFactor": factor,
        "FinalBakeTimeInMinutes": bake,
        "ReplicateTo": "NONE",
    }
    for name, description, minutes, growth, factor, bake in (
        ("AllAtOnce", "Quick", 0, "LINEAR", 100.0, 10),
        ("Linear50PercentEvery30Seconds", "Test/Demo", 1, "LINEAR", 50.0, 1),
        ("Canary10Percent20Minutes", "AWS Recommended", 20, "EXPONENTIAL", 10.0, 10),
        ("Linear20PercentEvery6Minutes", "AWS Recommended", 30, "LINEAR", 20.0, 30),
    )
}
_OF_STRATEGY = (
    "Name", "Description", "DeploymentDurationInMinutes", "GrowthType", "GrowthFactor", "FinalBakeTimeInMinutes",
    "ReplicateTo",
)  # fmt: skip

# Documented in the API's reference; also the steps of a growth without bounds would have no end.
_BOUNDS = (
    ("DeploymentDurationInMinutes", 0, 1440),
    ("FinalBakeTimeInMinutes", 0, 1440),
    ("GrowthFactor", 1, 100),
)


def add_calls(urls: Any) -> None:
    """Add what moto lacks; an application's environments and their deployments are deleted with it."""
    from moto.appconfig.responses import AppConfigResponse

    for call in (
        create_environment, get_environment, list_environments, update_environment, delete_environment,
        create_deployment_strategy, get_deployment_strategy, list_deployment_strategies,
        update_deployment_strategy, delete_deployment_strategy,
        start_deployment, get_deployment, list_deployments, stop_deployment,
    ):  # fmt: skip
        setattr(AppConfigResponse, call.__name__, call)
    environments = "{0}/applications/(?P<app_id>[^/]+)/environments"
    environment = f"{environments}/(?P<environment_id>[^/]+)"
    strategy = "(?P<strategy_id>[^/]+)$"
    for path in (
        f"{environments}$",
        f"{environment}$",
        f"{environment}/deployments$",
        f"{environment}/deployments/(?P<number>[^/]+)$",
        "{0}/deploymentstrategies$",
        f"{{0}}/deploymentstrategies/{strategy}",
        # AWS's own path of DeleteDeploymentStrategy.
        f"{{0}}/deployementstrategies/{strategy}",
    ):
        urls.url_paths[path] = AppConfigResponse.dispatch
    urls.url_paths["{0}/configurationsessions$"] = _start_session
    urls.url_paths["{0}/configuration$"] = _answer_latest


def _refuse(code: str, sentence: str) -> Exception:
    from moto.core.exceptions import JsonRESTError

    error = JsonRESTError(code, sentence)
    error.code = {"ResourceNotFoundException": 404, "ConflictException": 409}.get(code, 400)
    return error


def _environments_of(application: Any) -> dict[str, dict[str, Any]]:
    # State that was stored before has none.
    return vars(application).setdefault("environments", {})


def _environments(self: Any) -> dict[str, dict[str, Any]]:
    application = self.appconfig_backend.get_application(self._get_param("ApplicationId"))
    return _environments_of(application)


def _find_environment(self: Any) -> dict[str, Any]:
    id_ = self._get_param("EnvironmentId")
    for environment in _environments(self).values():
        if environment["Id"] == id_:
            return environment
    raise _refuse("ResourceNotFoundException", f"Environment {id_} could not be found")


def _assign(self: Any, environment: dict[str, Any]) -> str:
    for name in ("Name", "Description", "Monitors"):
        if self._get_param(name) is not None:
            environment[name] = self._get_param(name)
        if not environment.get(name):
            environment.pop(name, None)
    return _show_environment(environment)


def _show_environment(environment: dict[str, Any]) -> str:
    _settle(environment)
    shown = {name: value for name, value in environment.items() if name != "deployments"}
    return json.dumps(shown)


def create_environment(self: Any) -> str:
    """CreateEnvironment."""
    from moto.moto_api._internal import mock_random

    application = self.appconfig_backend.get_application(self._get_param("ApplicationId"))
    environment = {
        "ApplicationId": application.id,
        "Id": mock_random.get_random_hex(7),
        "State": "READY_FOR_DEPLOYMENT",
    }
    answer = _assign(self, environment)
    _environments(self)[environment["Id"]] = environment
    arn = f"{application.arn}/environment/{environment['Id']}"
    self.appconfig_backend.tag_resource(arn, self._get_param("Tags") or {})
    return answer


def get_environment(self: Any) -> str:
    """GetEnvironment."""
    return _show_environment(_find_environment(self))


def list_environments(self: Any) -> str:
    """ListEnvironments."""
    environments = _environments(self).values()
    return json.dumps({"Items": [json.loads(_show_environment(each)) for each in environments]})


def update_environment(self: Any) -> str:
    """UpdateEnvironment."""
    return _assign(self, _find_environment(self))


def delete_environment(self: Any) -> str:
    """DeleteEnvironment."""
    del _environments(self)[_find_environment(self)["Id"]]
    return "{}"


def _own_strategies(self: Any) -> dict[str, dict[str, Any]]:
    return vars(self.appconfig_backend).setdefault("deployment_strategies", {})


def _find_strategy(self: Any) -> dict[str, Any]:
    id_ = self._get_param("DeploymentStrategyId")
    strategy = _own_strategies(self).get(id_) or _STRATEGIES.get(id_)
    if strategy is None:
        raise _refuse("ResourceNotFoundException", f"Deployment strategy {id_} could not be found")
    return strategy


def _change_strategy(self: Any, strategy: dict[str, Any]) -> str:
    for name, least, most in _BOUNDS:
        number = self._get_param(name)
        if number is not None and not (isinstance(number, int | float) and least <= number <= most):
            raise _refuse("BadRequestException", f"{name} must be between {least} and {most}.")
    for name in _OF_STRATEGY:
        if self._get_param(name) is not None:
            strategy[name] = self._get_param(name)
        if strategy.get(name) == "":
            del strategy[name]
    return json.dumps(strategy)


def create_deployment_strategy(self: Any) -> str:
    """CreateDeploymentStrategy."""
    from moto.moto_api._internal import mock_random

    backend = self.appconfig_backend
    strategy: dict[str, Any] = {
        "Id": mock_random.get_random_hex(7),
        "GrowthType": "LINEAR",
        "FinalBakeTimeInMinutes": 0,
        "ReplicateTo": "NONE",
    }
    answer = _change_strategy(self, strategy)
    _own_strategies(self)[strategy["Id"]] = strategy
    scope = backend.region_name, backend.account_id
    arn = make_arn("appconfig", *scope, f"deploymentstrategy/{strategy['Id']}")
    backend.tag_resource(arn, self._get_param("Tags") or {})
    return answer


def get_deployment_strategy(self: Any) -> str:
    """GetDeploymentStrategy."""
    return json.dumps(_find_strategy(self))


def list_deployment_strategies(self: Any) -> str:
    """ListDeploymentStrategies: AWS's own and the account's."""
    return json.dumps({"Items": [*_STRATEGIES.values(), *_own_strategies(self).values()]})


def update_deployment_strategy(self: Any) -> str:
    """UpdateDeploymentStrategy."""
    return _change_strategy(self, _own_strategy(self))


def delete_deployment_strategy(self: Any) -> str:
    """DeleteDeploymentStrategy."""
    del _own_strategies(self)[_own_strategy(self)["Id"]]
    return "{}"


def _own_strategy(self: Any) -> dict[str, Any]:
    strategy = _find_strategy(self)
    if strategy["Id"] in _STRATEGIES:
        raise _refuse("BadRequestException", "Predefined deployment strategies cannot be changed.")
    return strategy


def start_deployment(self: Any) -> str:
    """StartDeployment."""
    environment, strategy = _find_environment(self), _find_strategy(self)
    _settle(environment)
    if environment["State"] in _UNFINISHED:
        raise _refuse(
            "ConflictException",
            f"Deployment is already in progress for environment {environment['Id']}.",
        )
    backend = self.appconfig_backend
    application, profile_id = (
        environment["ApplicationId"],
        self._get_param("ConfigurationProfileId"),
    )
    profile = backend.get_configuration_profile(application, profile_id)
    if profile.location_uri != "hosted":
        raise _refuse(
            "BadRequestException",
            f"headrace deploys hosted configurations only, and {profile.location_uri} is none.",
        )
    version = _find_version(profile, str(self._get_param("ConfigurationVersion")))
    deployments = environment.setdefault("deployments", [])
    deployment = {
        "ApplicationId": application,
        "EnvironmentId": environment["Id"],
        "DeploymentStrategyId": strategy["Id"],
        "ConfigurationProfileId": profile_id,
        "DeploymentNumber": len(deployments) + 1,
        "ConfigurationName": profile.name,
        "ConfigurationLocationUri": profile.location_uri,
        "ConfigurationVersion": str(version.version),
        **{
            name: strategy[name]
            for name in ("DeploymentDurationInMinutes", "GrowthType", "GrowthFactor", "FinalBakeTimeInMinutes")
        },
        "StartedAt": CURRENT.clock.now_ms(),
        "stopped": None,
    }  # fmt: skip
    if self._get_param("Description"):
        deployment["Description"] = self._get_param("Description")
    deployments.append(deployment)
    _settle(environment)
    arn = f"{backend.get_application(application).arn}/environment/{environment['Id']}/deployment/{len(deployments)}"
    backend.tag_resource(arn, self._get_param("Tags") or {})
    return json.dumps(_show_deployment(deployment))


def get_deployment(self: Any) -> str:
    """GetDeployment."""
    return json.dumps(_show_deployment(_find_deployment(self)))


def list_deployments(self: Any) -> str:
    """ListDeployments, the newest first."""
    summary = (
        "DeploymentNumber", "ConfigurationName", "ConfigurationVersion", "DeploymentDurationInMinutes", "GrowthType",
        "GrowthFactor", "FinalBakeTimeInMinutes", "State", "PercentageComplete", "StartedAt", "CompletedAt",
    )  # fmt: skip
    shown = [_show_deployment(each) for each in _find_environment(self).get("deployments", [])]
    items = [{name: each[name] for name in summary if name in each} for each in reversed(shown)]
    return json.dumps({"Items": items})


def stop_deployment(self: Any) -> str:
    """StopDeployment: the previous configuration stays."""
    environment, deployment = _find_environment(self), _find_deployment(self)
    if _progress(deployment)[0] not in _UNFINISHED:
        raise _refuse("BadRequestException", "The deployment is not in progress.")
    deployment["stopped"] = CURRENT.clock.now_ms()
    _settle(environment)
    return json.dumps(_show_deployment(deployment))


def _find_deployment(self: Any) -> dict[str, Any]:
    number = str(self._get_param("DeploymentNumber"))
    for deployment in _find_environment(self).get("deployments", []):
        if str(deployment["DeploymentNumber"]) == number:
            return deployment
    raise _refuse("ResourceNotFoundException", f"Deployment {number} could not be found")


def _find_version(profile: Any, name: str) -> Any:
    """Return a hosted version by its number or its label."""
    for version in profile.config_versions.values():
        if name in (str(version.version), version.version_label):
            return version
    raise _refuse("ResourceNotFoundException", f"Configuration version {name} could not be found")


def _progress(deployment: dict[str, Any]) -> tuple[str, float, int | None]:
    """Return a deployment's state, its percentage, and when it ended in milliseconds."""
    if deployment["stopped"] is not None:
        return "ROLLED_BACK", 0.0, deployment["stopped"]
    passed_ms = CURRENT.clock.now_ms() - deployment["StartedAt"]
    duration_ms = deployment["DeploymentDurationInMinutes"] * _MINUTE_MS
    bake_ms = deployment["FinalBakeTimeInMinutes"] * _MINUTE_MS
    if passed_ms >= duration_ms + bake_ms:
        return "COMPLETE", 100.0, deployment["StartedAt"] + duration_ms + bake_ms
    if passed_ms >= duration_ms:
        return "BAKING", 100.0, None
    share, factor = passed_ms / duration_ms, float(deployment["GrowthFactor"])
    if deployment["GrowthType"] == "LINEAR":
        return "DEPLOYING", min(100.0, factor * int(share * 100 / factor)), None
    # AWS's formula: G * 2^N percent at step N, until it is over.
    steps = 0
    while factor * 2**steps < 100:
        steps += 1
    return "DEPLOYING", min(100.0, factor * 2 ** int(share * steps)), None


def _settle(environment: dict[str, Any]) -> None:
    """Bring an environment's state to that of its last deployment."""
    deployments = environment.get("deployments")
    state = _progress(deployments[-1])[0] if deployments else "COMPLETE"
    environment["State"] = {"COMPLETE": "READY_FOR_DEPLOYMENT"}.get(state, state)


def _show_deployment(deployment: dict[str, Any]) -> dict[str, Any]:
    state, percentage, ended_ms = _progress(deployment)
    shown = {name: value for name, value in deployment.items() if name != "stopped"}
    shown |= {
        "StartedAt": iso_seconds_of(deployment["StartedAt"]),
        "State": state,
        "PercentageComplete": percentage,
    }
    if ended_ms is not None:
        shown["CompletedAt"] = iso_seconds_of(ended_ms)
    return shown


def _start_session(request: Any, _url: str, _headers: Any) -> Any:
    """Answer StartConfigurationSession: the token says what is asked for."""
    try:
        asked = json.loads(request.get_data() or b"{}")
        names = [
            str(asked.get(f"{name}Identifier") or "")
            for name in ("Application", "Environment", "ConfigurationProfile")
        ]
        poll_s = int(asked.get("RequiredMinimumPollIntervalInSeconds") or 60)
    except (AttributeError, TypeError, ValueError, RecursionError):
        return _error_answer("BadRequestException", "The request cannot be read.", 400)
    backend = _backend_of(request)
    try:
        _find_target(backend, *names)
    except LookupError as error:
        return _error_answer("ResourceNotFoundException", str(error.args[0]), 404)
    token = _token(backend, [*names, poll_s, 0])
    return 201, {"Content-Type": "application/json"}, json.dumps({"InitialConfigurationToken": token})  # fmt: skip


def _answer_latest(request: Any, url: str, _headers: Any) -> Any:
    """Answer GetLatestConfiguration: nothing when the client has the newest one already."""
    backend = _backend_of(request)
    token = parse_qs(urlsplit(url).query).get("configuration_token", [""])[0]
    parts = _read_token(backend, token)
    if parts is None:
        return _error_answer("BadRequestException", "Configuration token is invalid.", 400)
    *names, poll_s, seen = parts
    try:
        environment, profile = _find_target(backend, *names)
    except LookupError as error:
        return _error_answer("ResourceNotFoundException", str(error.args[0]), 404)
    deployed = next(
        (
            deployment
            for deployment in reversed(environment.get("deployments", []))
            if deployment["ConfigurationProfileId"] == profile.id
            and _progress(deployment)[0] in ("BAKING", "COMPLETE")
        ),
        None,
    )
    if deployed is None:
        sentence = "There is no deployed configuration for this profile and environment."
        return _error_answer("ResourceNotFoundException", sentence, 404)
    number = deployed["DeploymentNumber"]
    version = _find_version(profile, deployed["ConfigurationVersion"])
    headers = {
        "Content-Type": str(version.content_type),
        "Next-Poll-Configuration-Token": _token(backend, [*names, poll_s, number]),
        "Next-Poll-Interval-In-Seconds": str(poll_s),
        "Version-Label": str(version.version_label or ""),
    }
    return 200, headers, b"" if number == seen else _content_of(profile, version)


def _content_of(profile: Any, version: Any) -> bytes:
    content = version.content if isinstance(version.content, bytes) else str(version.content).encode()  # fmt: skip
    if profile._type != _FLAGS:
        return content
    # Of flags, clients get the values; of one that is off, only that it is.
    values: dict[str, dict[str, Any]] = json.loads(content).get("values", {})
    shown = {
        name: {key: each for key, each in value.items() if key[0] != "_"}
        if value.get("enabled")
        else {"enabled": False}
        for name, value in values.items()
    }
    return json.dumps(shown).encode()


def _backend_of(request: Any) -> Any:
    from moto.appconfig.responses import AppConfigResponse

    response: Any = AppConfigResponse()
    response.setup_class(request, request.url, request.headers)
    return response.appconfig_backend


def _find_target(
    backend: Any, application: str, environment: str, profile: str
) -> tuple[dict[str, Any], Any]:
    """Return the environment and the profile, each by its id or its name. Raises LookupError with a sentence."""
    owner = _pick(application, [(one.id, one.name, one) for one in backend.applications.values()])
    if owner is None:
        raise LookupError("Application could not be found")
    environments = _environments_of(owner).values()
    target = _pick(environment, [(one["Id"], one["Name"], one) for one in environments])
    if target is None:
        raise LookupError("Environment could not be found")
    chosen = _pick(profile, [(one.id, one.name, one) for one in owner.config_profiles.values()])
    if chosen is None:
        raise LookupError("ConfigurationProfile could not be found")
    return target, chosen


def _pick(name: str, among: list[tuple[str, str, Any]]) -> Any:
    return next((one for id_, label, one in among if name in (id_, label)), None)


def _token(backend: Any, parts: list[Any]) -> str:
    """Return a token that only this backend makes: reading by it asks for no permission to the configuration."""
    plain = json.dumps([*parts, CURRENT.clock.now_ms()]).encode()
    return base64.urlsafe_b64encode(_seal(backend, plain) + plain).decode()


def _read_token(backend: Any, token: str) -> list[Any] | None:
    """Return the parts of a token; None for one that is forged, changed or too old."""
    try:
        data = base64.urlsafe_b64decode(token.encode("ascii"))
    except ValueError:
        return None
    seal, plain = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(backend, plain)):
        return None
    *parts, issued_ms = json.loads(plain)
    return parts if CURRENT.clock.now_ms() < issued_ms + _TOKEN_LASTS_MS else None


def _seal(backend: Any, plain: bytes) -> bytes:
    if getattr(backend, "token_key", None) is None:
        backend.token_key = secrets.token_hex(_SEAL_BYTES)
    return hmac.digest(backend.token_key.encode(), plain, "sha256")[:_SEAL_BYTES]


def _error_answer(code: str, sentence: str, status: int) -> Any:
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": code}
    return status, headers, json.dumps({"Message": sentence})
