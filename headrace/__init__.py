"""headrace: AWS streaming, whole, on a laptop and in an account.

The package is the local cloud; see DECISIONS.md and README.md for the rooms and who may import whom.
"""

__version__ = "0.1.0"
