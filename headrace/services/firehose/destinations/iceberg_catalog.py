"""pyiceberg's Glue catalogue on this cloud, without a socket: it calls Glue and the object store directly, as one role.

Files are read from their place on the disk, and written completely or not at all.
"""

# pyiceberg's annotations need boto3's stubs, which are not installed.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Properties

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.extras import forbid_location_providers
from headrace.core.ports import CallerIdentity, Guard, ObjectNotFound, ObjectStore
from headrace.services.firehose.destinations.iceberg_bounds import Bounds
from headrace.services.firehose.destinations.iceberg_routing import CONCURRENT, NOT_FOUND, Glue
from headrace.services.firehose.permits import SESSION, RoleDenied

forbid_location_providers()

# Code observed by others in users' error output, 2026; the sentence is assumed.
ACCESS_DENIED = "Iceberg.AccessDenied"


class LostCommit(Exception):
    """The table has changed since it was read for this commit."""


class EntityNotFound(Exception):
    """Glue's EntityNotFoundException."""


class ConcurrentModification(Exception):
    """Glue's ConcurrentModificationException."""


class AlreadyExists(Exception):
    """Glue's AlreadyExistsException, which is never raised: Firehose creates no tables."""


class _Exceptions:
    """The exceptions that pyiceberg expects in a Glue client's `exceptions`."""

    EntityNotFoundException = EntityNotFound
    ConcurrentModificationException = ConcurrentModification
    AlreadyExistsException = AlreadyExists


class GlueClient:
    """The part of boto3's Glue client that pyiceberg needs to read tables and commit to them."""

    exceptions = _Exceptions

    def __init__(self, glue: Glue) -> None:
        self._glue = glue

    def get_table(self, **params: Any) -> dict[str, Any]:
        """Return GetTable's answer. Raises EntityNotFound, AwsError."""
        return self._call("GetTable", params)

    def update_table(self, **params: Any) -> dict[str, Any]:
        """Run UpdateTable. Raises EntityNotFound, ConcurrentModification, AwsError."""
        return self._call("UpdateTable", params)

    def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._glue.call(operation, params)
        except AwsError as error:
            if error.code == NOT_FOUND:
                raise EntityNotFound(error.message) from error
            if error.code == CONCURRENT:
                raise ConcurrentModification(error.message) from error
            raise


class CloudCatalog(GlueCatalog):
    """The Glue catalogue of this cloud. Used by one thread at a time."""

    def __init__(self, glue: Glue, objects: ObjectStore, guard: Guard) -> None:
        client: Any = GlueClient(glue)
        super().__init__("glue", client=client)
        self._files = StoreFileIO(objects, guard, glue.role)

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        return self._files

    def _is_s3tables_database(self, database_name: str) -> bool:
        return False  # Those have another catalogue: TablesCatalog.

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """See `GlueCatalog.commit_table`. Raises LostCommit, so that pyiceberg does not repeat an outdated commit."""
        try:
            return super().commit_table(table, requirements, updates)
        except CommitFailedException as error:
            raise LostCommit(str(error)) from error


class TablesCatalog(NoopCatalog, MetastoreCatalog):
    """One table of S3 Tables. Used by one thread at a time."""

    def __init__(self, call: Callable[..., dict[str, Any]], files: TableFiles) -> None:
        """Take what calls an operation of S3 Tables on the table."""
        super().__init__("s3tables")
        self._call = call
        self._files = files

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        return self._files

    def load_table(self, identifier: Any) -> Table:
        """See `Catalog.load_table`. Raises NoSuchTableError, AwsError."""
        return self._load(identifier, self._locate())

    def _locate(self) -> dict[str, Any]:
        try:
            return self._call("GetTableMetadataLocation")
        except AwsError as error:
            if error.code == "NotFoundException":
                raise NoSuchTableError(error.message) from error
            raise

    def _load(self, identifier: Any, described: Mapping[str, Any]) -> Table:
        at = str(described["metadataLocation"])
        metadata = FromInputFile.table_metadata(self._files.new_input(at))
        return Table(identifier, metadata, at, self._files, self)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """See `Catalog.commit_table`: the new metadata replaces the one it was made from. Raises LostCommit."""
        described = self._locate()
        current = self._load(table.name(), described)
        try:
            staged = self._update_and_stage_table(current, table.name(), requirements, updates)
            self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
            self._call(
                "UpdateTableMetadataLocation",
                versionToken=described["versionToken"],
                metadataLocation=staged.metadata_location,
            )
        except CommitFailedException as error:
            raise LostCommit(str(error)) from error
        except AwsError as error:
            if error.code == "ConflictException":
                raise LostCommit(error.message) from error
            raise
        # pydantic's alias, which pyright does not know.
        answer: Any = CommitTableResponse
        return answer(metadata=staged.metadata, metadata_location=staged.metadata_location)


