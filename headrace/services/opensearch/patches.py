"""Gives OpenSearch domains an endpoint that answers: an index in the data directory, or the user's own server.

Elasticsearch's domains can be updated.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.patching import assign

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


def patch(module: Any) -> None:
    """Replace moto's invented endpoints, merge updates, and drop a domain's indexes when it is deleted."""
    domain: Any = module.OpenSearchDomain
    options_of, delete = domain.dct_options, domain.delete
    update = module.OpenSearchServiceBackend.update_domain_config

    def dct_options(self: Any) -> dict[str, Any]:
        options = options_of(self)
        if CURRENT.search is not None:
            shown = CURRENT.search.endpoint_of(*_names_of(self))
            # Computed at each read, since the cloud's port may change at a restart.
            if options.get("Endpoint"):
                options["Endpoint"] = shown
            if options.get("Endpoints"):
                options["Endpoints"] = dict.fromkeys(options["Endpoints"], shown)
        return options

    def delete_and_forget(self: Any) -> None:
        delete(self)
        if CURRENT.search is not None:
            CURRENT.search.forget(*_names_of(self))

    @functools.wraps(update)
    def update_and_keep(self: Any, domain_name: str, *args: Any, **named: Any) -> Any:
        # An update contains only the changed members of the cluster; moto drops the others.
        before = dict(self.domains[domain_name].cluster_config)
        changed = update(self, domain_name, *args, **named)
        changed.cluster_config = {**before, **changed.cluster_config}
        return changed

    module.OpenSearchServiceBackend.update_domain_config = update_and_keep
    domain.dct_options = dct_options
    domain.delete = delete_and_forget


def _names_of(domain: Any) -> tuple[str, str, str]:
    """Return a domain's account, region and name."""
    _, _, _, region, account, name = domain.arn.split(":", 5)
    return account, region, name.removeprefix("domain/")
