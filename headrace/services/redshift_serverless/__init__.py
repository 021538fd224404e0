"""Redshift Serverless: namespaces with their tables, and the workgroups by which they are reached."""
