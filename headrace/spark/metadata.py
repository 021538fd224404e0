"""Small files that the driver and the executors share: what a micro-batch is to read, and where its tasks stopped.

They lie under `kinesis.metadataPath`: a folder that all machines see, an S3 prefix, or HDFS (by WebHDFS). A file is
written whole, once: who comes second finds the first one's.

Signs requests to AWS (documented: Signature Version 4), with the standard library alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from urllib.request import url2pathname
from xml.etree import ElementTree

from headrace.spark.connections import Answer, Connections, Unreachable
from headrace.spark.options import Connection, InvalidOption
from headrace.spark.untyped import untyped

_TRIES = 6
_FIRST_WAIT_S = 0.1


class MetadataError(Exception):
    """The metadata store cannot be read or written."""


class Store(Protocol):
    """A folder of small files. Thread-safe. Every method raises MetadataError."""

    def read(self, name: str) -> bytes | None:
        """Return a file; None if there is none."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a whole file; return False if there is one already, which stays as it is."""
        ...

    def folders(self, name: str) -> list[str]:
        """Return the names of the folders in a folder."""
        ...

    def remove(self, name: str, files: Iterable[str]) -> None:
        """Remove a folder with the named files in it, and what else it has where that costs nothing."""
        ...


def open_store(path: str, options: Connection) -> Store:
    """Return the store at `kinesis.metadataPath`. Raises InvalidOption."""
    scheme = urlsplit(path).scheme.lower()
    if scheme in ("", "file"):
        return FileStore(Path(url2pathname(urlsplit(path).path) if scheme else path))
    if scheme in ("s3", "s3a", "s3n"):
        return S3Store(path, options)
    if scheme in ("hdfs", "webhdfs", "swebhdfs"):
        return HdfsStore(path)
    raise InvalidOption(
        f"kinesis.metadataPath {path!r} is not a path that all machines see, an S3 address or an HDFS address."
    )


