"""The command, the environment variables and the directories with which a function process is started.

Source of the variables: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html (documented). Where the
machine permits walls (see `walls`), code is at `/var/task` and layers are at `/opt`. Elsewhere LAMBDA_TASK_ROOT names
the real directory. In both cases layers are on PYTHONPATH, NODE_PATH, PATH and LD_LIBRARY_PATH.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.aws.signatures.access_keys import Credentials
from headrace.services.lambda_.errors import (
    KNOWN_RUNTIMES,
    LAYER_RUNTIMES,
    RUNTIMES,
    invalid_parameter,
)
from headrace.services.lambda_.runtime.sdk_modules import find_sdk_folder

HERE = Path(__file__).parent
PYTHON_CLIENT = HERE / "python_client.py"
NODE_CLIENT = HERE / "node_client.cjs"
# Preloaded, in this order.
NODE_SHIMS = (HERE / "node_shim.cjs", HERE / "node_sdk.cjs")
NODE_PATH_VARIABLE = "HEADRACE_NODE_PATH"
OPT = Path("/opt")
# By these, OpenSSL, `requests`, curl and Node.js find the authorities that they trust. A function may set its own.
_NODE_TRUST = "NODE_EXTRA_CA_CERTS"
_TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", _NODE_TRUST)
# Of a Node.js function, those that say whom it trusts, and the option by which OpenSSL reads SSL_CERT_FILE.
_NODES_TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR", _NODE_TRUST)
_OPENSSLS_OWN = "--use-openssl-ca"

# A function may not set these variables. Source: the page above, "Reserved environment variables".
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
    """This machine lacks a program that a runtime needs; the text says what to install."""


def trust_the_machine() -> Path | None:
    """Return no file of authorities: functions trust those of their machine."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """The settings from which the processes of one function version are made.

    Attributes:
        layer_dirs: the unpacked layers, in the order of the function's list.
        trust_file: the authorities that the function trusts for TLS; None for the machine's own.
        opt_dir: the contents of `/opt` (all layers merged into one directory); None without layers.
        environment: the function's own environment variables.
        application_log_level, system_log_level: the log levels for JSON logs.
        initialization_type: `on-demand` or `provisioned-concurrency`.
        storage_mib: the size of the function's /tmp.
        role: the ARN of the function's role.
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
    role: str
    application_log_level: str = "INFO"
    system_log_level: str = "INFO"
    initialization_type: str = "on-demand"
    storage_mib: int = 512
    opt_dir: Path | None = None
    trust_file: Path | None = None


@dataclass(frozen=True, slots=True)
class ProcessPaths:
    """The paths, as a process sees them, of its code, layers and temporary files.

    Attributes:
        task: the directory of the code.
        opt: the directory of the merged layers; None when each layer is only where it was unpacked.
        tmp: the directory for temporary files.
        trust: the file of the authorities that are trusted; None for the machine's own.
        path: the value of PATH.
    """

    task: Path
    opt: Path | None
    tmp: Path
    path: str
    trust: Path | None = None


def check_runtime(runtime: str) -> None:
    """Refuse to create a function whose runtime headrace cannot run. Raises AwsError."""
    if runtime not in KNOWN_RUNTIMES:
        raise invalid_parameter(_explain_refusal(runtime))
    if not runtime.startswith(("python3", "nodejs", "provided")):
        raise invalid_parameter(
            f"headrace cannot run the runtime {runtime}; it runs python3.*, nodejs* and provided*"
        )


def _explain_refusal(runtime: str) -> str:
    """Return AWS's message for a runtime that never existed or is no longer supported."""
    if runtime in LAYER_RUNTIMES:
        return (
            f"The runtime parameter of {runtime} is no longer supported for creating or updating AWS Lambda functions. "
            "We recommend you use a supported runtime while creating or updating functions."
        )
    return (
        f"Value {runtime} at 'runtime' failed to satisfy constraint: Member must satisfy enum value set: "
        f"[{', '.join(RUNTIMES)}] or be a valid ARN"
    )


