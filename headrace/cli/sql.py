"""`headrace sql`: checks, explains, compiles, tests and runs streaming SQL."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import client, endpoint_option, explain, fail, split_s3_url
from headrace.cli.stream_names import explain_stream

if TYPE_CHECKING:
    from headrace.sql.analysis import Analysis
    from headrace.sql.plan import Script

# The parser comes with the first command that needs it, since it takes a quarter of a second to make.
_DIALECTS = ("ksql", "kinesis-analytics")
_PATH = click.Path(exists=True, path_type=Path)


def _dialect_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dialect",
        type=click.Choice(_DIALECTS),
        default="ksql",
        show_default=True,
        help="Of the queries.",
    )(function)


@click.group(invoke_without_command=True)
@_dialect_option
@click.option(
    "--checkpoint",
    metavar="s3://...",
    help="The folder of running queries' progress: SELECT reads their tables' states there.",
)
@endpoint_option
@click.pass_context
def sql(
    context: click.Context,
    dialect: str,
    checkpoint: str | None,
    *,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Streaming SQL over Kinesis streams, run by Spark. Alone, a prompt that answers without Spark."""
    if context.invoked_subcommand is None:
        from headrace.cli.sql_prompt import run_prompt

        run_prompt(dialect, checkpoint, endpoint_url=endpoint_url, region=region, aws=aws)


def _files(path: Path) -> list[Path]:
    """Return a file, or a folder's *.sql files by their names."""
    files = sorted(path.glob("*.sql")) if path.is_dir() else [path]
    if not files:
        raise fail(f"{path} has no .sql file")
    return files


def _read(path: Path, dialect: str, **reach: Any) -> Script:
    """Return the plans of a file or folder; ends the command with the place of the first mistake.

    `reach` is the cloud that declarations may ask for columns: endpoint_url, region, aws.
    """
    analysis = _analyse(path, dialect, **reach)
    _say(analysis)
    return analysis.script()


def _read_for_spark(path: Path, dialect: str, **reach: Any) -> Script:
    """Return the plans as `_read` does; ends the command too if they make no job."""
    script = _read(path, dialect, **reach)
    if script.queries:
        _compile(script, path)
    return script


def _say(analysis: Analysis) -> None:
    for note in analysis.notes:
        click.echo(f"note: {note}", err=True)


def _analyse(path: Path, dialect: str, **reach: Any) -> Analysis:
    from headrace.cli.sql_prompt import Cloud
    from headrace.sql.analysis import Analysis
    from headrace.sql.parsing import parse
    from headrace.sql.types import SqlError

    folder = path if path.is_dir() else path.parent
    analysis = Analysis(dialect, Cloud(folder, **reach))
    for file in _files(path):
        try:
            for statement in parse(file.read_text(encoding="utf-8"), analysis.words):
                analysis.take(statement)
        except SqlError as error:
            raise fail(f"{file}: {error}") from error
        except UnicodeDecodeError as error:
            raise fail(f"{file} is no UTF-8 text") from error
    return analysis


def _warn(script: Script) -> None:
    for location, text in script.warnings():
        click.echo(f"warning: line {location.line}: {text}", err=True)


def _warn_of_open_windows(script: Script) -> None:
    """Say of which queries a run with an end leaves windows open."""
    for query in script.queries:
        if query.window is not None and query.emit == "FINAL":
            click.echo(
                f"warning: line {query.location.line}: {query.name} writes a window when it is closed; with --once"
                " those that are open at the end wait in the checkpoint until a later run reads newer rows",
                err=True,
            )


@sql.command()
@click.argument("queries", type=_PATH)
@_dialect_option
@endpoint_option
def check(queries: Path, *, dialect: str, **reach: Any) -> None:
    """Check QUERIES, and say where the first mistake is. QUERIES is a file or a folder of .sql files."""
    script = _read_for_spark(queries, dialect, **reach)
    _warn(script)
    count, relations = len(script.queries), len(script.relations)
    click.echo(
        f"{count} {'query' if count == 1 else 'queries'}, "
        f"{relations} {'stream or table' if relations == 1 else 'streams and tables'}: no mistakes"
    )


