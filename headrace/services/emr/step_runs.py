"""Runs one step: starts or finds its process, watches it, cancels it, and stores its end with its logs.

Turns a step's jar and arguments into a command line, an environment and a folder of files.

`command-runner.jar` runs any command on the path, as on EMR; `spark-submit` is the one of the release's Spark version.
`script-runner.jar` runs a shell script from S3; any other jar runs as with `hadoop jar`. In cluster mode the driver
finds its `--files` and `--archives` in its working directory, as in a YARN container.

Commands of steps that run a custom jar or one of Spark's own examples.

A custom jar runs as with `hadoop jar`: Spark includes Hadoop's `RunJar`. StepProperties become system properties of the
JVM, and MainClass is the main class unless the jar's manifest names one. With `command-runner.jar`, both apply to
command-runner's own JVM on EMR, so they have no effect on the command.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import Guard, MetricSink, NoGuard, ObjectStore
from headrace.services.emr.state import Cluster, Step, StepState, Store, actor_of
from headrace.services.emr.step_logs import (
    StepLogs,
    classification,
    runner_arguments,
    spark_submission,
)
from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import (
    Submission,
    deploy_mode,
    expanded_by_yarn,
    fetch,
    properties_of,
)
from headrace.spark_submit.commands import spark_command
from headrace.spark_submit.configuration import hadoop_site
from headrace.spark_submit.job import Cancellation, JobEnd, SupervisedJob
from headrace.spark_submit.job_context import (
    CLASSES,
    Command,
    JobContext,
    job_environment,
    make_folders,
    make_hdfs,
    require_utf8,
)
from headrace.spark_submit.logs import LOGS, failure_cause, tail
from headrace.spark_submit.making import build_command, must_be_made, with_spark
from headrace.spark_submit.node_programs import (
    NodeSpec,
    cloud_variables,
    programs_in,
    require_program,
    script_program,
    with_cluster_python,
    write_programs,
)
from headrace.spark_submit.sparks import JobSpark, python_settings

STOPPED_MESSAGE = "The local cloud was stopped while the step was running."
LOST_MESSAGE = (
    "The step's process ended without an exit code while the local cloud was not running."
)
KILLED_MESSAGE = "The step's process was killed."
UNKNOWN_ERROR = "Unknown Error."


@dataclass(frozen=True, slots=True)
class Ports:
    """What all runners share.

    Attributes:
        context: how jobs reach this cloud.
        folder: EMR's folder, with a folder for each cluster.
        guard: decides what a cluster's service role may do.
        run_bootstrap_actions: whether clusters run their bootstrap actions on this machine.
    """

    clock: Clock
    store: Store
    context: JobContext
    metrics: MetricSink
    folder: Path
    guard: Guard = field(default_factory=NoGuard)
    run_bootstrap_actions: bool = False


class StepRun:
    """The process and the logs of one step, which is RUNNING or CANCEL_PENDING. Used by one thread at a time.

    A method that ends the step stores its logs and its new state before it returns.
    """

    def __init__(self, ports: Ports, cluster: Cluster, step: Step) -> None:
        self.step = step
        self._ports = ports
        self._cluster = cluster
        self._logs = StepLogs(ports.clock, ports.context, ports.folder, cluster, step)
        self._job: SupervisedJob | None = None

    @classmethod
    def start(cls, ports: Ports, cluster: Cluster, step: Step) -> StepRun | None:
        """Start the step's process; return None if it could not start and the step is FAILED."""
        run = cls(ports, cluster, step)
        logs = run._logs
        command = functools.partial(command_of, ports.context, cluster, step, logs)
        try:
            run._job = SupervisedJob.start(
                ports.clock, logs.folder, command, kind="step", logs=LOGS
            )
        except JobRefused as error:
            logs.write_refusal(str(error))
            run._fail(str(error))
            return None
        return run

    def find(self) -> bool:
        """Take over the process that an earlier cloud started; return whether there is one."""
        self._job = SupervisedJob.find(self._ports.clock, self._logs.folder)
        return self._job is not None

    def watch(self) -> bool:
        """Cancel the process if requested, and copy its logs to S3; return whether the step has ended."""
        number = self.step.cancel_signal
        end = self._started.watch(None if number is None else Cancellation(signal=number))
        if end is None:
            self._logs.in_s3.keep()
            return False
        self._end_as(end)
        return True

    def end(self, state: StepState, message: str = "", *, diagnostics: str | None = None) -> None:
        """Store the logs, then the end: a client that sees the step ended finds its logs."""
        if self._logs.application is not None:
            self._logs.report_end(state, diagnostics or message)
        self._logs.in_s3.store()
        self.step.ended_ms = self._ports.clock.now_ms()
        self._ports.store.change_step(self._cluster, self.step, state, message)

    # --- when the cloud stops -----------------------------------------------------------------

    def shut_down(self) -> None:
        """Ask the process to end."""
        self._started.shut_down()

    @property
    def busy(self) -> bool:
        """Return whether a process of the step still runs."""
        return self._started.busy

    def abandon(self) -> None:
        """Kill the process if it still runs, and end the step."""
        code = self._started.abandon()
        if code == 0:
            self.end(StepState.COMPLETED)
        elif self.step.state is StepState.CANCEL_PENDING:
            self.end(StepState.CANCELLED)
        else:
            self._fail(STOPPED_MESSAGE)

    # --- parts --------------------------------------------------------------------------------

    @property
    def _started(self) -> SupervisedJob:
        assert self._job is not None, "start or find comes first"
        return self._job

    def _end_as(self, end: JobEnd) -> None:
        if self.step.cancel_signal is not None and end.exit_code != 0:
            self.end(StepState.CANCELLED, "Job terminated")
        elif end.exit_code == 0:
            self.end(StepState.COMPLETED)
        elif end.exit_code is None:
            self._fail(LOST_MESSAGE if end.lost else KILLED_MESSAGE)
        else:
            self._fail_because(end.exit_code)

    def _fail_because(self, code: int) -> None:
        """End the step as FAILED, with the cause of its program's exit code."""
        folder = self._logs.folder
        name, cause = failure_cause(tail(folder / "stderr"), tail(folder / "stdout"), code)
        application = self._logs.application
        if application is None:
            self._fail(cause, log_name=name)
            return
        # AWS gives only the client's sentence; its users find the cause in the container's log.
        uri = self._logs.driver_uri(name)
        self._fail(
            f"{application.failure}; the driver said: {cause}{f' ({uri})' if uri else ''}",
            diagnostics=application.diagnostics(code, cause),
        )

    def _fail(
        self, message: str, *, log_name: str = "stderr", diagnostics: str | None = None
    ) -> None:
        self.step.failure = {"Reason": UNKNOWN_ERROR, "Message": message}
        uri = self._logs.uri(log_name)
        if uri is not None:
            self.step.failure["LogFile"] = uri
        self.end(StepState.FAILED, diagnostics=diagnostics or message)


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
    accepted_names = {
        name.lower(),
        *(name.lower().removeprefix(prefix) for prefix in ("spark", "java")),
    }
    for path in sorted(folder.joinpath(*package.split(".")).glob("*.py")):
        if path.stem.replace("_", "") in accepted_names:
            return Submission(submission.options, str(path), submission.arguments)
    raise JobRefused(f"Spark's examples in Python have no {submission.application}.")


