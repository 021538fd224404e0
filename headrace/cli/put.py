"""`headrace put`: puts records into a stream, here or on AWS (`--aws`).

Puts records into a stream in batches within AWS's limits, and counts those that were acknowledged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import select
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from headrace.cli.interrupts import INTERRUPTED, StopSignals
from headrace.cli.options import client, client_options, endpoint_option, explain, fail, sentence
from headrace.cli.stream_names import explain_stream

if TYPE_CHECKING:
    from headrace.client.producer import Producer
    from headrace.client.receipts import PutError, Receipt
# Yields the lines of a byte stream as they come, for a command that must not wait for the end of its input.

_PIECE_BYTES = 1 << 16


class LineTooLong(ValueError):
    """A line is longer than any record may be; the message is one sentence."""


class NoKey(ValueError):
    """A line has no such member for its key; the message is one sentence."""


def lines_as_they_come(source: BinaryIO, longest_bytes: int) -> Iterator[bytes | None]:
    """Yield each line without its newline, and None whenever no more input is available yet.

    Raises OSError when the source cannot be read, and LineTooLong. Before it raises, it yields the earlier lines and
    None.
    """
    rest, number = b"", 0
    try:
        for piece in _pieces(source):
            if piece is None:
                yield None
                continue
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                number += 1
                _check(line, number, longest_bytes)
                yield line
            _check(rest, number + 1, longest_bytes)
    except (OSError, LineTooLong):
        yield None
        raise
    if rest:
        yield rest


def _check(line: bytes, number: int, longest_bytes: int) -> None:
    if len(line) > longest_bytes:
        raise LineTooLong(
            f"line {number} has more than {longest_bytes} bytes, the largest size of a record"
        )


def _pieces(source: BinaryIO) -> Iterator[bytes | None]:
    try:
        descriptor = source.fileno()
    except OSError:
        # A source without a file descriptor, as in a test, has all its bytes available.
        yield source.read()
        return
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
        piece = os.read(descriptor, _PIECE_BYTES)
        if not piece:
            return
        yield piece


@click.command()
@click.argument("stream")
@click.argument("data", required=False)
@click.option("--key", "-k", help="Partition key; default: a digest of the data.")
@click.option("--key-field", help="The member of each line's JSON object that is its key.")
@endpoint_option
def put(
    stream: str,
    data: str | None,
    key: str | None,
    key_field: str | None,
    *,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Put DATA, or each line of standard input, into STREAM. A line is put as it comes."""
    if key is not None and key_field is not None:
        raise fail("Give either --key or --key-field.")
    putter = open_putter(stream, endpoint_url=endpoint_url, region=region, aws=aws)
    # The bytes as they were typed, in any locale.
    records = records_of([os.fsencode(data)] if data is not None else _lines(), key, key_field)
    try:
        put_all(putter, batches(records), at_once=True)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {putter.summary()}", err=True)
        click.get_current_context().exit(INTERRUPTED)
    except (PutFailed, LineTooLong, NoKey) as error:
        raise fail(f"{error}; {putter.summary()}.") from error
    except OSError as error:
        reason = sentence(error).removesuffix(".")
        raise fail(f"standard input cannot be read: {reason}; {putter.summary()}.") from error
    click.echo(putter.summary())


def _lines() -> Iterator[bytes | None]:
    if sys.stdin is None:
        raise OSError("it is closed")
    yield from lines_as_they_come(sys.stdin.buffer, LONGEST_DATA_BYTES)


def records_of(
    lines: Iterable[bytes | None], key: str | None, key_field: str | None
) -> Iterator[Any]:
    """Yield a record of each line; None goes through. Raises NoKey, once those before it were taken."""
    number = 0
    for line in lines:
        if line is None:
            yield None
            continue
        number += 1
        of_line = key
        if key_field is not None:
            try:
                of_line = _key_in(line, key_field)
            except NoKey as error:
                # What came before it is put first.
                yield None
                raise NoKey(f"line {number} {error}") from error
        digest = hashlib.md5(line, usedforsecurity=False).hexdigest()
        yield {"Data": line, "PartitionKey": digest if of_line is None else of_line}


