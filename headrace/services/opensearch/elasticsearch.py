"""Elasticsearch's domains can be updated."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
from typing import Any

from headrace.moto.updating import assign

# The defaults of a new domain.
_ES: dict[str, dict[str, Any]] = {
    "CognitoOptions": {"Enabled": False},
    "EBSOptions": {"EBSEnabled": False},
    "EncryptionAtRestOptions": {"Enabled": False},
    "NodeToNodeEncryptionOptions": {"Enabled": False},
    "SnapshotOptions": {"AutomatedSnapshotStartHour": 0},
}


def allow_updates(urls: Any) -> None:
    """Allow updates of Elasticsearch's domains; at that path, moto has only the description."""
    response: Any = urls.OpenSearchServiceResponse
    describe = response.describe_es_domain_config

    def config(request: Any, full_url: str, headers: Any) -> Any:
        if request.method != "POST":
            return describe(request, full_url, headers)
        self = response()
        self.setup_class(request)
        name = request.url.partition("?")[0].split("/")[-2]
        backend = self.opensearch_backend
        # Raises moto's error for a missing domain.
        backend.describe_domain(name)
        domain = backend.domains[name]
        parameters = json.loads(self.body)
        assign(domain, {**parameters, **{n: v for n, v in _ES.items() if parameters.get(n) == {}}})
        return 200, {}, json.dumps({"DomainConfig": domain.to_config_dict()})

    urls.url_paths["{0}/2015-01-01/es/domain/(?P<domainname>[^/]+)/config"] = config