_LONGEST_SHEBANG = 256


def command_of(context: JobContext, cluster: Cluster, step: Step, logs: StepLogs) -> Command:
    """Write the step's folder, begin its logs, and return the command. Raises JobRefused."""
    if logs.application is None:
        return prepare(context, cluster, step, logs.folder)
    logs.make_client_folder()
    command = prepare(context, cluster, step, logs.folder)
    # Before the process starts, so that a cloud that takes the process over finds the report begun.
    logs.report_start()
    return command


@dataclass(frozen=True, slots=True)
class _StepPlace:
    """Where a step runs, and with what.

    Attributes:
        context: what the step uses of the cloud, as the step's role.
        folder: the step's own.
        work: the working directory.
        environment: its variables; `exported` are those that the cluster's spark-env sets.
        programs: the cluster's own Python programs; None when it has none.
        hdfs: the folder that is the cluster's HDFS.
    """

    context: JobContext
    cluster: Cluster
    step: Step
    folder: Path
    work: Path
    environment: dict[str, str]
    exported: Mapping[str, str]
    programs: Path | None
    hdfs: Path


def prepare(context: JobContext, cluster: Cluster, step: Step, folder: Path) -> Command:
    """Write the step's folder and return its command. Raises JobRefused."""
    place = _make_place(context, cluster, step, folder)
    jar = step.jar.rpartition("/")[2]
    if jar == "command-runner.jar":
        return _run_command(place, runner_arguments(step))
    if jar == "script-runner.jar":
        if not step.args:
            raise _no_command(jar)
        if (program := script_program(step.args[0])) is not None:
            return _run_command(place, [program, *step.args[1:]])
        script = _fetch(place.context.objects, step.args[0], place.work)
        arguments = script_command(script, list(step.args[1:]))
        return Command(arguments, place.environment, place.work)
    spark = place.context.sparks.of(cluster.release_label)
    arguments = jar_command(place.context, step, folder, spark, place.hdfs)
    return with_spark(Command(arguments, place.environment, place.work), spark, folder)