def _key_in(line: bytes, field: str) -> str:
    """Return the member of a JSON object as a partition key: a text as it is, a number as it is written."""
    try:
        row = json.loads(line, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise NoKey("is not JSON") from error
    value = row.get(field) if isinstance(row, dict) else None
    if isinstance(value, bool):
        return json.dumps(value)
    if not isinstance(value, str) or not value:
        raise NoKey(f"has no text or number {field!r} for its key")
    return value


RECORDS_PER_PUT = 500
BYTES_PER_PUT = 4 * 1024 * 1024
# The largest record in any stream (API_PutRecordsRequestEntry).
LONGEST_DATA_BYTES = 10 * 1024 * 1024
# One request at a time, in order. A batch that is not full waits a millisecond for its last records.
PRODUCER_OPTIONS: dict[str, Any] = {
    "linger_ms": 1.0, "connections": 1, "give_up_after_s": 10.0, "stop_at_failure": True,
}  # fmt: skip


class PutFailed(Exception):
    """Records were not put; the message is one sentence that names the first of them and AWS's code."""


class Putter:
    """Puts records into one stream, in order, and counts them.

    `put` and `finish` are called by one thread; the counts may be read, and `stop` called, by any.
    """

    def __init__(self, producer: Producer, *, by_shard: bool = False) -> None:
        """Take a producer with PRODUCER_OPTIONS; `by_shard` counts for each shard, and reads every answer for it."""
        self.stream, self._producer, self._by_shard = producer.stream, producer, by_shard
        # Of batches that are done; and the receipts of the one that is on its way.
        self._shards: Counter[str] = Counter()
        self._unknown = self._offered = self._first = 0
        self._receipts: list[Receipt] = []
        self._has_failed = False

    @property
    def shards(self) -> Counter[str]:
        """How many records each shard has acknowledged; without `by_shard`, all are counted for the stream."""
        return self._shards + Counter(
            self._shard_of(receipt)
            for receipt in self._receipts
            if receipt.done() and receipt.exception() is None
        )

    def _shard_of(self, receipt: Receipt) -> str:
        return receipt.shard_id if self._by_shard else self.stream

    @property
    def acknowledged(self) -> int:
        """How many records the stream has acknowledged."""
        return self.shards.total()

    @property
    def unknown(self) -> int:
        """How many records were on their way when the connection, the service or the user ended it."""
        return self._unknown + sum(map(_may_be_there, self._receipts))

    def stop(self) -> None:
        """Let the request that is on its way be answered, and put nothing more."""
        from headrace.client.receipts import PutsFailed

        with contextlib.suppress(TimeoutError, PutsFailed):
            self._producer.close(0)

    def summary(self) -> str:
        """Return a sentence about what has been put so far."""
        shards = self.shards
        count = shards.total()
        text = f"{count} record{'s' if count != 1 else ''} put into {self.stream}"
        if self._by_shard and shards:
            spread = ", ".join(f"{shard}: {n}" for shard, n in sorted(shards.items()))
            text += f" ({spread})"
        if self.unknown:
            text += f"; of {self.unknown} more, which were on their way, some may be there too"
        return text

    def put(self, batch: list[dict[str, Any]]) -> None:
        """Send a batch once all earlier ones are put. A throttled record may come after a later one of its batch.

        Raises:
            PutFailed: some records, of this batch or the one before, were not put. Those that were are counted; later
                batches are refused.
        """
        from headrace.client.receipts import PutError, check_record

        self.finish()
        first = self._first = self._offered + 1
        self._offered += len(batch)
        if self._has_failed:
            raise PutFailed(f"record {first} was not put any more")
        for number, record in enumerate(batch, first):
            try:
                check_record(record["Data"], record["PartitionKey"])
            except ValueError as error:
                raise self._fail(f"record {number} was refused: {error}") from error
        try:
            for record in batch:
                self._receipts.append(self._producer.put(record["Data"], record["PartitionKey"]))
        except PutError:
            # It was stopped, or an earlier record of the batch has failed.
            self.finish()
            raise self._fail(f"record {first + len(self._receipts)} was not put any more") from None

    def finish(self) -> None:
        """Wait until the last batch is put. Raises as `put`."""
        errors: dict[int, PutError] = {}
        put: list[str] = []
        for number, receipt in enumerate(self._receipts, self._first):
            error = receipt.exception()
            if error is None:
                put.append(self._shard_of(receipt))
            else:
                errors[number] = error
        self._receipts = []
        self._shards.update(put)
        self._unknown += sum(error.may_be_there for error in errors.values())
        if errors:
            raise self._fail(_describe(errors))

    def _fail(self, sentence: str) -> PutFailed:
        self._has_failed = True
        return PutFailed(sentence)


def _may_be_there(receipt: Receipt) -> bool:
    if not receipt.done():
        return True
    error = receipt.exception()
    return error is not None and error.may_be_there


def _describe(errors: dict[int, PutError]) -> str:
    """Return a phrase with the first record that failed, and how many others failed as it did."""
    first, error = next(((n, e) for n, e in errors.items() if e.code != "Closed"), (0, None))
    if error is None:
        return f"record {min(errors)} was not put any more"
    alike = [number for number, other in errors.items() if other.code == error.code]
    reason = error.reason.removesuffix(".")
    if error.attempts > 1:
        tried = "tried" if error.may_be_there else "refused"
        return f"record {first} was {tried} {error.attempts} times{_and_others(len(alike) - 1)}: {reason}"
    if len(alike) == 1:
        return f"record {first} was refused: {reason}"
    return f"records {first} to {alike[-1]} were refused: {reason}"


def open_putter(
    stream: str, *, endpoint_url: str, region: str, aws: bool, by_shard: bool = False
) -> Putter:
    """Return a putter into a stream that is there, here or on AWS. Raises ClickException."""
    from headrace.client.producer import Producer

    options = client_options(endpoint_url=endpoint_url, region=region, aws=aws)
    if aws or not _is_there(stream, options):
        _check_stream(client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws), stream)
    # The command itself says what became of each record.
    logging.getLogger("headrace.client").addHandler(logging.NullHandler())
    return Putter(Producer(stream, **PRODUCER_OPTIONS, **options), by_shard=by_shard)


