"""The host names of AWS's services. This cloud plays AWS, so it never sends a request to the real one."""

from __future__ import annotations

# Documented: the ends of the host names of all partitions (`headrace.core.arn.url_suffix_of`), and the newer `on.aws`.
_SUFFIXES = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "api.aws",
    "on.aws",
    "c2s.ic.gov",
    "sc2s.sgov.gov",
    "csp.hci.ic.gov",
    "cloud.adc-e.uk",
)


def is_aws_host(host: str) -> bool:
    """Whether a host name, without a port, is one of AWS's services."""
    name = host.lower().rstrip(".")
    return any(name == suffix or name.endswith(f".{suffix}") for suffix in _SUFFIXES)


def api_of_host(host: str) -> str:
    """Return the id of the API in a name such as `ID.execute-api.REGION.amazonaws.com`; empty for any other name."""
    labels = host.lower().rstrip(".").split(".")
    return labels[0] if is_aws_host(host) and labels[1:2] == ["execute-api"] else ""