def _make_place(context: JobContext, cluster: Cluster, step: Step, folder: Path) -> _StepPlace:
    """Make the step's folders, programs and environment."""
    role, session = actor_of(cluster, step)
    context = context.as_role(cluster.account, role, session)
    work, hdfs = make_folders(folder), make_hdfs(folder.parent)
    exported = classification(cluster, "spark-env", "export")
    environment = {
        **job_environment(
            context,
            folder,
            account=cluster.account,
            region=cluster.region,
            role=role,
            session=session,
        ),
        "EMR_CLUSTER_ID": cluster.id,
        "EMR_STEP_ID": step.id,
        **exported,
    }
    node = write_programs(
        NodeSpec(
            folder=str(folder),
            label=cluster.release_label,
            installed=context.sparks.installed,
            strict=context.sparks.strict,
            endpoint_url=context.endpoint_url(),
            cores=context.cores,
            file_system=context.file_system,
            buckets={name: str(path) for name, path in context.objects.buckets().items()},
            hdfs=str(hdfs),
            defaults=classification(cluster, "spark-defaults"),
            logging={
                name: classification(cluster, name) for name in ("spark-log4j2", "spark-log4j")
            },
            exported=exported,
            hive_site=classification(cluster, "spark-hive-site"),
            variables=cloud_variables(),
        )
    )
    # Prefer a `python3` other than headrace's own: on EMR it does not have headrace's packages.
    own = programs_in(folder.parent)
    programs = own or context.sparks.programs_of(cluster.release_label)
    path = [str(submitted) for submitted in (node, programs) if submitted is not None]
    environment["PATH"] = os.pathsep.join([*path, environment["PATH"]])
    return _StepPlace(context, cluster, step, folder, work, environment, exported, own, hdfs)


def _run_command(place: _StepPlace, arguments: list[str]) -> Command:
    """Return what `command-runner.jar` runs: a shell's script, a submission to Spark, or a program of the node's."""
    if not arguments:
        raise _no_command("command-runner.jar")
    if arguments[0] in ("bash", "sh"):
        # The script's arguments stay unchanged, including S3 URIs.
        arguments[1:2] = [
            _fetch(place.context.objects, text, place.work) for text in arguments[1:2]
        ]
    elif (submitted := spark_submission(place.cluster, place.step)) is not None:
        return _submit(place, *submitted, is_example=arguments[0] == "spark-example")
    else:
        require_program(arguments)
        program = shutil.which(arguments[0], path=place.environment["PATH"])
        if program is None:
            raise JobRefused(
                f'Cannot run program "{arguments[0]}" (in directory "."): error=2, No such file or directory'
            )
        arguments[0] = program
    return Command(arguments, place.environment, place.work)


def _submit(
    place: _StepPlace, submission: Submission, defaults: dict[str, str], *, is_example: bool
) -> Command:
    """Return the command of a submission to Spark."""
    cluster, folder = place.cluster, place.folder
    settings = python_settings(properties_of(submission, defaults), place.exported)
    spark = place.context.sparks.of(cluster.release_label, settings)
    if place.programs is not None:
        spark = with_cluster_python(spark, folder.parent)
    mode = deploy_mode(submission, defaults)
    if is_example:
        submission = example_submission(submission, spark)
    if mode == "cluster":
        submission = expanded_by_yarn(submission)
    arguments, more, spark = spark_command(
        place.context,
        submission,
        folder,
        spark,
        defaults=defaults,
        exported=place.exported,
        hive_site=classification(cluster, "spark-hive-site"),
        in_container=mode == "cluster",
        logging=classification(cluster, spark.traits.logging_classification),
        hdfs=place.hdfs,
    )
    environment = {**place.environment, **more}
    return with_spark(Command(arguments, environment, place.work), spark, folder)


def _no_command(jar: str) -> JobRefused:
    return JobRefused(f"The step gives {jar} no command to run.")


def script_command(path: str, arguments: list[str]) -> list[str]:
    """Return the command that runs a script, with the interpreter in its first line or else bash.

    As in execve(2), everything after the interpreter in that line is one argument.
    """
    interpreter = ["bash"]
    with contextlib.suppress(OSError), Path(path).open("rb") as script:
        first = script.readline(_LONGEST_SHEBANG)
        if first.startswith(b"#!") and first[2:].strip():
            interpreter = first[2:].strip().decode(errors="replace").split(maxsplit=1)
    return [*interpreter, path, *arguments]


def _fetch(objects: ObjectStore, argument: str, work: Path) -> str:
    return str(fetch(objects, argument, work)) if argument.startswith("s3://") else argument
