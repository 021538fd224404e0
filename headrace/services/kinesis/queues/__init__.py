"""Queues: consumers of an on-demand stream that receive, acknowledge and redeliver record by record.

`queues.Queues` is the only class that the rest of Kinesis uses. Facts: docs.aws.amazon.com/streams/latest/dev, pages
consuming-with-queues and queues-* (documented, November 2026), and botocore's model. What they leave open is assumed,
and marked so where it is decided.
"""
