"""Stores layer versions (packages that functions share) in the state database; finds those of other accounts.

No call can bring other accounts' layers here: the user's folder stands in, or AWS's Powertools from PyPI.

`headrace up --layer ARN=FOLDER` names the folder. Powertools' public layers (documented:
docs.aws.amazon.com/powertools/python/latest/getting-started/install/) are made once by pip, for this Python, into the
user's cache; their version is the newest of the layer's major version, since the layer's number does not say which.

Compiles the Python code of functions and layers to bytecode, since functions cannot write next to their code.

Without this, each cold start of a function with large packages would compile them again. A separate program with the
lowest priority compiles a package after its first use, and skips files that are already compiled.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.core.config import LayerFolder, cache_home
from headrace.core.patterns import glob_matches
from headrace.core.workers import WorkerHandle
from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.names import build_layer_arn, format_lambda_time
from headrace.services.lambda_.packages import CodeStore, Package, open_folder
from headrace.services.lambda_.state import LayerDescription, LayerVersion
from headrace.store.database import Database

# A smaller package is compiled at each cold start, which takes a few milliseconds.
LEAST_BYTES = 128 * 1024
_LONGEST_COMPILATION_S = 600.0
_MOST_DONE = 10_000
_LOWEST_PRIORITY = 19


class Bytecode:
    """A worker that compiles folders. Thread-safe."""

    name = "lambda-bytecode"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Path] = deque()
        # The fingerprint of each folder when it was compiled; the files in a user's folder may change.
        self._done: dict[Path, str] = {}
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.handle: WorkerHandle | None = None

    def want(self, folders: list[Path], fingerprint: str) -> None:
        """Schedule folders for compilation, unless this run has already compiled their present files."""
        with self._lock:
            if len(self._done) > _MOST_DONE:
                self._done.clear()
            new = [folder for folder in folders if self._done.get(folder) != fingerprint]
            self._done.update(dict.fromkeys(new, fingerprint))
            self._waiting.extend(new)
        if new and self.handle is not None:
            self.handle.wake()

    def step(self) -> float:
        """Compile one folder."""
        with self._lock:
            if self._stopped or not self._waiting:
                return math.inf
            folder = self._waiting.popleft()
        if _python_bytes(folder) >= LEAST_BYTES:
            self._compile(folder)
        return 0.0

    def _compile(self, folder: Path) -> None:
        arguments = [sys.executable, "-I", "-m", "compileall", "-q", str(folder)]
        with self._lock:
            if self._stopped:
                return
            process = self._running = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST_PRIORITY)
        try:
            # A file that cannot be compiled is not an error here; the function that imports it gets the error.
            process.wait(_LONGEST_COMPILATION_S)
        except subprocess.TimeoutExpired:
            log.warning("compiling %s took too long", folder)
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Compile nothing more, and kill a running compiler."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()


def _python_bytes(folder: Path) -> int:
    """Return the size of the Python sources in a folder; stop when it is large enough. Links are not followed."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".py"):
                with contextlib.suppress(OSError):
                    total += (Path(where) / name).lstat().st_size
        if total >= LEAST_BYTES:
            break
    return total


log = logging.getLogger(__name__)

CACHE_VARIABLE = "HEADRACE_LAYER_CACHE"
_POWERTOOLS = re.compile(
    r"arn:[a-z-]+:lambda:[a-z0-9-]+:017000801446:layer:AWSLambdaPowertoolsPythonV(?P<major>\d{1,3})[A-Za-z0-9_-]*:\d+"
)
# AWS's layer has every extra, and not what Lambda's runtime brings itself (assumed, from its build script).
_REQUIREMENT = "aws-lambda-powertools[all]=={major}.*"
_OF_RUNTIME = ("boto3*", "botocore*", "s3transfer*", "urllib3*", "six*", "*dateutil*", "bin")
_LONGEST_S = 300.0


class PublicLayers:
    """Finds the content of layer versions that this cloud does not store. Thread-safe."""

    def __init__(self, folders: Sequence[LayerFolder], code: CodeStore) -> None:
        self._folders = folders
        self._code = code
        self._lock = threading.Lock()

    def find_folder(self, arn: str) -> Package | None:
        """Return the folder that the user gave for a layer version, or for all of its layer's versions."""
        layer = arn.rpartition(":")[0]
        for folder in self._folders:
            if any(glob_matches(folder.arn, name) for name in (arn, layer)):
                return open_folder(str(folder.folder))
        return None

    def find_powertools(self, arn: str) -> Package | None:
        """Return PyPI's Powertools for an ARN of its public layers, otherwise None.

        Raises AwsError with the way out when pip cannot bring it.
        """
        match = _POWERTOOLS.fullmatch(arn)
        if match is None:
            return None
        major = match["major"]
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        stored = _cache_folder() / f"powertools-{major}-py{version}.zip"
        with self._lock:
            if not stored.is_file():
                _install_layer(_REQUIREMENT.format(major=major), stored, arn)
        return self._code.add_file(stored)


def refuse_foreign(arn: str, cause: str = "headrace has no layers of other accounts") -> Exception:
    """Return the refusal of a function whose foreign layer cannot be had; it is also logged."""
    sentence = (
        f"Layer version {arn} does not exist here: {cause}. Give its content as a folder: "
        f"headrace up --layer {arn}=FOLDER"
    )
    log.warning("%s", sentence)
    return invalid_parameter(sentence)


