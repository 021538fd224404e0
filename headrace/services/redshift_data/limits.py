"""Quotas of the Redshift Data API. Source: docs.aws.amazon.com/redshift/latest/mgmt/data-api.html (documented)."""

# How long AWS keeps a statement and its result.
KEPT_MS = 24 * 3600 * 1000
# Statements of a cluster or a workgroup that are submitted, picked or started.
ACTIVE_STATEMENTS = 500
# How many of those run at a time: headrace's PostgreSQL accepts 60 connections, and psql and COPY need some.
RUNNING_STATEMENTS = 30
# Open sessions of an account in a region. The quota is documented (ActiveSessionsExceededException), its size assumed.
ACTIVE_SESSIONS = 500
STATEMENT_BYTES = 100 * 1024
# AWS allows 500 MB; headrace's state database keeps a fifth of that.
RESULT_BYTES = 100 * 1024 * 1024
# A page of AWS's has up to 100 MB.
ROWS_PER_PAGE = 1000
STATEMENTS_PER_PAGE = 100
NAMES_PER_PAGE = 1000
