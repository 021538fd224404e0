"""Commands of steps that run a custom jar or one of Spark's own examples.

A custom jar runs as with `hadoop jar`: Spark includes Hadoop's `RunJar`. StepProperties become system properties of the
JVM, and MainClass is the main class unless the jar's manifest names one. With `command-runner.jar`, both apply to
command-runner's own JVM on EMR, so they have no effect on the command.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.services.emr.state import Step
from headrace.spark_submit.access import CLASSES
from headrace.spark_submit.arguments import Submission
from headrace.spark_submit.configuration import hadoop_site
from headrace.spark_submit.context import JobContext
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.local_files import fetch
from headrace.spark_submit.making import build_command, must_be_made
from headrace.spark_submit.sparks import JobSpark
from headrace.spark_submit.utf8 import require_utf8

_EXAMPLES = "org.apache.spark.examples."


def jar_command(
    context: JobContext, step: Step, folder: Path, spark: JobSpark, hdfs: Path
) -> list[str]:
    """Return the command that runs the step's jar with Spark's libraries. Raises JobRefused."""
    home, java_home = spark.home, spark.java_home
    jar = step.jar.removeprefix("file://")
    if jar.startswith(("s3://", "s3a://", "s3n://")):
        jar = str(fetch(context.objects, jar, folder / "work"))
    elif not Path(jar).is_file():
        raise JobRefused(f"The jar {step.jar} cannot be read: there is no such file.")
    require_utf8(os.environ, folder, home)
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    site = hadoop_site(context.objects.buckets(), context.file_system, hdfs)
    (conf / "core-site.xml").write_text(site, encoding="utf-8")
    return [
        "java" if java_home is None else str(java_home / "bin" / "java"),
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        *(f"-D{key}={value}" for key, value in step.properties.items()),
        "-cp",
        f"{conf}:{CLASSES}:{home / 'jars'}/*",
        "org.apache.hadoop.util.RunJar",
        jar,
        *([step.main_class] if step.main_class else []),
        *step.args,
    ]


def example_submission(submission: Submission, spark: JobSpark) -> Submission:
    """Return the `spark-submit` of `spark-example CLASS`. Raises JobRefused.

    Spark's pip package has the Python examples but not the jar, so the Python example of the same name runs.
    """
    if must_be_made(spark):
        assert spark.release is not None
        raise JobRefused(
            f"The examples of Spark {spark.release.spark_version} are not here yet: "
            f"{build_command(spark.release.label)}"
        )
    package, _, name = submission.application.removeprefix(_EXAMPLES).rpartition(".")
    folder = spark.home / "examples" / "src" / "main" / "python"
    wanted = {name.lower(), *(name.lower().removeprefix(prefix) for prefix in ("spark", "java"))}
    for path in sorted(folder.joinpath(*package.split(".")).glob("*.py")):
        if path.stem.replace("_", "") in wanted:
            return Submission(submission.options, str(path), submission.arguments)
    raise JobRefused(f"Spark's examples in Python have no {submission.application}.")