@sql.command("explain")
@click.argument("queries", type=_PATH)
@_dialect_option
@endpoint_option
def explain_queries(queries: Path, *, dialect: str, **reach: Any) -> None:
    """Say in words what QUERIES read, keep and write."""
    from headrace.sql.explain import explain as explain_script

    click.echo("\n".join(explain_script(_read_for_spark(queries, dialect, **reach))).rstrip())


@sql.command("compile")
@click.argument("queries", type=_PATH)
@_dialect_option
@endpoint_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Default: standard output.",
)
def compile_queries(queries: Path, *, dialect: str, output: Path | None, **reach: Any) -> None:
    """Write QUERIES as a PySpark job. The job needs nothing of headrace, and runs on EMR."""
    script = _read(queries, dialect, **reach)
    _warn(script)
    source = _compile(script, queries)
    if output is None:
        click.echo(source, nl=False)
    else:
        output.write_text(source, encoding="utf-8")


def _compile(script: Script, queries: Path) -> str:
    from headrace.sql.pyspark_job import compile_script
    from headrace.sql.types import SqlError

    if not script.queries:
        raise fail(f"{queries} has no query: CREATE STREAM .. AS SELECT makes one")
    try:
        return compile_script(script, f"Made by `headrace sql compile {queries.name}`.")
    except SqlError as error:
        raise fail(f"{queries}: {error}") from error


@sql.command("test")
@click.argument("queries", type=_PATH)
@click.argument("tests", type=_PATH)
@_dialect_option
@endpoint_option
def test_queries(queries: Path, tests: Path, *, dialect: str, **reach: Any) -> None:
    """Run TESTS on QUERIES, without Spark. TESTS is a YAML file or a folder of them."""
    from headrace.sql.cases import BadCase, run_file

    analysis = _analyse(queries, dialect, **reach)
    _say(analysis)
    script = analysis.script()
    files = sorted([*tests.glob("*.yaml"), *tests.glob("*.yml")]) if tests.is_dir() else [tests]
    count = failed = 0
    try:
        for file in files:
            for outcome in run_file(script, file):
                count += 1
                failed += bool(outcome.differences)
                click.echo(f"{'failed' if outcome.differences else 'ok    '}  {outcome.name}")
                for difference in outcome.differences:
                    click.echo(f"        {difference}")
    except BadCase as error:
        raise fail(str(error)) from error
    if not count:
        raise fail(f"{tests} has no tests")
    for name, (calls, problem) in analysis.outside.failures.items():
        click.echo(
            f"warning: {calls} call{'s' * (calls != 1)} of {name} gave NULL: {problem}", err=True
        )
    click.echo(f"{count - failed} of {count} tests hold")
    if failed:
        raise SystemExit(1)


