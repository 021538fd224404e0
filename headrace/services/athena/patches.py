"""Athena: deletions and updates, which moto lacks; prepared statements: PREPARE, EXECUTE ... USING, DEALLOCATE PREPARE.

Documented: https://docs.aws.amazon.com/athena/latest/ug/sql-prepare.html, sql-execute.html, sql-deallocate-prepare.html
(a name is unique in its workgroup); the refusals' sentences: assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.moto.current_cloud import unix_time
from headrace.moto.patching import assign

GLUES_CATALOG = "AwsDataCatalog"


def keep_creation_times(module: Any) -> None:
    """Show when work groups were made, the primary one too: moto shows the time of the question."""
    group, backend = module.WorkGroup, module.AthenaBackend
    make, show, show_all = group.__init__, backend.get_work_group, backend.list_work_groups

    def make_dated(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        self.made_s = unix_time()

    def dated(self: Any, shown: dict[str, Any]) -> dict[str, Any]:
        # A group of older data does not know when it was made.
        made_s = getattr(self.work_groups[shown["Name"]], "made_s", shown["CreationTime"])
        return {**shown, "CreationTime": made_s}

    def get_work_group(self: Any, name: str) -> dict[str, Any] | None:
        shown = show(self, name)
        return None if shown is None else dated(self, shown)

    group.__init__ = make_dated
    backend.get_work_group = get_work_group
    backend.list_work_groups = lambda self: [dated(self, shown) for shown in show_all(self)]


def publish_metrics(module: Any) -> None:
    """Patch `moto.athena.models`: a new work group publishes metrics by default.

    Recorded: go-to-k/cdk-real-drift, tests/corpus, AWS::Athena::WorkGroup, 2026-07-13.
    """
    create = module.AthenaBackend.create_work_group

    def create_work_group(self: Any, name: str, configuration: Any, *args: Any, **more: Any) -> Any:
        configuration = {"PublishCloudWatchMetricsEnabled": True, **(configuration or {})}
        return create(self, name, configuration, *args, **more)

    module.AthenaBackend.create_work_group = create_work_group


def allow_deletions(module: Any) -> None:
    """Allow deletions of named queries and data catalogs."""

    def delete_named_query(self: Any) -> str:
        self.athena_backend.named_queries.pop(self._get_param("NamedQueryId"), None)
        return json.dumps({})

    def delete_data_catalog(self: Any) -> str:
        name = self._get_param("Name")
        if self.athena_backend.data_catalogs.pop(name, None) is None:
            raise _missing_catalog(name)
        return json.dumps({})

    module.AthenaResponse.delete_named_query = delete_named_query
    module.AthenaResponse.delete_data_catalog = delete_data_catalog


def _statement_key(self: Any) -> str:
    return f"{self._get_param('WorkGroup')}|{self._get_param('StatementName')}"


def _find_statement(self: Any) -> Any:
    from moto.core.exceptions import JsonRESTError

    statement = self.athena_backend.prepared_statements.get(_statement_key(self))
    if statement is None:
        name, group = self._get_param("StatementName"), self._get_param("WorkGroup")
        raise JsonRESTError(
            "ResourceNotFoundException",
            f"PreparedStatement {name} was not found in workGroup {group}",
        )
    return statement


def _create_prepared_statement(self: Any) -> str:
    from moto.athena.models import PreparedStatement
    from moto.core.exceptions import JsonRESTError

    name, group = self._get_param("StatementName"), self._get_param("WorkGroup")
    statements = self.athena_backend.prepared_statements
    if not self.athena_backend.get_work_group(group):
        raise JsonRESTError("InvalidRequestException", f"WorkGroup {group} is not found.")
    if _statement_key(self) in statements:
        raise JsonRESTError("InvalidRequestException", f"PreparedStatement {name} already exists.")
    texts = self._get_param("QueryStatement"), self._get_param("Description")
    statements[_statement_key(self)] = PreparedStatement(name, group, *texts)
    return json.dumps({})


def _get_prepared_statement(self: Any) -> str:
    statement = _find_statement(self)
    shown = {
        "StatementName": statement.statement_name,
        "QueryStatement": statement.query_statement,
        "WorkGroupName": statement.workgroup,
        "LastModifiedTime": statement.last_modified_time.timestamp(),
    }
    if statement.description:
        shown["Description"] = statement.description
    return json.dumps({"PreparedStatement": shown})


def _list_prepared_statements(self: Any) -> str:
    group = self._get_param("WorkGroup")
    shown = [
        {
            "StatementName": statement.statement_name,
            "LastModifiedTime": statement.last_modified_time.timestamp(),
        }
        for statement in self.athena_backend.prepared_statements.values()
        if statement.workgroup == group
    ]
    return json.dumps({"PreparedStatements": shown})


def _delete_prepared_statement(self: Any) -> str:
    _find_statement(self)
    del self.athena_backend.prepared_statements[_statement_key(self)]
    return json.dumps({})


def _update_prepared_statement(self: Any) -> str:
    statement = _find_statement(self)
    statement.query_statement = self._get_param("QueryStatement")
    statement.description = self._get_param("Description")
    return json.dumps({})


_STATEMENT_CALLS = {
    "create_prepared_statement": _create_prepared_statement,
    "get_prepared_statement": _get_prepared_statement,
    "list_prepared_statements": _list_prepared_statements,
    "delete_prepared_statement": _delete_prepared_statement,
    "update_prepared_statement": _update_prepared_statement,
}


def keep_statements(module: Any) -> None:
    """Keep prepared statements by workgroup and name; moto keeps them by name, and cannot delete or change them.

    The refusals' codes are documented, their sentences assumed.
    """
    for name, call in _STATEMENT_CALLS.items():
        setattr(module.AthenaResponse, name, call)


_RESULTS = ("OutputLocation", "EncryptionConfiguration", "ExpectedBucketOwner", "AclConfiguration")


_ENGINE = {"EffectiveEngineVersion": "Athena engine version 3", "SelectedEngineVersion": "AUTO"}


def _workgroup_changed(before: Mapping[str, Any], updates: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workgroup's configuration with updates, whose `Remove...` members remove settings."""
    now, changes = dict(before), dict(updates)
    results = changes.pop("ResultConfigurationUpdates", None)
    if changes.pop("RemoveBytesScannedCutoffPerQuery", False):
        now.pop("BytesScannedCutoffPerQuery", None)
    if changes.pop("RemoveCustomerContentEncryptionConfiguration", False):
        now.pop("CustomerContentEncryptionConfiguration", None)
    if results is not None:
        kept = dict(now.get("ResultConfiguration") or {})
        for name in _RESULTS:
            if results.get(f"Remove{name}"):
                kept.pop(name, None)
            if results.get(name) is not None:
                kept[name] = results[name]
        now["ResultConfiguration"] = kept
    return {**now, **changes}


