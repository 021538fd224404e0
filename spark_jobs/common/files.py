"""Small files and folders beside Spark's own, by Hadoop's file system, which Spark itself writes with."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


class Files:
    """Files by their URIs. Only the driver uses it. Raises Py4JJavaError for what the file system refuses."""

    def __init__(self, spark: SparkSession) -> None:
        # pyspark has no types for its gateway to the JVM, and no public way to it.
        self._context: Any = spark.sparkContext

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none when there is no folder."""
        system, path = self._place(folder)
        if not system.exists(path):
            return []
        return [status.getPath().getName() for status in system.listStatus(path)]

    def exists(self, uri: str) -> bool:
        """Return whether there is such a file or folder."""
        system, path = self._place(uri)
        return bool(system.exists(path))

    def delete(self, uri: str) -> None:
        """Delete a file, or a folder with all that it has."""
        system, path = self._place(uri)
        system.delete(path, True)

    def read(self, uri: str) -> bytes | None:
        """Return a file's bytes, or None."""
        system, path = self._place(uri)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return bytes(self._java_class("org.apache.commons.io.IOUtils").toByteArray(stream))
        finally:
            stream.close()

    def write(self, uri: str, content: bytes) -> None:
        """Replace a file. In S3 readers see the old one or the new one, because that is one request."""
        system, path = self._place(uri)
        stream = system.create(path, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _place(self, uri: str) -> tuple[Any, Any]:
        path = self._java_class("org.apache.hadoop.fs.Path")(uri)
        return path.getFileSystem(self._context._jsc.hadoopConfiguration()), path  # noqa: SLF001

    def _java_class(self, name: str) -> Any:
        # By its parts Java would look in each of Spark's jars for classes `org`, `org.apache`, ...
        return getattr(self._context._jvm, name)  # noqa: SLF001


def query_id(files: Files, checkpoint: str) -> str | None:
    """Return the id of the query whose checkpoint it is, a URI with a slash; None before its first start."""
    content = files.read(f"{checkpoint}metadata")
    return None if content is None else json.loads(content)["id"]