def put_all(
    putter: Putter,
    groups: Iterator[list[dict[str, Any]]],
    *,
    at_once: bool,
    on_put: Callable[[int], Any] = lambda _: None,
) -> None:
    """Put all batches; `at_once`: each is done before the next one is taken. For the main thread.

    After Ctrl-C the current request is still awaited, so that its records are counted; after a second one, it is not.

    Raises:
        PutFailed: some records were not put, and no later ones.
        KeyboardInterrupt: it was interrupted; no request is on its way.
    """

    def leave() -> None:
        click.echo(f"interrupted: {putter.summary()}", err=True)
        os._exit(INTERRUPTED)

    with StopSignals(signal.SIGINT, again=leave) as asked:
        asked.call_when_asked(putter.stop)
        try:
            while not asked:
                with asked.raising():
                    batch = next(groups, None)
                if batch is None:
                    putter.finish()
                    return
                putter.put(batch)
                if at_once:
                    putter.finish()
                on_put(len(batch))
        except PutFailed:
            if not asked:
                raise
        finally:
            # What is on its way is counted, or given up with the putter.
            with contextlib.suppress(PutFailed):
                putter.finish()
            putter.stop()
    raise KeyboardInterrupt


def _is_there(stream: str, options: Mapping[str, Any]) -> bool:
    """Whether the cloud describes the stream. This takes no boto3, which loads for half a second."""
    from headrace.client.access import AwsAccess
    from headrace.client.hash_keys import name_member
    from headrace.client.wire import ServiceError, Target, Wire, WireError

    access = AwsAccess(**options)
    wire = Wire(access, Target.kinesis(access))
    try:
        wire.call("DescribeStreamSummary", json.dumps(name_member(stream)).encode())
    except (WireError, ServiceError):
        # boto3 tells why, after its retries.
        return False
    finally:
        wire.close()
    return True


def _check_stream(kinesis: Any, stream: str) -> None:
    """Check that the cloud and the stream exist before any record is put. Raises ClickException."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        kinesis.describe_stream_summary(StreamName=stream)
    except ClientError as error:
        # A caller who may put records may lack permission to describe the stream.
        with contextlib.suppress(kinesis.exceptions.AccessDeniedException):
            raise explain_stream(error, kinesis, stream) from error
    except BotoCoreError as error:
        raise explain(error) from error


def _and_others(count: int) -> str:
    if not count:
        return ""
    return f", as {count} other{'s were' if count > 1 else ' was'}"


def batches(records: Iterable[dict[str, Any] | None]) -> Iterator[list[dict[str, Any]]]:
    """Group records into PutRecords requests by AWS's limits of count and bytes; None ends a group early."""
    from headrace.client.receipts import size_of

    batch: list[dict[str, Any]] = []
    size_bytes = 0
    for record in records:
        record_bytes = 0
        if record is not None:
            record_bytes = size_of(record["Data"], record["PartitionKey"])
        is_full = len(batch) == RECORDS_PER_PUT or size_bytes + record_bytes > BYTES_PER_PUT
        if batch and (record is None or is_full):
            yield batch
            batch, size_bytes = [], 0
        if record is not None:
            batch.append(record)
            size_bytes += record_bytes
    if batch:
        yield batch
