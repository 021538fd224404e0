"""Runs `spark-submit` on this machine for EMR's steps and EMR Serverless' job runs."""


class JobRefused(Exception):
    """A job cannot start; the message is one sentence for the user. The job becomes FAILED."""
