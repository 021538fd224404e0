"""OpenSearch domains show an endpoint that answers: the index in the data directory, or the user's own server."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

from headrace.fallback.current import CURRENT


def patch(module: Any) -> None:
    """Replace the endpoints that moto makes up, and drop a domain's indexes with it."""
    domain: Any = module.OpenSearchDomain
    options_of, delete = domain.dct_options, domain.delete

    def dct_options(self: Any) -> dict[str, Any]:
        options = options_of(self)
        if CURRENT.search is not None:
            shown = CURRENT.search.endpoint_of(*_names_of(self))
            # Computed anew, since the cloud's port may be another after a restart.
            if options.get("Endpoint"):
                options["Endpoint"] = shown
            if options.get("Endpoints"):
                options["Endpoints"] = dict.fromkeys(options["Endpoints"], shown)
        return options

    def delete_and_forget(self: Any) -> None:
        delete(self)
        if CURRENT.search is not None:
            CURRENT.search.forget(*_names_of(self))

    domain.dct_options = dct_options
    domain.delete = delete_and_forget


def _names_of(domain: Any) -> tuple[str, str, str]:
    """Return a domain's account, region and name."""
    _, _, _, region, account, name = domain.arn.split(":", 5)
    return account, region, name.removeprefix("domain/")
