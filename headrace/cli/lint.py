"""`headrace lint`: cfn-lint with rules that know streaming, over templates, CDK apps and deployed stacks."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import glob
import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click

from headrace.cli.options import client, endpoint_option, explain, fail
from headrace.core.config import cache_home
from headrace.core.extras import install_command

_FORMATS = ("default", "quiet", "parseable", "json", "junit", "pretty", "sarif")
_OWN_RULES = "headrace.lint.rules"
# A DependsOn that a Ref implies. The CDK writes it for every dependency, and nobody can take it away.
_OBSOLETE_DEPENDENCY = "W3005"


@click.command()
@click.argument(
    "sources", nargs=-1, type=click.Path(path_type=Path), metavar="[TEMPLATE|FOLDER]..."
)
@click.option(
    "--stack", "stacks", multiple=True, metavar="NAME", help="Also lint a deployed stack."
)
@endpoint_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice(_FORMATS),
    default="default",
    show_default=True,
    help="Of the output.",
)
@click.option(
    "-i", "--ignore", multiple=True, metavar="ID", help="Skip rules whose id begins with this."
)
@click.option(
    "-x",
    "--configure",
    multiple=True,
    metavar="ID:KEY=VALUE",
    help="Set a quota: W9070:shards=1000.",
)
@click.option(
    "-c", "--context", multiple=True, metavar="KEY=VALUE", help="A context value for the CDK app."
)
@click.option("--only-streaming", is_flag=True, help="Skip cfn-lint's own rules.")
@click.option(
    "--local", is_flag=True, help="Also report what headrace itself refuses, stores or ignores."
)
@click.option("--list-rules", is_flag=True, help="Print headrace's rules, and end.")
def lint(
    sources: tuple[Path, ...],
    *,
    stacks: tuple[str, ...],
    endpoint_url: str,
    region: str,
    aws: bool,
    output_format: str,
    ignore: tuple[str, ...],
    configure: tuple[str, ...],
    context: tuple[str, ...],
    only_streaming: bool,
    local: bool,
    list_rules: bool,
) -> None:
    """Find before you deploy what loses records or is refused. It also finds what blocks a shard.

    SOURCES are templates, cdk.out folders, or folders of CDK and SAM apps; default: the current folder. They are linted
    together: exports of one are resolved in the others. --stack lints a deployed stack, on headrace or, with --aws, on
    AWS.

    Exit codes are cfn-lint's: 0 without findings, 2 with errors, 4 with warnings, 6 with both; 1 when nothing could
    be read.
    """
    _check_installed()
    if list_rules:
        _print_rules()
        return
    # Imported here, since the import takes long and other commands do not need it.
    import tempfile

    from headrace.lint.inputs import (
        NothingToLint,
        keep_templates,
        template_of_stack,
        templates_of,
    )

    with tempfile.TemporaryDirectory(prefix="headrace-lint-") as folder:
        scratch = Path(folder)
        files: list[Path] = []
        try:
            for source in sources or (() if stacks else (Path(),)):
                pairs = dict(_pair(one) for one in context)
                files += templates_of(source, scratch, region=region, context=pairs, say=_say)
            for name in stacks:
                cloud = client("cloudformation", endpoint_url=endpoint_url, region=region, aws=aws)
                files.append(_fetch_deployed(template_of_stack, cloud, name, scratch))
        except NothingToLint as error:
            raise fail(f"{error}.") from error
        files = keep_templates(files, scratch, _kept_folder(sources, stacks))
        arguments = ["--append-rules", _OWN_RULES, "--regions", region]
        if output_format != "default":
            arguments += ["--format", output_format]
        for option, values in (("--ignore-checks", ignore), ("--configure-rule", configure)):
            for value in values:
                arguments += [option, value]
        _run(list(dict.fromkeys(files)), arguments, only_streaming=only_streaming, local=local)


def _say(line: str) -> None:
    """Print a line for whoever waits at a terminal."""
    if sys.stderr.isatty():
        click.echo(line, err=True)


def _kept_folder(sources: tuple[Path, ...], stacks: tuple[str, ...]) -> Path:
    """Return where the templates of CDK apps and deployed stacks stay until the next run with the same arguments."""
    asked = "\0".join([str(Path.cwd()), *map(str, sources), *stacks])
    name = f"{Path.cwd().name}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"
    return cache_home() / "headrace/lint" / name


def _check_installed() -> None:
    try:
        import cfnlint  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise fail(f"headrace lint needs cfn-lint: {install_command('lint')}") from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise fail(f"--context takes KEY=VALUE, not {text!r}.")
    return name, value


def _fetch_deployed(read: Any, cloud: Any, name: str, scratch: Path) -> Path:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return cast("Path", read(cloud, name, scratch))
    except (ClientError, BotoCoreError) as error:
        raise explain(error) from error


def _print_rules() -> None:
    from headrace.lint.rules import RULES

    for rule in RULES:
        click.echo(f"{rule.id}  {rule.shortdesc}\n       {rule.source_url}")


def _name_constructs(matches: Iterable[Any]) -> Iterator[Any]:
    """Yield cfn-lint's findings, each with its construct of the CDK, without those about what the CDK itself writes."""
    from headrace.lint.inputs import find_construct, templates_together

    for match in matches:
        path = getattr(match, "path", None) or ()
        construct = ""
        if len(path) > 1 and path[0] == "Resources":
            body = templates_together().get(match.filename, {})
            construct = find_construct(match.filename, str(path[1]), body)
        if construct and match.rule.id == _OBSOLETE_DEPENDENCY:
            continue
        if construct and f"({construct})" not in match.message:
            message = f"{match.message} ({construct})"
            match = replace(match, message=message, rulematch_obj=match)
        yield match


def _run(files: list[Path], arguments: list[str], *, only_streaming: bool, local: bool) -> None:
    """Lint the files with cfn-lint's own runner, which prints and exits."""
    from cfnlint.config import ConfigMixIn
    from cfnlint.decode import decode
    from cfnlint.rules import Rules
    from cfnlint.runner import Runner

    from headrace.lint.inputs import remember_templates

    class OfApps(Runner):
        def run(self) -> Iterator[Any]:
            yield from _name_constructs(super().run())

    class OnlyStreaming(OfApps):
        def _get_rules(self) -> None:
            self.rules = Rules.create_from_module(_OWN_RULES)
            # cfn-lint's rules for templates that cannot be read, and for rules that fail.
            self.rules.update(Rules.create_from_module("cfnlint.rules.errors"))

    for file in files:
        # cfn-lint treats a file name as a glob pattern.
        arguments += ["--template", glob.escape(str(file))]
    try:
        config = ConfigMixIn(arguments)
        runner = OnlyStreaming(config) if only_streaming else OfApps(config)
        if local:
            from headrace.cli.lint_fidelity import NotActedOnHere, UnknownHere

            runner.rules.extend([UnknownHere(), NotActedOnHere()])
        decoded = {str(file): decode(str(file)) for file in files}
        bodies = {name: body for name, (body, _) in decoded.items() if isinstance(body, dict)}
        remember_templates(bodies)
        for name, (_, errors) in decoded.items() if only_streaming else ():
            # cfn-lint's own rules check this when they run.
            if not errors and not isinstance(bodies.get(name, {}).get("Resources"), dict):
                raise fail(f"{name} is not a template: it has no Resources.")
        runner.cli()
    except (ValueError, OSError) as error:
        raise fail(" ".join(str(error).split())) from error
