"""headrace: AWS streaming, whole, on a laptop and in an account.

The package is the local cloud; docs/architecture.md lists its packages and which may import which.
"""

__version__ = "0.1.0"
