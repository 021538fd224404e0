"""A `java` for tests: their JVMs live for seconds, and half of their processor time would go into starting well.

It compiles little, and Spark's JVMs find their classes loaded and verified in an archive, where `class_archive` has
made one.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from pathlib import Path

# The FileSystem with which a session's JVM starts no program for each file that it makes.
_SUBMIT = Path(__file__).resolve().parents[2] / "headrace" / "spark_submit"
CLASSES = _SUBMIT / "java"
FILE_SYSTEM = {
    "spark.hadoop.fs.file.impl": "LocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "LocalFiles$Context",
}
# What a job's Pythons on Spark 4 do first: see there. In Spark's zips each task of Python would read their index anew.
_EARLY = _SUBMIT / "early"
ARCHIVES = Path(__file__).resolve().parents[2] / ".spark" / "classes"
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MARK = "HEADRACE_TESTS_JAVA"
SETTINGS = "HEADRACE_TESTS_SPARK"
# To compile a query, to plan it anew while it runs and to explain it at length costs more than to run it on a few
# hundred rows. Spark takes its settings from Java's properties, where neither a job nor a command line has others.
FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.shuffle.partitions": "2",
}
# For its errors PySpark looks, at each call, for the line of the job that makes it: most of what the making of a query
# costs. It takes these before a session's start alone.
WITHOUT_LINES = {
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
}
# An archive is for a class path that begins with the same jars; Spark puts the folder of its settings before them.
_JAVA = """\
#!/bin/bash
arguments=("$@")
settings="${{{variable}:-}}"
# A step of a cloud has nothing of the tests' environment.
[ -n "$settings" ] || [ ! -f "${{0%/*}}/settings" ] || settings="$(< "${{0%/*}}/settings")"
for i in "${{!arguments[@]}}"; do
  [ "${{arguments[i]}}" = -cp ] || continue
  rest=":${{arguments[i + 1]}}:"
  jars="${{rest%%/jars/\\*:*}}"
  [ "$jars" = "$rest" ] && break
  jars="${{jars##*:}}/jars/*"
  real="$(cd "${{jars%/\\*}}" && pwd -P)" || break
  archive={archives}/"${{real//\\//%}}.jsa"
  use=()
  {how}
  [ "${{#use[@]}}" = 0 ] && break
  rest="${{rest/:"$jars":/:}}"
  rest="${{rest#:}}"
  arguments[i + 1]="$real/*${{rest:+:${{rest%:}}}}"
  exec {real} {options} $settings "${{use[@]}}" "${{arguments[@]}}"
done
exec {real} {options} $settings "$@"
"""
# A stale archive is left alone without a word.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_USED = f'[ -f "$archive" ] && use=(-XX:SharedArchiveFile="$archive" {_QUIET})'
_MADE = (
    'case " $* " in *" org.apache.spark.deploy.SparkSubmit "*) '
    f'use=(-XX:ArchiveClassesAtExit="$archive.part" {_QUIET});; esac'
)


# The JAVA_HOME that this process has made; a parent's is not this process's to change.
_own_folder: Path | None = None


def archive_of(home: Path) -> Path:
    """Return where the archive of the Spark in `home` is, made or not."""
    return ARCHIVES / (str((home / "jars").resolve()).replace("/", "%") + ".jsa")


def real_java() -> str | None:
    """Return the path of the machine's own `java`; None without one."""
    if (found := os.environ.get(_MARK)) is not None:
        return found
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None)


def make_java(folder: Path, real: str, *, makes_archive: bool = False) -> dict[str, str]:
    """Make a `java` in `folder`/bin; return the variables with which Spark takes it.

    Args:
        folder: a JAVA_HOME of its own.
        real: the machine's `java`.
        makes_archive: whether Spark's next JVM leaves an archive when it ends, `*.part`, instead of using one.
    """
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    how = _MADE if makes_archive else _USED
    archives, real = shlex.quote(str(ARCHIVES)), shlex.quote(real)
    program.write_text(
        _JAVA.format(archives=archives, how=how, options=_OPTIONS, real=real, variable=SETTINGS)
    )
    program.chmod(0o755)
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": f"{program.parent}{os.pathsep}{path}", "JAVA_HOME": str(folder)}


def session_variables(pythonpath: str, *, is_spark_4: bool) -> dict[str, str]:
    """Return the variables with which a session in the tests' own process starts, as a step's does.

    Args:
        pythonpath: where its Pythons look for modules.
        is_spark_4: whether its Spark is 4.0 or newer.
    """
    early = str(_EARLY) if is_spark_4 else ""
    path = os.pathsep.join(filter(None, (early, pythonpath)))
    return {"SPARK_DIST_CLASSPATH": str(CLASSES), "PYTHONPATH": path}


def compile_little() -> None:
    """Put a `java` before the others, for this process and all that it starts: the one that was found, with options.

    Spark and the jobs that a cloud starts take it from JAVA_HOME or PATH, where no variable with options would reach
    them. From PATH alone only spark-submit's own short JVM would come: without JAVA_HOME it starts the job's JVM by its
    own path.
    Without a Java, or when a parent has done it, nothing happens.
    """
    real = real_java()
    if real is None or _MARK in os.environ:
        return
    global _own_folder
    _own_folder = folder = Path(tempfile.mkdtemp(prefix="headrace-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.update({_MARK: real, **make_java(folder, real)})


def interpret_queries() -> None:
    """Have all Sparks that this process starts interpret queries, and run them in two partitions: `FOR_FEW_ROWS`.

    Those of steps, too, to which a cloud gives no variable of its own: they find the settings beside their `java`.
    """
    settings = FOR_FEW_ROWS | WITHOUT_LINES
    os.environ[SETTINGS] = " ".join(f"-D{name}={value}" for name, value in settings.items())
    if _own_folder is not None:
        (_own_folder / "bin" / "settings").write_text(os.environ[SETTINGS])
