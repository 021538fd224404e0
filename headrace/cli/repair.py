"""The steps of `headrace check --repair`: repairs the state database, then the logs, then functions' code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.cli.check_code import check_code, mend_code
from headrace.services.firehose.store import DeliveryStreams
from headrace.services.kinesis.state import Stream
from headrace.services.opensearch.indexes.home import FILE as INDEXES_FILE
from headrace.store import repair_database
from headrace.store.check import JOURNALS_FOLDER, STATE_FILE, STREAMS_FOLDER
from headrace.store.database import Database
from headrace.store.marks import read_known
from headrace.store.repair import QUARANTINE_FOLDER, repair_logs
from headrace.store.sequence import SequenceBase


def repair_all(data_dir: Path) -> Iterator[str]:
    """Repair the data directory; yield a sentence for each repair. The caller holds the directory's lock.

    It may be killed at any point and repeated. Raises OSError, sqlite3.Error, NewerFormat.
    """
    path = data_dir / STATE_FILE
    if repair_database.finish(path):
        yield f"{path}: the repair that was not finished is finished"
    if not path.exists():
        yield f"{path} is missing: no tool can bring back which streams there were; the logs are left as they are"
        return
    if repair_database.damage_of(path):
        try:
            yield from repair_database.repair_database(path)
        except repair_database.DatabaseUnreadable as error:
            yield str(error)
            return
    database = Database(path)
    try:
        known = read_known(path)
        yield from repair_logs(data_dir, database, known, _bases(data_dir, database))
    finally:
        database.close()
    yield from _set_aside_indexes(data_dir)
    for bad in check_code(data_dir, path):
        if bad.can_be_mended:
            mend_code(bad, data_dir / QUARANTINE_FOLDER / "lambda")
            yield f"{bad}: it is unpacked anew"


def _set_aside_indexes(data_dir: Path) -> Iterator[str]:
    """Move damaged OpenSearch indexes to the quarantine: their documents can be indexed again from the source."""
    path = data_dir / INDEXES_FILE
    if not path.exists() or not repair_database.damage_of(path):
        return
    folder, number = data_dir / QUARANTINE_FOLDER / "opensearch", 1
    while folder.exists():
        folder, number = folder.with_name(f"opensearch-{number}"), number + 1
    folder.mkdir(parents=True)
    for part in sorted(data_dir.glob(f"{INDEXES_FILE}*")):
        part.replace(folder / part.name)
    yield f"{path} is damaged and lies in {folder}: OpenSearch's domains begin without an index"


def _bases(data_dir: Path, database: Database) -> dict[Path, SequenceBase]:
    """Return the common part of the sequence numbers of each log."""
    bases: dict[Path, SequenceBase] = {}
    for _, document in database.documents("kinesis_streams").items():  # noqa: PERF102 - not a dict
        stream = Stream.from_document(document)
        for shard in stream.shards:
            bases[data_dir / STREAMS_FOLDER / stream.stream_id / shard.shard_id] = shard.base
    for delivery in DeliveryStreams(database).load():
        folder = data_dir / JOURNALS_FOLDER / delivery.stream_id
        bases[folder] = SequenceBase(delivery.created_ms // 1000, 0)
    return bases
