"""Which tests a worker of pytest-xdist runs together, and which it begins with.

A file's tests stay together: they share a cloud. The longest files go out first, so that no worker is alone at the end.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

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
    ("spark_jobs/test_sql_run.py",),
    ("spark/test_steps.py",),
    ("crash/test_pipeline_kills.py",),
    ("crash/test_kinesis_crash.py",),
    ("security/test_auth_process.py",),
    ("unit/store/test_losses.py",),
    ("server/test_process.py",),
    ("security/test_patterns.py",),
    ("api/s3/test_spark.py",),
    ("spark/test_package.py",),
    ("spark/test_programs.py",),
    ("spark/test_roles.py",),
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


def place_in_order(node_id: str) -> int:
    """Return where a test stands when the longest go first; tests with the same number keep their order."""
    return len(TOGETHER) if (unit := _unit_of(file_of(node_id))) is None else unit


def _unit_of(file: str) -> int | None:
    return _UNIT_OF.get(file, _UNIT_OF_FOLDER.get(file.partition("/")[0]))


class LongestFirst(LoadScopeScheduling):
    """Hands out files, or several together, as `TOGETHER` and `APART` say."""

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        if file in APART:
            return nodeid
        unit = _unit_of(file)
        return file if unit is None else TOGETHER[unit][0]
