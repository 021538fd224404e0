"""The Redshift Data API's operations: all of them."""

from __future__ import annotations

from headrace.aws.calls.operation import Action
from headrace.services.redshift_data.actions.catalog import (
    describe_table,
    list_databases,
    list_schemas,
    list_sessions,
    list_tables,
)
from headrace.services.redshift_data.actions.statements import (
    batch_execute_statement,
    cancel_statement,
    describe_statement,
    execute_statement,
    get_statement_result,
    get_statement_result_v2,
    list_statements,
)

ACTIONS: list[Action] = [
    execute_statement,
    batch_execute_statement,
    describe_statement,
    cancel_statement,
    list_statements,
    list_sessions,
    get_statement_result,
    get_statement_result_v2,
    list_databases,
    list_schemas,
    list_tables,
    describe_table,
]
