"""AppConfig: environments. Nothing is deployed to them: StartDeployment is refused by name, as moto lacks it."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
from typing import Any


def add_environments(urls: Any) -> None:
    """Add the calls for environments; an application's are deleted with it."""
    from moto.appconfig.responses import AppConfigResponse
    from moto.core.exceptions import JsonRESTError
    from moto.moto_api._internal import mock_random

    response: Any = AppConfigResponse

    def environments(self: Any) -> dict[str, dict[str, Any]]:
        application = self.appconfig_backend.get_application(self._get_param("ApplicationId"))
        # State that was stored before has none.
        return vars(application).setdefault("environments", {})

    def find(self: Any) -> dict[str, Any]:
        id_ = self._get_param("EnvironmentId")
        for environment in environments(self).values():
            if environment["Id"] == id_:
                return environment
        raise JsonRESTError("ResourceNotFoundException", f"Environment {id_} could not be found")

    def assign(self: Any, environment: dict[str, Any]) -> str:
        for name in ("Name", "Description", "Monitors"):
            if self._get_param(name) is not None:
                environment[name] = self._get_param(name)
        return json.dumps(environment)

    def create_environment(self: Any) -> str:
        application = self.appconfig_backend.get_application(self._get_param("ApplicationId"))
        environment = {
            "ApplicationId": application.id,
            "Id": mock_random.get_random_hex(7),
            "State": "READY_FOR_DEPLOYMENT",
        }
        answer = assign(self, environment)
        environments(self)[environment["Id"]] = environment
        arn = f"{application.arn}/environment/{environment['Id']}"
        self.appconfig_backend.tag_resource(arn, self._get_param("Tags") or {})
        return answer

    def get_environment(self: Any) -> str:
        return json.dumps(find(self))

    def list_environments(self: Any) -> str:
        return json.dumps({"Items": [*environments(self).values()]})

    def update_environment(self: Any) -> str:
        return assign(self, find(self))

    def delete_environment(self: Any) -> str:
        del environments(self)[find(self)["Id"]]
        return "{}"

    for call in (
        create_environment, get_environment, list_environments, update_environment, delete_environment,
    ):  # fmt: skip
        setattr(response, call.__name__, call)
    path = "{0}/applications/(?P<app_id>[^/]+)/environments"
    urls.url_paths[f"{path}$"] = response.dispatch
    urls.url_paths[f"{path}/(?P<environment_id>[^/]+)$"] = response.dispatch