@functools.cache
def _find_node(program: str) -> tuple[str, str]:
    """Return the path and the major version of Node.js, which the program `program` on PATH starts.

    That program may be the shim of a version manager, which starts another program and needs files of its own.
    """
    path = Path(program).resolve()
    if path.name == "node" and not _is_script(path):
        # Node.js itself: it prints its version without starting its engine, in a tenth of the time.
        version = _ask_node(program, "--version")
    else:
        asked = _ask_node(program, "-p", "process.execPath + ' ' + process.version")
        found, _, version = asked.rpartition(" ")
        path = Path(found or program)
    return str(path), version.removeprefix("v").partition(".")[0]


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _ask_node(*command: str) -> str:
    """Return what Node.js prints; nothing if it fails."""
    asked = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return asked.stdout.strip()


def find_node_program() -> str | None:
    """Return the path of Node.js, or None when it is not on PATH."""
    program = shutil.which("node")
    return None if program is None else _find_node(program)[0]


def explain_runtime(runtime: str) -> str | None:
    """Return a sentence if a function runs with another version than its declared runtime's, otherwise None."""
    running = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if runtime.startswith("nodejs"):
        program = shutil.which("node")
        major = _find_node(program)[1] if program else ""
        running = f"nodejs{major}.x" if major else runtime
    if not runtime.startswith(("python", "nodejs")) or runtime == running:
        return None
    return f"{runtime} is declared; {running} runs it"


def build_command(spec: SandboxSpec, places: ProcessPaths) -> list[str]:
    """Return the process's arguments. Raises RuntimeMissing."""
    if spec.runtime.startswith("python"):
        return [sys.executable, str(PYTHON_CLIENT), spec.handler]
    if spec.runtime.startswith("nodejs"):
        node = find_node_program()
        if node is None:
            raise RuntimeMissing(
                f"The runtime {spec.runtime} needs Node.js 20 or newer on this machine's PATH; install it."
            )
        trusting = [_OPENSSLS_OWN] if _is_trust_read_late(spec, places) else []
        preloaded = [part for shim in NODE_SHIMS for part in ("--require", str(shim))]
        return [node, *trusting, *preloaded, str(NODE_CLIENT), spec.handler]
    return [str(_find_bootstrap(spec, places))]


def _is_trust_read_late(spec: SandboxSpec, places: ProcessPaths) -> bool:
    """Whether a Node.js process reads its authorities at its first TLS connection, from SSL_CERT_FILE.

    Node.js 20 reads NODE_EXTRA_CA_CERTS at its start, which takes two thirds of that; so `node_shim.cjs` sets it after
    the start. A function that says itself whom it trusts has Node.js's own way.
    """
    own = dict(spec.environment)
    says = not own.keys().isdisjoint(_NODES_TRUST) or "-ca" in own.get("NODE_OPTIONS", "")
    return places.trust is not None and spec.runtime.startswith("nodejs") and not says


def _find_bootstrap(spec: SandboxSpec, places: ProcessPaths) -> Path:
    """Return the path, as the process sees it, of a custom runtime's program. Raises RuntimeMissing."""
    for directory in (spec.code_dir, *reversed(spec.layer_dirs)):
        bootstrap = directory / "bootstrap"
        if bootstrap.exists():
            if not os.access(bootstrap, os.X_OK):
                raise RuntimeMissing(f"fork/exec {bootstrap}: permission denied")
            if directory == spec.code_dir:
                return places.task / "bootstrap"
            return (places.opt or directory) / "bootstrap"
    raise RuntimeMissing("Couldn't find valid bootstrap(s): [/var/task/bootstrap /opt/bootstrap]")


def list_wrapper(spec: SandboxSpec, places: ProcessPaths) -> list[str]:
    """Return the wrapper script that starts the runtime, if the function names one.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html (documented).
    """
    script = dict(spec.environment).get("AWS_LAMBDA_EXEC_WRAPPER")
    if not script:
        return []
    path = Path(script)
    if places.opt is None and path.is_relative_to(OPT):
        # There is no /opt: search the layers, the last one first.
        inside = (d / path.relative_to(OPT) for d in reversed(spec.layer_dirs))
        path = next((p for p in inside if p.exists()), path)
    return [str(path)]


