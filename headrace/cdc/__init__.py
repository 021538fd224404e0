"""Change data capture: a PostgreSQL's rows, then its changes, into a Kinesis stream or another database.

The face is `headrace.cdc.capture.Capture`, which reads, and a sink: `headrace.cdc.stream_sink.StreamSink` or
`headrace.cdc.table_sink.TableSink`. Needs the extra `cdc`.
"""
