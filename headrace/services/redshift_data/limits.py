"""Quotas of the Redshift Data API. Source: docs.aws.amazon.com/redshift/latest/mgmt/data-api.html (documented)."""

# How long a statement and its result are kept.
KEPT_MS = 24 * 3600 * 1000
# Submitted, picked and started, of a cluster or a workgroup.
ACTIVE_STATEMENTS = 500
# Of those, so many run at once: headrace's PostgreSQL takes 60 connections, and psql and COPY need some.
RUNNING_STATEMENTS = 30
# Of an account in a region. Documented is that there is a quota (ActiveSessionsExceededException); its size is assumed.
ACTIVE_SESSIONS = 500
STATEMENT_BYTES = 100 * 1024
# AWS's 500 MB, of which the state database of a laptop takes a fifth.
RESULT_BYTES = 100 * 1024 * 1024
# AWS's pages have up to 100 MB.
ROWS_PER_PAGE = 1000
STATEMENTS_PER_PAGE = 100
NAMES_PER_PAGE = 1000
