"""Which tests a process runs together, and which come first: for `tests.support.forks`.

A file's tests stay together: they share a cloud. The longest go out first, so that no process is alone at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

# Together: each line has one Spark session, whose start and first query cost as much as ten others, or one kernel of
# the CDK, which takes ten seconds of a processor. First what takes longest; files that are not named follow in their
# order.
TOGETHER = (
    (
        "spark_jobs/test_weather_delays.py", "spark_jobs/test_views.py", "spark_jobs/test_departures.py",
        "spark_jobs/test_sketches.py", "spark_jobs/test_cascades.py", "spark_jobs/test_windows.py",
        "spark_jobs/test_tables.py", "spark_jobs/test_common.py", "spark_jobs/test_convergence.py",
        "spark_jobs/test_live_view.py",
    ),
    (
        "spark/test_source.py", "spark/test_credentials.py", "spark/test_data_loss.py", "spark/test_sink.py",
        "spark/test_versions.py", "spark/test_streams_writes.py", "spark/test_progress.py", "spark/test_kpl.py",
        "spark/test_kills.py",
    ),
    ("pipeline/test_pipeline.py",),
    ("scripts/test_spark_core.py",),
    ("spark_jobs/test_step.py",),
    ("spark/test_steps.py",),
    ("crash/test_pipeline_kills.py",),
    ("crash/test_kinesis_crash.py",),
    ("security/test_auth_process.py",),
    ("unit/store/test_losses.py",),
    ("server/test_process.py",),
    ("security/test_patterns.py",),
    ("api/s3/test_spark.py",),
    ("spark/test_package.py",),
    ("spark/test_locales.py",),
    ("api/emr_serverless/test_submit.py",),
    ("security/test_browser.py",),
    ("scripts/test_flights.py",),
    ("spark/test_history.py",),
    ("unit/lambda_/test_poller.py",),
    ("spark/test_throttling.py",),
    ("api/cloudformation/test_custom_resources.py",),
    ("api/emr/test_submit.py",),
    ("security/test_function_walls.py",),
    ("crash/test_full_disk.py",),
    ("api/emr/test_crash.py",),
    ("crash/test_moto_crash.py",),
    (
        "cdk/test_permissions.py", "cdk/test_custom_resources.py", "cdk/test_nag_and_lint.py", "cdk/test_templates.py",
        "cdk/test_processing_options.py", "cdk/test_spark_steps.py", "cdk/test_constructs.py", "cdk/test_deliveries.py",
        "cdk/test_firehose_constructs.py", "cdk/test_left_out_stages.py", "cdk/test_mutations.py",
        "cdk/test_python_packages.py",
    ),
)  # fmt: skip
# Each test has clouds of its own, and takes long.
APART = frozenset({"spark_jobs/test_step.py", "scripts/test_spark_core.py"})

_UNIT_OF = {file: unit for unit, files in enumerate(TOGETHER) for file in files}
# What a new file of these folders needs, too.
_UNIT_OF_FOLDER = {"spark_jobs": 0, "spark": 1, "cdk": len(TOGETHER) - 1}


def file_of(node_id: str) -> str:
    """Return a test's file, below tests/."""
    return node_id.partition("::")[0].removeprefix("tests/")


def units_of(node_ids: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the tests that one process runs together, the longest first; others keep their order."""
    units: dict[tuple[int, str], list[int]] = {}
    for number, node_id in enumerate(node_ids):
        units.setdefault(_unit_of(node_id), []).append(number)
    return [units[key] for key in sorted(units, key=lambda key: key[0])]


def _unit_of(node_id: str) -> tuple[int, str]:
    """Return the place of a test's unit, and its name."""
    file = file_of(node_id)
    line = _UNIT_OF.get(file, _UNIT_OF_FOLDER.get(file.partition("/")[0]))
    if line is None:
        return len(TOGETHER), file
    return line, node_id if file in APART else TOGETHER[line][0]