def _cache_folder() -> Path:
    own = os.environ.get(CACHE_VARIABLE)
    return Path(own).absolute() if own else cache_home() / "headrace/layers"


def _install_layer(requirement: str, target: Path, arn: str) -> None:
    """Install a requirement as a layer's zip file, which appears whole or not at all. Raises AwsError."""
    if importlib.util.find_spec("pip") is None:
        raise refuse_foreign(arn, f"this Python has no pip, which would bring {requirement}")
    log.info("layer %s: pip brings %s into %s, once", arn, requirement, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        packages = Path(scratch) / "layer" / "python"
        _install(requirement, packages, arn)
        for pattern in _OF_RUNTIME:
            for path in packages.glob(pattern):
                _remove(path)
        zipped = shutil.make_archive(f"{scratch}/layer", "zip", packages.parent)
        Path(zipped).replace(target)
    log.info("layer %s: %s stands in for it", arn, requirement)


def _remove(path: Path) -> None:
    remove: Callable[[Path], object] = shutil.rmtree if path.is_dir() else Path.unlink
    remove(path)


def _install(requirement: str, folder: Path, arn: str) -> None:
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
        "--retries", "1", "--timeout", "15", "--no-compile",
        "--only-binary", ":all:", "--target", str(folder), requirement,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise refuse_foreign(
            arn, f"pip did not bring {requirement} within {_LONGEST_S:.0f} s"
        ) from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        cause = errors[-1].removeprefix("ERROR:").strip() if errors else "it failed"
        raise refuse_foreign(arn, f"pip cannot bring {requirement} from its index ({cause})")


class LayerStore:
    """Stores all layer versions, as AWS's LayerVersionsListItem plus the package's digest. Thread-safe."""

    def __init__(self, database: Database, public: PublicLayers) -> None:
        self._documents = database.documents("lambda_layers")
        self._counters = database.documents("lambda_layer_counters")
        self._database = database
        self._public = public
        self._lock = threading.Lock()

    def publish(
        self,
        *,
        account: str,
        region: str,
        name: str,
        package: Package,
        now_ms: int,
        members: LayerDescription,
    ) -> LayerVersion:
        """Store a new version and return it. A version number is never used twice."""
        arn = build_layer_arn(region, account, name)
        with self._lock, self._database.transaction():
            number = int(self._counters.get(arn) or 0) + 1
            self._counters.put(arn, number)
            version: LayerVersion = {
                "LayerArn": arn,
                "LayerVersionArn": f"{arn}:{number}",
                "Version": number,
                "CreatedDate": format_lambda_time(now_ms),
                "digest": package.digest,
                "size_bytes": package.size_bytes,
                **members,
            }
            self._documents.put(f"{arn}:{number:010d}", version)
        return version

    def find(self, arn: str) -> LayerVersion | None:
        """Return a version by its ARN, or None."""
        layer, _, number = arn.rpartition(":")
        if not number.isdigit():
            return None
        return self._documents.get(f"{layer}:{int(number):010d}")

    def resolve(self, arn: str, account: str) -> LayerVersion | None:
        """Return the version that a user of this account gets: the stored one, or what stands in for it.

        A folder that `headrace up --layer` names comes first. Raises AwsError for another account's layer that
        headrace does not have.
        """
        package = self._public.find_folder(arn)
        if package is None:
            version = self.find(arn)
            if version is not None or arn.split(":")[4] == account:
                return version
            package = self._public.find_powertools(arn)
        if package is None:
            raise refuse_foreign(arn)
        layer, _, number = arn.rpartition(":")
        return {
            "LayerArn": layer,
            "LayerVersionArn": arn,
            "Version": int(number),
            "CreatedDate": format_lambda_time(0),
            "Description": "",
            "digest": package.digest,
            "size_bytes": package.size_bytes,
            "policy": {"public": {"Principal": "*"}},
        }

    def change(self, arn: str, change: Callable[[LayerVersion], None]) -> LayerVersion | None:
        """Apply `change` to a version, store and return the result, or return None if the version is missing.

        Only one change runs at a time.
        """
        with self._lock:
            version = self.find(arn)
            if version is None:
                return None
            change(version)
            self._documents.put(f"{version['LayerArn']}:{version['Version']:010d}", version)
            return version

    def delete(self, arn: str) -> None:
        """Remove a version. As on AWS, functions that use the version keep it."""
        version = self.find(arn)
        if version is not None:
            self._documents.delete(f"{version['LayerArn']}:{version['Version']:010d}")

    def versions(self, arn: str) -> list[LayerVersion]:
        """Return a layer's versions, newest first."""
        return [value for _, value in reversed(self._documents.items(f"{arn}:"))]

    def latest(
        self, account: str, region: str, suits: Callable[[LayerVersion], bool]
    ) -> list[LayerVersion]:
        """Return for each layer the newest version that suits, sorted by name."""
        newest = {
            value["LayerArn"]: value
            for _, value in self._documents.items(build_layer_arn(region, account, ""))
            if suits(value)
        }
        return [newest[arn] for arn in sorted(newest)]

    def size_bytes(self, account: str, region: str) -> int:
        """Return the total size of the packages of all layer versions of an account and region."""
        documents = self._documents.items(build_layer_arn(region, account, ""))
        return sum(value["size_bytes"] for _, value in documents)

    def digests(self) -> set[str]:
        """Return the digests of the packages that layer versions use."""
        return {value["digest"] for _, value in self._documents.items()}
