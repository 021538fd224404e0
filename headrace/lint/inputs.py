"""Turns the arguments of `headrace lint` into files that cfn-lint reads: templates, cdk.out folders, CDK apps.

Holds the templates of one run and their exports, so that a rule can follow Fn::ImportValue into another file, and which
construct of a CDK app made which resource.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from headrace.core.cdk_apps import AppFailed, synthesise
from headrace.core.values import as_mapping

_TEMPLATES = ("template.yaml", "template.yml", "template.json")


class NothingToLint(Exception):
    """An argument leads to no template; the text is one sentence."""


def templates_of(
    path: Path,
    scratch: Path,
    *,
    region: str,
    context: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Return the templates at a path; a CDK app is synthesised below `scratch`. Raises NothingToLint.

    A folder counts as the first that fits: a cdk.out (manifest.json), a CDK app (cdk.json), or a folder with a
    template.yaml, template.yml or template.json, as `sam init` makes it. `say` gets a line before what takes long.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise NothingToLint(f"There is no {path} to lint")
    if (path / "manifest.json").is_file():
        return _of_assembly(path)
    if (path / "cdk.json").is_file():
        out = scratch / f"cdk.out-{len(list(scratch.iterdir()))}"
        account = os.environ.get("CDK_DEFAULT_ACCOUNT", "000000000000")
        region = os.environ.get("CDK_DEFAULT_REGION", region)
        say(f"Synthesizing the CDK app in {path} ...")
        try:
            synthesise(path, out, account=account, region=region, context=context or {})
        except AppFailed as failed:
            raise NothingToLint(str(failed)) from failed
        return _of_assembly(out)
    templates = [path / name for name in _TEMPLATES if (path / name).is_file()]
    if not templates:
        names = ", ".join(("manifest.json", "cdk.json", *_TEMPLATES[:-1]))
        raise NothingToLint(f"{path} has nothing to lint: no {names} or {_TEMPLATES[-1]}")
    return templates[:1]


def _of_assembly(out: Path) -> list[Path]:
    """Return the templates of a cloud assembly, of its stages, and of their nested stacks."""
    stacks = sorted(_stacks_of(out))
    if not stacks:
        raise NothingToLint(f"{out} has no stack to lint")
    return stacks


def _stacks_of(out: Path) -> Iterator[Path]:
    try:
        artifacts: dict[str, Any] = json.loads((out / "manifest.json").read_text())["artifacts"]
        for artifact in artifacts.values():
            properties: dict[str, Any] = artifact.get("properties", {})
            if artifact["type"] == "aws:cloudformation:stack":
                _note_constructs(out, artifact)
                yield out / properties["templateFile"]
            elif artifact["type"] == "cdk:cloud-assembly":
                yield from _stacks_of(out / properties["directoryName"])
    except (KeyError, TypeError, AttributeError, ValueError, OSError, RecursionError) as error:
        raise NothingToLint(
            f"{out / 'manifest.json'} is not a manifest of the CDK: {error!r}"
        ) from error
    yield from out.glob("*.nested.template.json")


def _note_constructs(out: Path, artifact: Mapping[str, Any]) -> None:
    """Remember which constructs made a stack's resources: without the CDK CLI, only the assembly's metadata says it."""
    metadata: dict[str, list[dict[str, Any]]] = dict(artifact.get("metadata") or {})
    file = str(artifact.get("additionalMetadataFile") or "")
    if file:
        metadata |= json.loads((out / file).read_text())
    said = [
        (path, str(one["type"]), str(one.get("data")))
        for path, of in metadata.items()
        for one in of
    ]
    templates = {path: data for path, kind, data in said if kind == "aws:cdk:templateFile"}
    for path, kind, data in said:
        if kind == "aws:cdk:logicalId":
            stacks = [one for one in templates if path.startswith(f"{one}/")]
            own = (
                templates[max(stacks, key=len)]
                if stacks
                else artifact["properties"]["templateFile"]
            )
            _constructs[str(out / own), data] = path.removeprefix("/")


def keep_templates(files: list[Path], scratch: Path, kept: Path) -> list[Path]:
    """Copy the templates below `scratch` to `kept`, so that findings name files that stay; return where all are.

    Where `kept` cannot be written, as in a container without a home, findings name the files of `scratch`.
    """
    where: list[Path] = []
    try:
        for file in files:
            if scratch in file.parents:
                place = kept / file.relative_to(scratch)
                place.parent.mkdir(parents=True, exist_ok=True)
                _constructs.update(
                    {
                        (str(place), name): path
                        for (source, name), path in _constructs.items()
                        if source == str(file)
                    }
                )
                file = Path(shutil.copyfile(file, place))
            where.append(file)
    except OSError:
        return files
    return where


def template_of_stack(stacks: Any, name: str, scratch: Path) -> Path:
    """Write a deployed stack's template below `scratch`, with the parameters' values as their defaults.

    Args:
        stacks: a boto3 client of CloudFormation, headrace's or AWS's; its exceptions go to the caller.
        name: the stack's name or id.
        scratch: an existing folder.
    """
    from cfnlint.decode.decode import decode_str

    body: Any = stacks.get_template(StackName=name, TemplateStage="Processed")["TemplateBody"]
    stack: Any = stacks.describe_stacks(StackName=name)["Stacks"][0]
    if isinstance(body, str):
        template, errors = decode_str(body)
        if errors:
            raise NothingToLint(f"The template of stack {name} cannot be read: {errors[0].message}")
        body = template
    parameters = body.get("Parameters", {})
    for entry in stack.get("Parameters", ()):
        parameter = parameters.get(entry["ParameterKey"])
        if parameter is None or parameter.get("NoEcho"):
            continue
        if not str(parameter.get("Type")).startswith("AWS::SSM"):
            parameter["Default"] = entry["ParameterValue"]
    path = scratch / f"{stack['StackName']}.template.json"
    path.write_text(json.dumps(body, indent=1, default=str))
    return path


# File and logical id of a resource -> the path of its construct.
_constructs: dict[tuple[str, str], str] = {}
_templates: dict[str, dict[str, Any]] = {}
_exports: dict[str, tuple[str, Any]] = {}


def remember_templates(templates: Mapping[str, dict[str, Any]]) -> None:
    """Store the templates that are linted together, by file name, and forget the former ones. Not thread-safe."""
    _templates.clear()
    _templates.update(templates)
    _exports.clear()
    for source, template in _templates.items():
        for output in _values(template.get("Outputs")):
            export: Any = output.get("Export")
            name: Any = cast("Any", export).get("Name") if isinstance(export, Mapping) else None
            if isinstance(name, str):
                _exports[name] = (source, output.get("Value"))


def find_export(name: str) -> tuple[str, Any] | None:
    """Return the file whose template exports `name`, and the value that it exports."""
    return _exports.get(name)


def find_construct(source: str, name: str, body: Mapping[str, Any]) -> str:
    """Return the path of the construct that made a resource of a file; empty if neither it nor an assembly says it."""
    resource = as_mapping(as_mapping(body.get("Resources")).get(name))
    noted = as_mapping(resource.get("Metadata")).get("aws:cdk:path")
    return str(noted or _constructs.get((source, name), "")).removesuffix("/Resource")


def templates_together() -> dict[str, dict[str, Any]]:
    """Return all templates of this run by file name; none when cfn-lint runs the rules by itself."""
    return _templates


def _values(outputs: Any) -> list[dict[str, Any]]:
    if not isinstance(outputs, Mapping):
        return []
    named = cast("Mapping[str, Any]", outputs)
    return [cast("dict[str, Any]", one) for one in named.values() if isinstance(one, Mapping)]
