"""Streaming SQL over Kinesis streams: KSQL's and Kinesis Analytics' queries, as Spark jobs.

A text goes through `parsing` (statements), `analysis` (plans, with every name and type known), and then one of two
readers of the same plans: `pyspark_job`, which writes a job for Spark, or `fold`, which runs them here for tests.
"""
