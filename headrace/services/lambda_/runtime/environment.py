"""What a function process is started with: command, environment variables, directories.

The variables are those of https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html (documented).
Layers are `/opt` where a process can have one of its own (see `isolation`), and on PYTHONPATH, NODE_PATH, PATH and
LD_LIBRARY_PATH everywhere. There is no `/var/task`: LAMBDA_TASK_ROOT names the real directory.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.runtime.isolation import OPT, Isolation

HERE = Path(__file__).parent
NODE_CLIENT = HERE / "node_client.cjs"
NODE_SHIM = HERE / "node_shim.cjs"
NODE_PATH_VARIABLE = "HEADRACE_NODE_PATH"

# A function may not set these. Source: the page above, "Reserved environment variables".
RESERVED_VARIABLES = frozenset(
    {
        "_HANDLER",
        "_X_AMZN_TRACE_ID",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
        "AWS_EXECUTION_ENV",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "AWS_LAMBDA_LOG_GROUP_NAME",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_LAMBDA_RUNTIME_API",
        "LAMBDA_TASK_ROOT",
        "LAMBDA_RUNTIME_DIR",
    }
)


class RuntimeMissing(Exception):
    """This machine lacks what a runtime needs; the text says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Everything that one function version's processes are made from.

    Attributes:
        layer_dirs: unpacked layers, the first of the function's list first.
        opt_dir: what `/opt` would hold: the layers laid over each other; None without layers.
        environment: the function's own variables.
        application_log_level, system_log_level: of JSON logs.
        initialization_type: `on-demand` or `provisioned-concurrency`.
        storage_mib: the size of the function's /tmp.
        secret: with which it signs what it asks of this cloud, its account's number being the key.
    """

    account: str
    region: str
    name: str
    version: str
    runtime: str
    handler: str
    code_dir: Path
    layer_dirs: tuple[Path, ...]
    environment: tuple[tuple[str, str], ...]
    timeout_s: float
    memory_mib: int
    log_group: str
    log_format: str
    endpoint_url: str
    application_log_level: str = "INFO"
    system_log_level: str = "INFO"
    initialization_type: str = "on-demand"
    storage_mib: int = 512
    opt_dir: Path | None = None
    secret: str = field(default="headrace", repr=False)


def check_runtime(runtime: str) -> None:
    """Refuse, at creation, what could never run here. Raises AwsError."""
    if not runtime.startswith(("python3", "nodejs", "provided")):
        raise invalid_parameter(
            f"headrace cannot run the runtime {runtime}; it runs python3.*, nodejs* and provided*"
        )


@functools.cache
def _node_major() -> str:
    """Return the major version of the node on PATH, empty when there is none that tells."""
    node = shutil.which("node")
    if node is None:
        return ""
    asked = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return asked.stdout.strip().removeprefix("v").partition(".")[0]


def runtime_remark(runtime: str) -> str | None:
    """Return a sentence when another version than the declared one runs a function here."""
    running = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if runtime.startswith("nodejs"):
        major = _node_major()
        running = f"nodejs{major}.x" if major else runtime
    if not runtime.startswith(("python", "nodejs")) or runtime == running:
        return None
    return f"{runtime} is declared; {running} runs it"


def command(spec: SandboxSpec) -> list[str]:
    """Return the process's arguments. Raises RuntimeMissing."""
    if spec.runtime.startswith("python"):
        return [sys.executable, "-m", "awslambdaric", spec.handler]
    if spec.runtime.startswith("nodejs"):
        node = shutil.which("node")
        if node is None:
            raise RuntimeMissing(
                f"The runtime {spec.runtime} needs Node.js 20 or newer on this machine's PATH; install it."
            )
        return [node, "--require", str(NODE_SHIM), str(NODE_CLIENT), spec.handler]
    bootstrap = spec.code_dir / "bootstrap"
    for directory in reversed(spec.layer_dirs):
        if not bootstrap.exists():
            bootstrap = directory / "bootstrap"
    if not bootstrap.exists():
        raise RuntimeMissing(
            "Couldn't find valid bootstrap(s): [/var/task/bootstrap /opt/bootstrap]"
        )
    if not os.access(bootstrap, os.X_OK):
        raise RuntimeMissing(f"fork/exec {bootstrap}: permission denied")
    return [str(bootstrap)]