class StoreFileIO(FileIO):
    """Iceberg's files in the object store. Thread-safe, because pyiceberg reads on several threads."""

    def __init__(self, objects: ObjectStore, guard: Guard, role: str, key_arn: str = "") -> None:
        super().__init__()
        self.objects = objects
        self.key_arn = key_arn
        self.bounds = Bounds()
        self._guard = guard
        self._role = role

    def check(self, action: str, location: str) -> None:
        """Raise Denied when the role may not do an action on a file."""
        bucket, key = split(location)
        resource = make_arn("s3", "", "", f"{bucket}/{key}")
        sentence = self._guard.denial(CallerIdentity(self._role, SESSION), action, resource)
        if sentence:
            raise RoleDenied(ACCESS_DENIED, f"Access was denied. {sentence}")

    def new_input(self, location: str) -> InputFile:
        """See `FileIO.new_input`."""
        return _Input(self, location)

    def new_output(self, location: str) -> OutputFile:
        """See `FileIO.new_output`."""
        return _Output(self, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """See `FileIO.delete`."""
        text = location if isinstance(location, str) else location.location
        self.check("s3:DeleteObject", text)
        self.objects.delete(*split(text))


# Documented: s3-tables-setting-up.md.
_OF_TABLES = {"s3:GetObject": "s3tables:GetTableData", "s3:PutObject": "s3tables:PutTableData"}


class TableFiles(StoreFileIO):
    """The files of a table of S3 Tables, whose role needs the permissions of the table."""

    def __init__(
        self, objects: ObjectStore, guard: Guard, role: str, table_arn: str, key_arn: str
    ) -> None:
        super().__init__(objects, guard, role, key_arn)
        self._table_arn = table_arn

    def check(self, action: str, location: str) -> None:
        """See `StoreFileIO.check`."""
        acting = CallerIdentity(self._role, SESSION)
        sentence = self._guard.denial(acting, _OF_TABLES.get(action, action), self._table_arn)
        if sentence:
            raise RoleDenied(ACCESS_DENIED, f"Access was denied. {sentence}")


def split(location: str) -> tuple[str, str]:
    """Return a file's bucket and key. Raises ValueError for a location outside of S3."""
    scheme, parts, rest = location.partition("://")
    bucket, slash, key = rest.partition("/")
    if not parts or scheme not in ("s3", "s3a", "s3n") or not bucket or not slash:
        raise ValueError(f"{location} is not in S3.")
    return bucket, key


class _Input(InputFile):
    def __init__(self, files: StoreFileIO, location: str) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return self._files.objects.file(*split(self._location)).stat().st_size

    def exists(self) -> bool:
        """See `InputFile.exists`."""
        try:
            return self._files.objects.file(*split(self._location)).is_file()
        except ObjectNotFound:
            return False

    def open(self, seekable: bool = True) -> InputStream:
        """See `InputFile.open`. Raises ObjectNotFound, BucketNotFound, RoleDenied, ValueError."""
        self._files.check("s3:GetObject", self._location)
        # The caller closes it.
        file: Any = self._files.objects.file(*split(self._location)).open("rb")
        try:
            self._files.bounds.check(file, self._location)
        except BaseException:
            file.close()
            raise
        return file


class _Output(OutputFile):
    def __init__(self, files: StoreFileIO, location: str) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        """See `OutputFile.exists`."""
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        """See `OutputFile.to_input_file`."""
        return _Input(self._files, self._location)

    def create(self, overwrite: bool = False) -> OutputStream:
        """See `OutputFile.create`."""
        if not overwrite and self.exists():
            raise FileExistsError(self._location)
        self._files.check("s3:PutObject", self._location)
        file: Any = _Written(self._files, self._location)
        return file


class _Written(io.BytesIO):
    """A file that is in memory until it is closed, and then in the object store."""

    def __init__(self, files: StoreFileIO, location: str) -> None:
        super().__init__()
        self._files = files
        self._at = split(location)

    def __del__(self) -> None:
        """Discard a file that was not closed."""
        super().close()

    def __exit__(self, exctype: Any, excinst: Any, exctb: Any) -> None:  # pyrefly: ignore[bad-override-param-name]
        if exctype is not None:
            # An exception interrupted the writing: discard the file.
            super().close()
        else:
            self.close()

    def close(self) -> None:
        """Put the file into the store."""
        if self.closed:
            return
        body = self.getvalue()
        super().close()
        self._files.objects.put(*self._at, body, kms_key=self._files.key_arn)
