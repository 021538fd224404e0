"""Service Catalog AppRegistry: updates, deletions, and no second application of one name."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from typing import Any


def add_missing_calls(urls: Any) -> None:
    """Allow updates and deletions of applications, and refuse a second one with the same name."""
    from moto.core.exceptions import JsonRESTError
    from moto.servicecatalogappregistry.models import AppRegistryBackend
    from moto.servicecatalogappregistry.responses import AppRegistryResponse

    response: Any = AppRegistryResponse
    backend: Any = AppRegistryBackend
    create = backend.create_application

    def find(self: Any) -> Any:
        name = self.path.rsplit("/", 1)[-1]
        for each in self.servicecatalogappregistry_backend.applications.values():
            if name in (each.id, each.name, each.arn):
                return each
        raise JsonRESTError("ResourceNotFoundException", f"Application {name} not found")

    @functools.wraps(create)
    def create_application(self: Any, name: str, *args: Any, **named: Any) -> Any:
        if any(each.name == name for each in self.applications.values()):
            raise JsonRESTError("ConflictException", f"Application {name} already exists")
        return create(self, name, *args, **named)

    def update_application(self: Any) -> str:
        application = find(self)
        application.description = self._get_param("description")
        return json.dumps({"application": application.to_json()})

    def delete_application(self: Any) -> str:
        application = find(self)
        del self.servicecatalogappregistry_backend.applications[application.arn]
        return json.dumps({"application": application.to_json()})

    backend.create_application = create_application
    response.update_application = update_application
    response.delete_application = delete_application
    urls.url_paths["{0}/applications/(?P<application>[^/]+)$"] = response.dispatch
