"""Makes and uses an archive of Spark's classes, with which a job's JVM starts in three fifths of the processor time.

The archive (Java's class data sharing) holds the classes of Spark's jars as they are after loading and verification. It
lies in the environment of its Spark. A JVM uses it only if it is the same Java and its class path begins with the same
jars; otherwise, for example if a job has a `spark.driver.extraClassPath` of its own, it starts without.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from headrace.spark_submit.environments import Environment, hold_lock, is_trusted
from headrace.spark_submit.sparks import JobSpark

JOB = Path(__file__).with_name("class_archive_job.py")
# The first long-term Java whose JVMs write the classes that they have loaded into an archive (JEP 350).
_FIRST_JAVA = 17
_WITHIN_S = 900
# Without a word about an archive of another Java or other jars.
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
# The JVM that makes the archive lives for seconds.
_COMPILE_LITTLE = "-XX:TieredStopAtLevel=1"
# spark-class and Spark's launcher split options at spaces, and the shell expands patterns.
_PLAIN = re.compile(r"[\w./+@%=,-]+")


def archive_of(environment: Environment) -> Path:
    """Return where the archive of an environment is, whether it exists or not."""
    return environment.folder / "classes.jsa"


def jars_of(home: Path) -> str:
    """Return the entry of a class path that is all jars of a SPARK_HOME."""
    return f"{home}/jars/*"


def archive_options(spark: JobSpark) -> tuple[str, ...]:
    """Return the options with which a JVM of a Spark uses its archive; none if it has no archive that fits."""
    if spark.environment is None or (spark.java or 0) < _FIRST_JAVA:
        return ()
    archive = archive_of(spark.environment)
    if not _PLAIN.fullmatch(str(archive)) or not (
        is_trusted(archive) and is_trusted(archive.parent)
    ):
        return ()
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET)


def make_archive(environment: Environment, java_home: Path | None, java: int | None) -> str | None:
    """Make the archive of a complete environment, unless it is there; return None, or why it is not made."""
    if (java or 0) < _FIRST_JAVA:
        return f"Java is {java or 'unknown'}, not {_FIRST_JAVA} or newer"
    archive = archive_of(environment)
    said = archive.with_suffix(".java")
    program = "java" if java_home is None else str(java_home / "bin" / "java")
    try:
        with hold_lock(archive, lambda _: None):
            made_of = _version_of(program) + _describe_jars(environment)
            if is_trusted(archive) and said.is_file() and said.read_text() == made_of:
                return None
            part = archive.with_name(f"{archive.name}.part")
            part.unlink(missing_ok=True)
            problem = _run_job(environment, java_home, part)
            if problem is None:
                # Last: after a kill in between, the archive is made once more. The other way an old one would stay.
                part.rename(archive)
                said.write_text(made_of)
            part.unlink(missing_ok=True)
            return problem
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def _version_of(java: str) -> str:
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr


def _describe_jars(environment: Environment) -> str:
    """Return what tells an environment's jars from others: a JVM starts without the archive of others.

    Those of a linked PySpark are others once its own environment has been made anew.
    """
    times = [jar.stat().st_mtime_ns for jar in (environment.home / "jars").glob("*.jar")]
    return f"{len(times)} jars, whose times add up to {sum(times)}\n"


def _run_job(environment: Environment, java_home: Path | None, archive: Path) -> str | None:
    """Run `JOB` in a JVM that leaves the archive when it ends; return None, or why there is no archive."""
    with tempfile.TemporaryDirectory(prefix="headrace-classes-") as folder:
        variables = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "PYTHONHOME", "PYSPARK_SUBMIT_ARGS")
        }
        variables |= {
            "SPARK_HOME": str(environment.home),
            "SPARK_CONF_DIR": folder,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(environment.interpreter),
            "PYSPARK_DRIVER_PYTHON": str(environment.interpreter),
            **({"JAVA_HOME": str(java_home)} if java_home is not None else {}),
        }
        command = [
            str(environment.home / "bin" / "spark-submit"), "--master", "local[2]",
            "--driver-class-path", jars_of(environment.home),
            "--driver-java-options", " ".join((_COMPILE_LITTLE, f"-XX:ArchiveClassesAtExit={archive}", *_QUIET)),
            "--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir=file://{folder}",
            str(JOB), folder,
        ]  # fmt: skip
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
            env=variables, cwd=folder, timeout=_WITHIN_S,
        )  # fmt: skip
    if done.returncode == 0 and archive.is_file():
        return None
    return done.stderr.strip().rpartition("\n")[2] or f"spark-submit ended with {done.returncode}"
