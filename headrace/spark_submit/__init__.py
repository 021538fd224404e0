"""Runs `spark-submit` on this machine for EMR's steps and EMR Serverless' job runs."""
