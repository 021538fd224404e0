"""The services that headrace owns, one package each. None imports another; see headrace.core.ports."""
