"""See `kinesis.pyi`: at run time every shape is a plain dictionary."""

from headrace.aws.shapes import find_dictionary as __getattr__

__all__ = ["__getattr__"]