def wrapper(spec: SandboxSpec, isolation: Isolation) -> list[str]:
    """Return the script that starts the runtime in its place, when the function names one.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html (documented).
    """
    script = dict(spec.environment).get("AWS_LAMBDA_EXEC_WRAPPER")
    if not script:
        return []
    path = Path(script)
    if isolation.opt is None and path.is_relative_to(OPT):
        # There is no /opt: the layer that holds it, the last first.
        inside = (d / path.relative_to(OPT) for d in reversed(spec.layer_dirs))
        path = next((p for p in inside if p.exists()), path)
    return [str(path)]


def node_path() -> list[str]:
    """Return the folders in which Node.js functions find the AWS SDK that Lambda's runtime brings.

    HEADRACE_NODE_PATH (separated as PATH is) or, in a checkout, the folders where its scripts install.
    """
    configured = os.environ.get(NODE_PATH_VARIABLE)
    if configured:
        return configured.split(os.pathsep)
    checkout = HERE.parents[3]
    candidates = (checkout / "node_modules", checkout / "cdk" / "node_modules")
    return [str(path) for path in candidates if path.is_dir()]


def build_environment(
    spec: SandboxSpec, *, runtime_api: str, log_stream: str, isolation: Isolation
) -> dict[str, str]:
    """Return the process's whole environment; nothing of the cloud's own leaks in but PATH."""
    # The last layer lies on top of the others.
    layers = tuple(reversed(spec.layer_dirs)) if isolation.opt is None else (OPT,)
    paths = [*(str(d / "bin") for d in layers), os.environ.get("PATH", os.defpath)]
    environment = {
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "HOME": str(isolation.tmp),
        "TMPDIR": str(isolation.tmp),
        "PATH": os.pathsep.join(paths),
        "LAMBDA_TASK_ROOT": str(spec.code_dir),
        "LAMBDA_RUNTIME_DIR": str(HERE),
        **_of_the_function(spec),
        "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
        **dict(spec.environment),
        "_HANDLER": spec.handler,
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
    }
    _add_folders(environment, spec, layers)
    return environment


def _of_the_function(spec: SandboxSpec) -> dict[str, str]:
    """Return what Lambda tells a function of itself, and how it reaches this cloud."""
    variables = {
        "AWS_REGION": spec.region,
        "AWS_DEFAULT_REGION": spec.region,
        # A 12-digit access key is its own account to this cloud.
        "AWS_ACCESS_KEY_ID": spec.account,
        "AWS_SECRET_ACCESS_KEY": spec.secret,
        "AWS_SESSION_TOKEN": "headrace",
        "AWS_ENDPOINT_URL": spec.endpoint_url,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{spec.runtime}",
        "AWS_LAMBDA_FUNCTION_NAME": spec.name,
        "AWS_LAMBDA_FUNCTION_VERSION": spec.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mib),
        "AWS_LAMBDA_INITIALIZATION_TYPE": spec.initialization_type,
        "AWS_LAMBDA_LOG_GROUP_NAME": spec.log_group,
        "AWS_LAMBDA_LOG_FORMAT": spec.log_format,
        "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
        # The user's own profile must not reach into a function.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if spec.log_format == "JSON":
        variables["AWS_LAMBDA_LOG_LEVEL"] = spec.application_log_level
    return variables


def _add_folders(environment: dict[str, str], spec: SandboxSpec, layers: Sequence[Path]) -> None:
    """Add where layers hold packages and libraries, after the function's own."""
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = ("python", f"python/lib/{python}/site-packages")
    _extend(environment, "PYTHONPATH", [str(d / part) for d in layers for part in packages])
    libraries = [*(str(d / "lib") for d in layers), str(spec.code_dir / "lib")]
    _extend(environment, "LD_LIBRARY_PATH", [path for path in libraries if layers])
    modules = [str(d / "nodejs" / "node_modules") for d in layers]
    _extend(environment, "NODE_PATH", [*modules, *node_path()])


def _extend(environment: dict[str, str], name: str, more: list[str]) -> None:
    own = environment.get(name)
    folders = [*([own] if own else []), *more]
    if folders:
        environment[name] = os.pathsep.join(folders)