class FileStore:
    """A store in a folder that all machines see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        """Return a file; None if there is none."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MetadataError(f"{self._folder / name} cannot be read: {error}") from error

    def create(self, name: str, data: bytes) -> bool:
        """Write a whole file; return False if there is one already. It survives a crash of the machine."""
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                # Unlike a rename, a link never replaces a file.
                os.link(file.name, path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except FileExistsError:
            return False
        except OSError as error:
            raise MetadataError(f"{path} cannot be written: {error}") from error
        return True

    def folders(self, name: str) -> list[str]:
        """Return the names of the folders in a folder."""
        try:
            return [one.name for one in (self._folder / name).iterdir() if one.is_dir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise MetadataError(f"{self._folder / name} cannot be listed: {error}") from error

    def remove(self, name: str, files: Iterable[str]) -> None:
        """Remove a folder."""
        shutil.rmtree(self._folder / name, ignore_errors=True)


class _Remote:
    """What the stores behind HTTP have in common: requests that are repeated when the service fails."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connections = Connections()

    def _send_until_known(
        self, what: str, send: Callable[[], Answer], known: tuple[int, ...]
    ) -> Answer:
        """Send until the answer has a status of `known`."""
        wait_s, problem = _FIRST_WAIT_S, ""
        for _ in range(_TRIES):
            try:
                answer = send()
                if answer.status in known:
                    return answer
                problem = f"{answer.status} {answer.body[:300].decode(errors='replace')}"
                if answer.status < 500 and answer.status not in (409, 429):
                    break
            except Unreachable as error:
                problem = str(error)
            time.sleep(wait_s)
            wait_s *= 2
        raise MetadataError(f"{self._path}/{what}: {problem}")


class S3Store(_Remote):
    """A store below an S3 prefix. Credentials are the job's own, not those of the options."""

    def __init__(self, path: str, options: Connection) -> None:
        super().__init__(path.rstrip("/"))
        parts = urlsplit(path)
        self._bucket = parts.netloc
        self._prefix = parts.path.strip("/")
        region, keys = own_credentials(options.region)
        self._region = region
        self._keys = keys

    def read(self, name: str) -> bytes | None:
        """Return an object; None if there is none."""
        answer = self._ask_store("GET", name, (200, 404))
        return answer.body if answer.status == 200 else None

    def create(self, name: str, data: bytes) -> bool:
        """Write an object; return False if there is one already."""
        # Documented: PutObject with If-None-Match. A repeated request finds the object of its own first try.
        answer = self._ask_store("PUT", name, (200, 412), data, {"If-None-Match": "*"})
        return answer.status == 200 or self.read(name) == data

    def folders(self, name: str) -> list[str]:
        """Return the names below a prefix, up to the next slash."""
        prefix = f"{self._key(name)}/"
        names: list[str] = []
        query = {"list-type": "2", "prefix": prefix, "delimiter": "/"}
        while True:
            answer = self._ask_store("GET", None, (200,), query=query)
            tree = ElementTree.fromstring(answer.body)
            namespace = tree.tag.rpartition("}")[0] + "}" if "}" in tree.tag else ""
            prefixes = tree.iterfind(f"{namespace}CommonPrefixes/{namespace}Prefix")
            names += [(one.text or "")[len(prefix) : -1] for one in prefixes]
            token = tree.findtext(f"{namespace}NextContinuationToken")
            if not token:
                return names
            query["continuation-token"] = token

    def remove(self, name: str, files: Iterable[str]) -> None:
        """Remove the named objects below a prefix."""
        for file in files:
            self._ask_store("DELETE", f"{name}/{file}", (200, 204, 404))

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _ask_store(
        self,
        method: str,
        name: str | None,
        known: tuple[int, ...],
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        def send() -> Answer:
            path = "/" if name is None else f"/{quote(self._key(name), safe='/~')}"
            url = self._base() + path + (f"?{urlencode(query, quote_via=quote)}" if query else "")
            signed = signed_headers(
                self._keys(), "s3", self._region, (method, url, headers or {}, body)
            )
            answer = self._connections.send(method, url, signed, body)
            elsewhere = answer.headers.get("x-amz-bucket-region")
            if answer.status in (301, 307, 400) and elsewhere and elsewhere != self._region:
                self._region = elsewhere
                return send()
            return answer

        return self._send_until_known(name or "", send, known)

    def _base(self) -> str:
        endpoint = endpoint_of("s3", self._region)
        parts = urlsplit(endpoint)
        if parts.netloc.startswith("s3.") and "." not in self._bucket:
            return f"{parts.scheme}://{self._bucket}.{parts.netloc}"
        return f"{endpoint}/{self._bucket}"


class HdfsStore(_Remote):
    """A store in HDFS, by WebHDFS, which name nodes serve unless `dfs.webhdfs.enabled` is false; not with Kerberos.

    `hdfs://` addresses take the name node's HTTP address from Hadoop's configuration (HADOOP_CONF_DIR,
    /etc/hadoop/conf), else port 9870 of the address's host; `webhdfs://host:port` names it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path.rstrip("/"))
        parts = urlsplit(path)
        self._root = parts.path.rstrip("/")
        self._nodes = _name_nodes(parts.scheme.lower(), parts.netloc)
        self._user = os.environ.get("HADOOP_USER_NAME") or os.environ.get("USER") or "hadoop"

    def read(self, name: str) -> bytes | None:
        """Return a file; None if there is none."""
        answer = self._ask_store("GET", name, "OPEN", (200, 404))
        return answer.body if answer.status == 200 else None

    def create(self, name: str, data: bytes) -> bool:
        """Write a whole file beside its place, and rename it, which never replaces a file."""
        folder = name.rpartition("/")[0]
        draft = f"{folder}/.{uuid.uuid4().hex}"
        self._ask_store("PUT", draft, "CREATE", (201,), data, overwrite="true")
        answer = self._ask_store(
            "PUT", draft, "RENAME", (200, 403), destination=f"{self._root}/{name}"
        )
        if answer.status == 200 and json.loads(answer.body).get("boolean"):
            return True
        # Either another one's file is there, or this rename was done although its answer was lost.
        self._ask_store("DELETE", draft, "DELETE", (200, 404))
        written = self.read(name)
        if written is None:
            raise MetadataError(f"{self._path}/{name} cannot be written: {answer.body[:300]!r}")
        return written == data

    def folders(self, name: str) -> list[str]:
        """Return the names of the folders in a folder."""
        answer = self._ask_store("GET", name, "LISTSTATUS", (200, 404))
        if answer.status == 404:
            return []
        file_status = json.loads(answer.body)["FileStatuses"]["FileStatus"]
        return [one["pathSuffix"] for one in file_status if one["type"] == "DIRECTORY"]

    def remove(self, name: str, files: Iterable[str]) -> None:
        """Remove a folder."""
        self._ask_store("DELETE", name, "DELETE", (200, 404), recursive="true")

    def _ask_store(
        self,
        method: str,
        name: str,
        operation: str,
        known: tuple[int, ...],
        body: bytes = b"",
        **query: str,
    ) -> Answer:
        asked = urlencode({"op": operation, "user.name": self._user, **query})

        def send() -> Answer:
            answer = Answer(503, {}, b"no name node")
            for _ in self._nodes:
                # The body goes only to the data node that the name node names.
                url = f"{self._nodes[0]}/webhdfs/v1{quote(f'{self._root}/{name}')}?{asked}"
                answer = self._connections.send(method, url, {})
                while answer.status == 307:
                    headers = {"Content-Type": "application/octet-stream"}
                    answer = self._connections.send(
                        method, answer.headers["location"], headers, body
                    )
                if answer.status != 403 or b"StandbyException" not in answer.body:
                    break
                self._nodes = [*self._nodes[1:], self._nodes[0]]
            return answer

        return self._send_until_known(name, send, known)


def _name_nodes(scheme: str, netloc: str) -> list[str]:
    if scheme in ("webhdfs", "swebhdfs"):
        return [f"{'https' if scheme == 'swebhdfs' else 'http'}://{netloc}"]
    settings = _hadoop_settings()
    netloc = netloc or urlsplit(settings.get("fs.defaultFS", "")).netloc
    for service in filter(None, settings.get("dfs.nameservices", "").split(",")):
        if service == netloc:
            nodes = settings.get(f"dfs.ha.namenodes.{service}", "").split(",")
            names = [f"dfs.namenode.http-address.{service}.{node}" for node in nodes]
            return [f"http://{settings[name]}" for name in names if name in settings]
    host = netloc.partition(":")[0]
    if not host:
        raise InvalidOption(
            "kinesis.metadataPath names no name node, and Hadoop's configuration does not."
        )
    address = settings.get("dfs.namenode.http-address", "")
    port = address.rpartition(":")[2] if address else "9870"
    return [urlunsplit(("http", f"{host}:{port}", "", "", ""))]


def _hadoop_settings() -> dict[str, str]:
    folder = Path(os.environ.get("HADOOP_CONF_DIR") or "/etc/hadoop/conf")
    hadoop_settings: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        with suppress(OSError, ElementTree.ParseError):
            for one in ElementTree.parse(folder / name).iterfind("property"):
                hadoop_settings[one.findtext("name") or ""] = one.findtext("value") or ""
    return hadoop_settings


def own_credentials(region: str | None) -> tuple[str, Callable[[], Keys]]:
    """Return the job's own region and credentials. Raises MetadataError."""
    # boto3 takes long to import, and a store of files does not need it.
    import boto3  # pyright: ignore[reportMissingTypeStubs]

    session = untyped(boto3.Session())
    credentials = session.get_credentials()
    if credentials is None:
        raise MetadataError("There are no AWS credentials for kinesis.metadataPath.")

    def keys() -> Keys:
        frozen = credentials.get_frozen_credentials()
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)

    return region or session.region_name or "us-east-1", keys


def endpoint_of(service: str, region: str) -> str:
    """Return a service's endpoint: as in AWS_ENDPOINT_URL_<SERVICE> or AWS_ENDPOINT_URL, else AWS's."""
    own = os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get(
        "AWS_ENDPOINT_URL"
    )
    if own:
        return own.rstrip("/")
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{service}.{region}.{domain}"


@dataclass(frozen=True)
class Keys:
    """The credentials of one request."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def signed_headers(
    keys: Keys,
    service: str,
    region: str,
    request: tuple[str, str, Mapping[str, str], bytes],
    moment: datetime | None = None,
) -> dict[str, str]:
    """Return a request's headers with its signature.

    Args:
        keys: who signs.
        service: as in the scope of the signature, such as `s3`.
        region: as in the scope.
        request: method, URL (its path as it is sent), headers, body.
        moment: the time of the signature; now by default.
    """
    method, url, headers, body = request
    at = (moment or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    parts = urlsplit(url)
    digest = hashlib.sha256(body).hexdigest()
    signed = {name.lower(): value.strip() for name, value in headers.items()}
    signed |= {"host": parts.netloc, "x-amz-date": at, "x-amz-content-sha256": digest}
    if keys.token:
        signed["x-amz-security-token"] = keys.token
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            method,
            _path(parts.path, service),
            _query(parts.query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            digest,
        ]
    )
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{keys.secret_key}".encode()
    for part in (at[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return signed


def _path(path: str, service: str) -> str:
    # Every service but S3 has the path quoted once more.
    return (path if service == "s3" else quote(path, safe="/~")) or "/"


def _query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(f"{quote(n, safe='~')}={quote(v, safe='~')}" for n, v in sorted(pairs))
