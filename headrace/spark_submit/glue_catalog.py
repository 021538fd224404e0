"""Refuses jobs that would use the Glue Data Catalog as Spark's catalog, which headrace's Spark does not have.

A cluster's `spark-hive-site`, or a job's property, names Amazon's factory of Hive metastore clients. Spark here would
ignore it in silence: tables would not be found, and new ones would be lost. A job that uses no tables runs as on EMR.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from headrace.spark_submit.arguments import Submission, job_sources
from headrace.spark_submit.errors import JobRefused

_SETTING = "hive.metastore.client.factory.class"
_FACTORY = "AWSGlueDataCatalogHiveClientFactory"
# The names of PySpark that reach the session's catalog.
_NAMES = frozenset({
    "catalog", "enableHiveSupport", "insertInto", "saveAsTable", "sql", "table", "toTable", "writeTo",
})  # fmt: skip

REFUSAL = (
    "The job uses Spark's catalog, and the cluster's spark-hive-site (or the job's property) says that it is the Glue "
    "Data Catalog, which headrace's Spark does not have: read and write the tables' folders in S3, or leave the "
    "setting out here."
)
NOTE = "the setting for the Glue Data Catalog has no effect: headrace's Spark does not have it"


def names_glue(properties: Mapping[str, str], hive_site: Mapping[str, str]) -> bool:
    """Return whether a job's settings say that its catalog is Glue's."""
    factory = properties.get(f"spark.hadoop.{_SETTING}", hive_site.get(_SETTING, ""))
    return factory.endswith(_FACTORY)


def check_catalog(
    submission: Submission, properties: Mapping[str, str], hive_site: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a note for the log if the setting is there and does not matter. Raises JobRefused if it matters.

    What a job in Java or Scala uses cannot be seen, so it is refused.
    """
    if not names_glue(properties, hive_site):
        return ()
    is_python = Path(submission.application).suffix in (".py", ".zip", ".egg")
    if not is_python or any(map(_reaches_catalog, job_sources(submission, properties))):
        raise JobRefused(REFUSAL)
    return (NOTE,)


def _reaches_catalog(source: bytes) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The job itself reports the error.
        return False
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in _NAMES
        # `pyspark.sql.functions` is a module.
        and not (isinstance(node.value, ast.Name) and node.value.id == "pyspark")
        for node in ast.walk(tree)
    )