def list_node_path() -> list[str]:
    """Return the folders in which Node.js functions find the AWS SDK, which Lambda's runtime contains.

    They are in HEADRACE_NODE_PATH (in the form of PATH) or, in a checkout, are those into which its scripts install.
    """
    configured = os.environ.get(NODE_PATH_VARIABLE)
    if configured:
        return configured.split(os.pathsep)
    checkout = HERE.parents[3]
    candidates = (checkout / "node_modules", checkout / "cdk" / "node_modules")
    return [str(path) for path in candidates if path.is_dir()]


def build_environment(
    spec: SandboxSpec,
    *,
    runtime_api: str,
    log_stream: str,
    places: ProcessPaths,
    credentials: Credentials,
) -> dict[str, str]:
    """Return the process's whole environment. From the cloud's own environment it has only PATH."""
    # The last layer has precedence.
    layers = tuple(reversed(spec.layer_dirs)) if places.opt is None else (places.opt,)
    paths = [*(str(d / "bin") for d in layers), places.path]
    environment = {
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "HOME": str(places.tmp),
        "TMPDIR": str(places.tmp),
        "PATH": os.pathsep.join(paths),
        "LAMBDA_TASK_ROOT": str(places.task),
        "LAMBDA_RUNTIME_DIR": str(HERE),
        **_list_function_variables(spec),
        **(dict.fromkeys(_TRUST, str(places.trust)) if places.trust else {}),
        "AWS_ACCESS_KEY_ID": credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
        "AWS_SESSION_TOKEN": credentials.session_token,
        "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
        **dict(spec.environment),
        "_HANDLER": spec.handler,
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
    }
    _add_folders(environment, places, layers)
    if not spec.runtime.startswith("provided"):
        environment["PWD"] = str(places.task)
    if spec.runtime.startswith("nodejs"):
        environment["HEADRACE_SDK_FOLDER"] = str(find_sdk_folder())
    if _is_trust_read_late(spec, places):
        del environment[_NODE_TRUST]
    return environment


def _list_function_variables(spec: SandboxSpec) -> dict[str, str]:
    """Return the variables that describe the function, and those with which it reaches this cloud."""
    variables = {
        "AWS_REGION": spec.region,
        "AWS_DEFAULT_REGION": spec.region,
        "AWS_ENDPOINT_URL": spec.endpoint_url,
        "AWS_LAMBDA_FUNCTION_NAME": spec.name,
        "AWS_LAMBDA_FUNCTION_VERSION": spec.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mib),
        "AWS_LAMBDA_INITIALIZATION_TYPE": spec.initialization_type,
        "AWS_LAMBDA_LOG_GROUP_NAME": spec.log_group,
        "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
        # The user's own AWS profile must not affect a function.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if not spec.runtime.startswith("provided"):  # that of a custom runtime has no name (recorded)
        variables["AWS_EXECUTION_ENV"] = f"AWS_Lambda_{spec.runtime}"
    if spec.log_format == "JSON":
        variables["AWS_LAMBDA_LOG_FORMAT"] = spec.log_format
        variables["AWS_LAMBDA_LOG_LEVEL"] = spec.application_log_level
    return variables


def _add_folders(environment: dict[str, str], places: ProcessPaths, layers: Sequence[Path]) -> None:
    """Add the layers' folders of packages and libraries after the function's own."""
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = ("python", f"python/lib/{python}/site-packages")
    _extend(environment, "PYTHONPATH", [str(d / part) for d in layers for part in packages])
    libraries = [*(str(d / "lib") for d in layers), str(places.task / "lib")]
    _extend(environment, "LD_LIBRARY_PATH", [path for path in libraries if layers])
    modules = [str(d / "nodejs" / "node_modules") for d in layers]
    _extend(environment, "NODE_PATH", [*modules, *list_node_path()])


def _extend(environment: dict[str, str], name: str, more: list[str]) -> None:
    own = environment.get(name)
    folders = [*([own] if own else []), *more]
    if folders:
        environment[name] = os.pathsep.join(folders)