def allow_updates(module: Any) -> None:
    """Allow updates of workgroups and data catalogs."""
    from moto.core.exceptions import JsonRESTError

    def update_work_group(self: Any) -> str:
        name = self._get_param("WorkGroup")
        group = self.athena_backend.work_groups.get(name)
        if group is None:
            raise JsonRESTError("InvalidRequestException", f"WorkGroup {name} is not found.")
        updates = self._get_param("ConfigurationUpdates") or {}
        group.configuration = _workgroup_changed(group.configuration, updates)
        engine = {**_ENGINE, **(group.configuration.get("EngineVersion") or {})}
        group.configuration["EngineVersion"] = engine
        assign(group, {name: self._get_param(name) for name in ("Description", "State")})
        return json.dumps({})

    def update_data_catalog(self: Any) -> str:
        name = self._get_param("Name")
        catalog = self.athena_backend.data_catalogs.get(name)
        if catalog is None:
            raise _missing_catalog(name)
        catalog.type = self._get_param("Type")
        assign(catalog, {name: self._get_param(name) for name in ("Description", "Parameters")})
        return json.dumps({})

    module.AthenaResponse.update_work_group = update_work_group
    module.AthenaResponse.update_data_catalog = update_data_catalog


def _missing_catalog(name: str) -> Exception:
    from moto.core.exceptions import JsonRESTError

    if name.lower() == GLUES_CATALOG.lower():
        return JsonRESTError("InvalidRequestException", f"{name} cannot be modified")  # assumed
    return JsonRESTError("InvalidRequestException", f"DataCatalog {name} was not found")


