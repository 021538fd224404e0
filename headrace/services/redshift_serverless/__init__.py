"""Redshift Serverless: namespaces, which hold tables, and workgroups, which are their endpoints."""