@sql.command("import")
@click.argument("application", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Default: standard output.",
)
def import_application(application: Path, output: Path | None) -> None:
    """Write the SQL of a Kinesis Analytics application. APPLICATION is the JSON that DescribeApplication gave."""
    from headrace.sql.kinesis_analytics import import_application as convert
    from headrace.sql.types import SqlError

    try:
        text = convert(json.loads(application.read_text(encoding="utf-8")))
    except SqlError as error:
        raise fail(f"{application}: {error.message}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise fail(f"{application} is no description of an application: {error}") from error
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


@sql.command()
@click.argument("queries", type=_PATH)
@click.argument("select", metavar="'SELECT ..'")
@_dialect_option
@click.option("--checkpoint", metavar="s3://...", help="As of `headrace sql run`.")
@endpoint_option
def query(
    queries: Path,
    select: str,
    *,
    dialect: str,
    checkpoint: str | None,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Show rows of a table of QUERIES, without Spark. They are what `headrace sql run` keeps; a line is a row.

    `SELECT .. FROM table WHERE key = ..` ends with what is there; with EMIT CHANGES it follows the table until Ctrl-C.
    A stream's rows are read from its oldest record on.
    """
    from headrace.cli.sql_prompt import answer, make_session

    if not select.strip(" \n;"):
        raise fail("there is no SELECT to answer")
    if checkpoint is None and aws:
        raise fail("--aws needs --checkpoint: the folder that `headrace sql run` was given")
    checkpoint = checkpoint or _checkpoint(region, queries.resolve().stem)
    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    answer(make_session(_analyse(queries, dialect, **reach), checkpoint, **reach), select)


@sql.command()
@click.argument("queries", type=_PATH)
@_dialect_option
@click.option("--once", is_flag=True, help="End when what is in the streams has been read.")
@click.option(
    "--checkpoint",
    metavar="s3://...",
    help="The folder of the queries' progress; with --aws: needed.",
)
@click.option(
    "--cluster", "cluster_id", help="The EMR cluster; default: a running one, else a new one."
)
@click.option("--bucket", help="The bucket for the job; AWS's must be yours.")
@click.option(
    "--errors",
    metavar="STREAM",
    help="A stream for the records that cannot be read; made on demand.",
)
@click.option(
    "--packages",
    type=_PATH,
    metavar="ZIP",
    help="A zip of Python packages for the job: pandas and PyArrow, for MATCH_RECOGNIZE.",
)
@endpoint_option
@click.pass_context
def run(
    context: click.Context,
    queries: Path,
    *,
    dialect: str,
    once: bool,
    checkpoint: str | None,
    cluster_id: str | None,
    bucket: str | None,
    packages: Path | None,
    errors: str | None,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Run QUERIES as a step of EMR. It goes on from its checkpoint, and ends at Ctrl-C.

    A stream that a query writes to and that is not there is made, on demand; so are those of late rows and errors.
    """
    from headrace.cli.submit import submit

    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    script = _read(queries, dialect, **reach)
    _warn(script)
    if once:
        _warn_of_open_windows(script)
    source = _compile(script, queries)
    _check_options(script, errors=errors, packages=packages, checkpoint=checkpoint, aws=aws)
    name = queries.resolve().stem
    checkpoint = f"{(checkpoint or _checkpoint(region, name)).rstrip('/')}/"
    _prepare_cloud(script, checkpoint, errors, reach)
    spoken = [] if dialect == "ksql" else ["--dialect", dialect]
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / f"{name}.py"
        job.write_text(source, encoding="utf-8")
        # A step has its cloud's endpoint in its environment: so the printed commands are right on AWS too.
        arguments = ["--region", region, "--checkpoint", checkpoint]
        if errors:
            arguments += ["--errors", errors]
        context.invoke(
            submit,
            job=job,
            arguments=(*arguments, *(["--once"] if once else [])),
            cluster_id=cluster_id,
            bucket=bucket,
            made_by=shlex.join(
                ["headrace", "sql", "compile", str(queries), "-o", job.name, *spoken]
            ),
            **({} if packages is None else _unpacking_options(packages)),
            **reach,
        )


_CHECKPOINT_SCHEMES = ("s3", "s3a", "s3n", "hdfs", "file")


def _check_options(
    script: Script, *, errors: str | None, packages: Path | None, checkpoint: str | None, aws: bool
) -> None:
    """End the command if the queries cannot run with its options."""
    if errors in _read_streams(script):
        raise fail(
            f"the queries read {errors}, and so the records of --errors: name another stream"
        )
    if packages is None and any(query.match is not None for query in script.queries):
        raise fail(
            "MATCH_RECOGNIZE needs pandas and PyArrow in the job, which EMR's images lack: --packages packages.zip, of "
            "`pip install --target packages pandas pyarrow && cd packages && zip -r ../packages.zip .` for EMR's Python"
        )
    scheme, is_url, _ = (checkpoint or "").partition("://")
    if is_url and scheme not in _CHECKPOINT_SCHEMES:
        raise fail(f"--checkpoint {checkpoint}: Spark stores in {', '.join(_CHECKPOINT_SCHEMES)}")
    if checkpoint is None and aws:
        raise fail(
            "--aws needs --checkpoint: a folder in your bucket, such as s3://BUCKET/checkpoints/delays/"
        )


def _prepare_cloud(
    script: Script, checkpoint: str, errors: str | None, reach: dict[str, Any]
) -> None:
    """Make the streams that the queries write; ends the command if they lack streams to read, or cannot go on."""
    kinesis = client("kinesis", **reach)
    _check_sources(script, kinesis)
    _check_progress(script, checkpoint, client("s3", **reach))
    for stream in (*_targets(script), *([errors] if errors else ())):
        _make_stream(kinesis, stream)


def _check_sources(script: Script, kinesis: Any) -> None:
    """End the command if streams that the queries read are not there, with a sentence for each."""
    from botocore.exceptions import BotoCoreError, ClientError

    problems: list[str] = []
    for stream in _sources(script):
        try:
            kinesis.describe_stream_summary(StreamName=stream)
        except kinesis.exceptions.ResourceNotFoundException as error:
            problems.append(explain_stream(error, kinesis, stream).message)
        except (BotoCoreError, ClientError) as error:
            raise explain(error) from error
    if problems:
        raise fail("\n".join(problems))


def _unpacking_options(packages: Path) -> dict[str, Any]:
    """Return the options of `submit` that unpack a zip where the driver and its executors import from."""
    names = ("spark.yarn.appMasterEnv.PYTHONPATH", "spark.executorEnv.PYTHONPATH")
    return {
        "archives": (f"{packages}#packages",),
        "conf": tuple(f"{name}=./packages" for name in names),
    }


def _check_progress(script: Script, checkpoint: str, s3: Any) -> None:
    """End the command if a query cannot go on from its progress, as the job does, before a cluster is made for it."""
    from botocore.exceptions import BotoCoreError, ClientError

    from headrace.sql.pyspark_job import progress_problem, state_of
    from headrace.sql.views import S3Files

    s3_url = split_s3_url(checkpoint)
    if s3_url is None:
        return
    problems: list[str] = []
    try:
        for query in script.queries:
            files = S3Files(s3, s3_url[0], f"{s3_url[1]}{query.name}/")
            entries = files.entries()
            stored = files.read("state.json").decode() if "state.json" in entries else ""
            folder = f"{checkpoint}{query.name}/"
            problems.append(
                progress_problem(query.name, folder, entries, stored, state_of(query, script))
            )
    except s3.exceptions.NoSuchBucket:
        return
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error
    if any(problems):
        raise fail("\n".join(filter(None, problems)))


def _checkpoint(region: str, name: str) -> str:
    """Return the folder of progress on the local cloud, in the bucket that `submit` makes."""
    return f"s3://headrace-submit-{region}/checkpoints/{name}/"


def _sources(script: Script) -> list[str]:
    """Return the streams that must be there: those that queries read, and none of them writes."""
    return sorted(_read_streams(script) - set(_targets(script)))


def _read_streams(script: Script) -> set[str]:
    inputs = [source.relation for query in script.queries for source in query.inputs()]
    return {relation.stream for relation in inputs if relation.stream and not relation.is_object}


def _targets(script: Script) -> Iterator[str]:
    streams = {
        q.target.stream or q.target.name
        for q in script.queries
        if q.target is not None and not script.is_internal(q.target)
    }
    yield from sorted(streams | script.streams_aside())


def _make_stream(kinesis: Any, stream: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        try:
            kinesis.describe_stream_summary(StreamName=stream)
        except kinesis.exceptions.ResourceNotFoundException:
            kinesis.create_stream(StreamName=stream, StreamModeDetails={"StreamMode": "ON_DEMAND"})
            kinesis.get_waiter("stream_exists").wait(
                StreamName=stream, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
            )
            click.echo(f"made the stream {stream}", err=True)
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error