def show_glues_catalog(module: Any) -> None:
    """Patch `moto.athena.models`: every account has Glue's catalog, which nobody changes (documented: DataCatalog)."""
    backend = module.AthenaBackend
    show_all, get, create = (
        backend.list_data_catalogs, backend.get_data_catalog, backend.create_data_catalog,
    )  # fmt: skip

    def list_data_catalogs(self: Any) -> Any:
        return [
            {"CatalogName": GLUES_CATALOG, "Type": "GLUE", "Status": "CREATE_COMPLETE"},
            *({**shown, "Status": "CREATE_COMPLETE"} for shown in show_all(self)),
        ]

    def get_data_catalog(self: Any, name: str) -> Any:
        if name.lower() != GLUES_CATALOG.lower():
            found = get(self, name)
            if found is None:
                raise _missing_catalog(name)
            return found
        parameters = {"catalog-id": self.account_id}
        return {"Name": GLUES_CATALOG, "Type": "GLUE", "Parameters": parameters}

    def create_data_catalog(self: Any, name: str, *args: Any, **members: Any) -> Any:
        # moto answers as for any name that is taken.
        return (
            None if name.lower() == GLUES_CATALOG.lower() else create(self, name, *args, **members)
        )

    backend.list_data_catalogs = list_data_catalogs
    backend.get_data_catalog = get_data_catalog
    backend.create_data_catalog = create_data_catalog


_NAME = r'"?([A-Za-z_][A-Za-z0-9_@:]{0,255})"?'
_PREPARE = re.compile(rf"PREPARE\s+{_NAME}\s+FROM\s+(.+)", re.IGNORECASE | re.DOTALL)
_EXECUTE = re.compile(rf"EXECUTE\s+{_NAME}(?:\s+USING\s+(.+))?", re.IGNORECASE | re.DOTALL)
_DEALLOCATE = re.compile(rf"DEALLOCATE\s+PREPARE\s+{_NAME}", re.IGNORECASE)
_OPENING, _CLOSING = "([", ")]"


def run_prepared(
    backend: Any, group: str, text: str, parameters: Sequence[str]
) -> tuple[str, Sequence[str]]:
    """Return the statement that a text stands for, and its parameters; keep or drop what the text prepares.

    An unknown name stays as it is: the query then fails by it. Raises moto's error for a name that is prepared already.
    """
    from moto.athena.models import PreparedStatement
    from moto.core.exceptions import JsonRESTError

    plain, statements = text.strip().rstrip(";").rstrip(), backend.prepared_statements
    if found := _PREPARE.fullmatch(plain):
        if f"{group}|{found[1]}" in statements:
            raise JsonRESTError(
                "InvalidRequestException", f"PreparedStatement {found[1]} already exists."
            )
        statements[f"{group}|{found[1]}"] = PreparedStatement(found[1], group, found[2], None)
    elif found := _EXECUTE.fullmatch(plain):
        statement = statements.get(f"{group}|{found[1]}")
        if statement is not None:
            values = split_values(found[2]) if found[2] else parameters
            return str(statement.query_statement), values
    elif (found := _DEALLOCATE.fullmatch(plain)) and not statements.pop(
        f"{group}|{found[1]}", None
    ):
        raise JsonRESTError(
            "ResourceNotFoundException",
            f"PreparedStatement {found[1]} was not found in workGroup {group}",
        )
    return text, parameters


def split_values(text: str) -> list[str]:
    """Return the values of USING, each as its SQL text: commas in quotes and brackets divide nothing."""
    values, begin, depth, quote = list[str](), 0, 0, ""
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and not depth:
            values.append(text[begin:at].strip())
            begin = at + 1
    return [*values, text[begin:].strip()]
