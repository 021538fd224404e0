"""Turns statements into plans: looks at every name and type, and refuses what Spark cannot do, with a way round."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from headrace.sql.functions import find_function
from headrace.sql.inference import Nothing, Outside
from headrace.sql.own_functions import own_function
from headrace.sql.parsing import Words, parse
from headrace.sql.plan import (
    KINESIS_ANALYTICS,
    KSQL,
    Input,
    Named,
    QueryPlan,
    Relation,
    RelationColumn,
    Script,
)
from headrace.sql.query_plans import Planner, columns_of, inherit_time
from headrace.sql.relations import check_columns, check_output, declare_relation, origin_of
from headrace.sql.statements import (
    Alter,
    Cast,
    ChangeType,
    CreateAs,
    CreateFunction,
    CreateSource,
    Drop,
    DropFunction,
    InsertSelect,
    InsertValues,
    Query,
    RelationName,
    SetProperty,
    Statement,
)
from headrace.sql.types import STRING, Function, Location, SqlError, common, near

_QUERY_NAME = re.compile(r"[\w-][\w.-]{0,127}", re.ASCII)
_STREAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# Properties that name streams, of the records that cannot be read and of late rows.
ERRORS, LATE = "errors.stream", "late.stream"
_SETTINGS = {("auto.offset.reset", "earliest"), ("auto.offset.reset", None)}


def read_script(text: str, dialect: str = KSQL) -> Script:
    """Return the plans of a whole text; raises SqlError for the first thing that cannot be done."""
    analysis = Analysis(dialect)
    for statement in parse(text):
        analysis.take(statement)
    return analysis.script()


class _Index:
    """Finds names of queries, and what a stream's readers write: in a text of many, each query asks for both."""

    def __init__(self) -> None:
        self._queries: list[QueryPlan] = []
        self._count = 0
        self._names: set[str] = set()
        self._onward: dict[str, set[str]] = {}

    def has(self, name: str, queries: list[QueryPlan]) -> bool:
        """Return whether one of `queries` has a name, in any letter case."""
        self._follow(queries)
        return name.lower() in self._names

    def streams_after(self, streams: set[str], queries: list[QueryPlan]) -> set[str]:
        """Return `streams`, and what `queries` make of their rows, by way of others too."""
        self._follow(queries)
        reached, waiting = set(streams), list(streams)
        while waiting:
            further = self._onward.get(waiting.pop(), set[str]()) - reached
            reached |= further
            waiting += further
        return reached

    def _follow(self, queries: list[QueryPlan]) -> None:
        """Take in what a list has more than before, or another list whole: queries are taken away by a new list."""
        if queries is not self._queries:
            self._queries, self._count, self._names, self._onward = queries, 0, set(), {}
        for query in queries[self._count :]:
            self._names.add(query.name.lower())
            for source in query.inputs():
                self._onward.setdefault(_stream_of(source.relation), set()).update(
                    _written_by(query)
                )
        self._count = len(queries)


@dataclass
class Analysis:
    """A script that grows statement by statement. For one thread.

    `outside` answers for what a text does not say itself; `words` are for the parser; `notes` say what `outside` gave.
    """

    dialect: str = KSQL
    outside: Outside = field(default_factory=Nothing)
    words: Words = field(default_factory=Words)
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    notes: list[str] = field(default_factory=list[str])
    relations: dict[str, Relation] = field(default_factory=dict[str, Relation])
    declared: dict[str, CreateSource] = field(default_factory=dict[str, CreateSource])
    queries: list[QueryPlan] = field(default_factory=list[QueryPlan])
    settings: dict[str, str] = field(default_factory=dict[str, str])
    _index: _Index = field(default_factory=_Index)

    def script(self) -> Script:
        """Return what has been taken so far."""
        errors = self.settings.get(ERRORS, "")
        return Script(self.dialect, dict(self.relations), tuple(self.queries), errors)

    def take(self, statement: Statement) -> None:
        """Add a statement; raises SqlError, and is then as before."""
        match statement:
            case CreateSource():
                self._declare(statement)
            case Alter():
                self._alter(statement)
            case CreateAs():
                self._create_as(statement)
            case InsertSelect():
                self._insert(statement)
            case Query():
                self._take_query(self.plan(statement))
            case SetProperty():
                self._set(statement)
            case ChangeType():
                pass
            case CreateFunction():
                self._create_function(statement)
            case DropFunction():
                self._drop_function(statement)
            case Drop():
                self._drop(statement)
            case InsertValues():
                raise SqlError(
                    "INSERT INTO .. VALUES puts one record, which no job does: the prompt does, and `headrace put`",
                    statement.location,
                )
            case _:
                word = type(statement).__name__.upper()
                raise SqlError(
                    f"{word} is for the prompt, `headrace sql`, not for a job", statement.location
                )

    def plan(self, statement: Query) -> QueryPlan:
        """Return the plan of a query whose rows are shown, without taking it; raises SqlError."""
        return self._planner().plan(statement.select, f"query_{len(self.queries) + 1}", None)

    def _planner(self) -> Planner:
        return Planner(self.dialect, self.functions, self._find)

    def terminate(self, name: str, location: Location) -> None:
        """Take a query away, or ALL; raises SqlError if there is none of this name."""
        left = [q for q in self.queries if q.name.lower() != name.lower()]
        if name.upper() == "ALL":
            left = []
        elif len(left) == len(self.queries):
            raise SqlError(
                f"no query {name!r}{near(name, [q.name for q in self.queries])}", location
            )
        self.queries = left

    # Relations.

    def _declare(self, statement: CreateSource) -> None:
        if self._is_there(statement):
            return
        if statement.name.lower() == "error_stream":
            raise SqlError(
                "error_stream is not an application's own, as on AWS", statement.location
            )
        check_columns(statement, self.dialect)
        names = {column.name.lower() for column in statement.columns}
        columns = tuple(RelationColumn(c.name, c.type, bool(c.key)) for c in statement.columns)
        origin = origin_of(statement, self.outside)
        columns += tuple(one for one in origin.columns if one.name.lower() not in names)
        if not columns:
            raise SqlError(
                f"{statement.name} has no columns: name them, or FROM STREAM '..' INFER reads records, "
                "or WITH (schema_name = '..') or (glue_table = '..')",
                statement.location,
            )
        relation = declare_relation(
            statement.name, columns, statement.properties, statement.location, origin
        )
        if origin.about:
            words = ", ".join(f"{one.name} {one.type}" for one in relation.columns)
            self.notes.append(f"{statement.name} has the columns {words}, {origin.about}")
        if relation.is_object and not statement.is_table:
            raise SqlError("an object in S3 is a reference table: CREATE TABLE", statement.location)
        if statement.is_table and not relation.key_columns() and not relation.is_object:
            raise SqlError(
                f"the table {statement.name} has no PRIMARY KEY column", statement.location
            )
        is_internal = self.dialect == KINESIS_ANALYTICS and not relation.stream
        if not relation.stream and not is_internal:
            raise SqlError(
                f"{statement.name} needs WITH (stream = '..'), its Kinesis stream",
                statement.location,
            )
        if relation.format == "RAW" and len(columns) - len(relation.key_columns()) > 1:
            raise SqlError("RAW is a record's whole data, one column", statement.location)
        self._add(replace(relation, is_table=statement.is_table))
        self.declared[statement.name.lower()] = statement

    def _alter(self, statement: Alter) -> None:
        """Declare a relation anew, with columns more; refuse one that a query has read or written as it was."""
        lower = statement.name.lower()
        declared, relation = (
            self.declared.get(lower),
            self._known(statement.name, statement.location),
        )
        kind = "TABLE" if relation.is_table else "STREAM"
        if relation.is_table != statement.is_table:
            raise SqlError(f"{relation.name} is a {kind}: ALTER {kind}", statement.location)
        if declared is None:
            raise SqlError(
                f"{relation.name} has the columns of its query: CREATE OR REPLACE {kind} .. AS SELECT",
                statement.location,
            )
        for query in self.queries:
            if relation in [query.target, *(source.relation for source in query.inputs())]:
                raise SqlError(
                    f"{query.name} has {relation.name} as it was: ALTER it before",
                    statement.location,
                )
        for column in statement.columns:
            if relation.column(column.name) is not None:
                raise SqlError(f"column {column.name!r} is there already", column.location)
        columns = (*declared.columns, *statement.columns)
        self._declare(replace(declared, columns=columns, replaces=True))

    def _known(self, name: str, location: Location) -> Relation:
        relation = self.relations.get(name.lower())
        if relation is None:
            names = [known.name for known in self.relations.values()]
            raise SqlError(f"no stream or table {name!r}{near(name, names)}", location)
        return relation

    def _is_there(self, statement: CreateSource | CreateAs) -> bool:
        """Return whether there is a relation that IF NOT EXISTS keeps; refuse a name that is taken."""
        if statement.name.lower() not in self.relations or statement.replaces:
            return False
        if statement.if_not_exists:
            return True
        raise SqlError(
            f"{statement.name} is there already; CREATE OR REPLACE makes it anew",
            statement.location,
        )

    def _add(self, relation: Relation) -> None:
        self.relations[relation.name.lower()] = relation

    def _drop(self, statement: Drop) -> None:
        relation = self.relations.get(statement.name.lower())
        if relation is None:
            if not statement.if_exists:
                self._known(statement.name, statement.location)
            return
        for query in self.queries:
            if relation in [source.relation for source in query.inputs()]:
                raise SqlError(f"{query.name} reads {relation.name}", statement.location)
        self.queries = [query for query in self.queries if query.target != relation]
        del self.relations[statement.name.lower()]
        self.declared.pop(statement.name.lower(), None)

    def _find(self, name: RelationName) -> Input:
        lower = name.name.lower()
        relation = self.relations.get(lower)
        if relation is None and self.dialect == KINESIS_ANALYTICS and lower.endswith("_001"):
            relation = self.relations.get(lower.removesuffix("_001"))
        if lower == "error_stream":
            raise SqlError(
                "error_stream is not read by SQL: a job counts the records that it cannot read, and `headrace sql run "
                "--errors STREAM` puts them into a stream",
                name.location,
            )
        return Input(relation or self._known(name.name, name.location), name.alias)

    # Functions.

    def _create_function(self, statement: CreateFunction) -> None:
        name = statement.name.upper()
        if find_function(name) is not None:
            raise SqlError(f"{statement.name} is a function of SQL's own", statement.location)
        if name in self.functions and not statement.replaces:
            raise SqlError(
                f"the function {statement.name} is there already; CREATE OR REPLACE makes it anew",
                statement.location,
            )
        self.functions[name] = own_function(statement, self.outside)

    def _drop_function(self, statement: DropFunction) -> None:
        if self.functions.pop(statement.name.upper(), None) is None and not statement.if_exists:
            names = sorted(self.functions)
            raise SqlError(
                f"no function {statement.name}{near(statement.name, names)}", statement.location
            )

    # Queries.

    def _create_as(self, statement: CreateAs) -> None:
        if self._is_there(statement):
            return
        plan = self._planner().plan(statement.select, statement.name, statement.is_table)
        columns = columns_of(plan)
        if self.dialect == KSQL:
            for output in plan.outputs:
                check_output(output)
        for one in statement.properties:
            if one.name in ("glue_table", "schema_name", "registry_name", "schema_version"):
                raise SqlError("a query's columns are those that it selects", one.location)
        relation = declare_relation(
            statement.name, columns, statement.properties, statement.location
        )
        relation = replace(
            relation,
            is_table=statement.is_table,
            stream=relation.stream or statement.name.lower(),
        )
        if relation.format == "RAW":
            raise SqlError("a query writes JSON, CSV or AVRO", statement.location)
        _check_written(relation, statement.location)
        relation, warnings = inherit_time(relation, plan)
        self._add(relation)
        plan = replace(plan, target=relation, warnings=(*plan.warnings, *warnings))
        self._start(plan, replaces=statement.replaces)

    def _insert(self, statement: InsertSelect) -> None:
        target = self.relations.get(statement.target.lower())
        if target is None:
            names = [known.name for known in self.relations.values()]
            raise SqlError(
                f"no stream {statement.target!r}{near(statement.target, names)}", statement.location
            )
        if target.is_table:
            raise SqlError(
                "INSERT INTO writes into a stream; a table is its query's", statement.location
            )
        _check_written(target, statement.location)
        name = statement.name or f"insert_{len(self.queries) + 1}"
        plan = self._planner().plan(statement.select, name, False)
        outputs = self._fit(plan.outputs, target, statement)
        warnings = plan.warnings
        if statement.name is None:
            warning = (
                f"the query is called {name} by its place in the text, and so is its progress: a query before it "
                "moves it; WITH (query_id = '..') gives it a name"
            )
            warnings = (*warnings, warning)
        plan = replace(plan, target=target, outputs=outputs, warnings=warnings)
        self._start(plan, replaces=statement.replaces)

    def _start(self, plan: QueryPlan, *, replaces: bool) -> None:
        """Add a query that has a name; refuse one that another has, too."""
        if not _QUERY_NAME.fullmatch(plan.name):
            raise SqlError(
                f"{plan.name!r} names a folder of progress: letters, digits, '_', '-' and '.'",
                plan.location,
            )
        if replaces:
            self.queries = [q for q in self.queries if q.name.lower() != plan.name.lower()]
        if self._index.has(plan.name, self.queries):
            raise SqlError(f"two queries are called {plan.name}", plan.location)
        self._take_query(plan)

    def _take_query(self, plan: QueryPlan) -> None:
        """Add a query; refuse one that reads, by way of others, what it writes: its rows would go round for ever."""
        plan = self._with_late(plan)
        reached = self._index.streams_after(_written_by(plan), self.queries)
        if reached & {_stream_of(source.relation) for source in plan.inputs()}:
            raise SqlError(f"{plan.name} would read what it writes", plan.location)
        if ERRORS in self.settings:
            self._check_errors(plan, self.settings[ERRORS], plan.location)
        self.queries.append(plan)

    # Properties.

    def _set(self, statement: SetProperty) -> None:
        """Take a property that has an effect; refuse the others."""
        name, stream = statement.name.lower(), statement.value
        if name not in (ERRORS, LATE):
            if (name, stream) not in _SETTINGS:
                raise SqlError(
                    f"the property {statement.name!r} has no effect here; headrace takes {ERRORS!r}, {LATE!r}, and "
                    "'auto.offset.reset' = 'earliest', which is what a job does",
                    statement.location,
                )
            return
        if stream is None:
            self.settings.pop(name, None)
            return
        if not _STREAM_NAME.fullmatch(stream):
            raise SqlError(f"{stream!r} is no name of a Kinesis stream", statement.location)
        if name == ERRORS:
            for query in self.queries:
                self._check_errors(query, stream, statement.location)
        self.settings[name] = stream

    def _check_errors(self, query: QueryPlan, stream: str, location: Location) -> None:
        if stream in {_stream_of(source.relation) for source in query.inputs()}:
            raise SqlError(
                f"{query.name} reads {stream}, and so its own bad records: name another stream of errors",
                location,
            )

    def _with_late(self, plan: QueryPlan) -> QueryPlan:
        """Return a query with the stream of its late rows, if it has late rows and the text names one."""
        stream = self.settings.get(LATE, "")
        has_late = plan.window is not None or plan.match is not None
        is_of_streams = any(join.method == "streams" for join in plan.joins)
        if not stream or not (has_late or is_of_streams):
            return plan
        problem = ""
        if plan.joins and plan.is_aggregate:
            problem = (
                "late rows of a join that is grouped go to no stream: name the join by CREATE STREAM .. AS, and group "
                "that stream"
            )
        elif plan.target is not None and not plan.target.stream:
            problem = f"{plan.target.name} needs a Kinesis stream, WITH (stream = '..'), for late rows to go to one"
        if problem:
            raise SqlError(f"{problem}; UNSET {LATE!r} before it counts them", plan.location)
        return replace(plan, late=stream)

    def _fit(
        self, outputs: tuple[Named, ...], target: Relation, statement: InsertSelect
    ) -> tuple[Named, ...]:
        """Return a query's outputs under the names of the stream that they go to: by name, or in order."""
        names = statement.columns or tuple(column.name for column in target.columns)
        location = statement.select.location
        by_name = not statement.columns and {o.name.lower() for o in outputs} == {
            n.lower() for n in names
        }
        if not by_name and len(names) != len(outputs):
            raise SqlError(
                f"{target.name} gets {len(names)} columns, and the query has {len(outputs)}",
                location,
            )
        fitted: list[Named] = []
        for index, name in enumerate(names):
            column = target.column(name)
            if column is None:
                raise SqlError(
                    f"no column {name!r} in {target.name}{near(name, [c.name for c in target.columns])}",
                    statement.location,
                )
            output = (
                next(o for o in outputs if o.name.lower() == name.lower())
                if by_name
                else outputs[index]
            )
            if common(column.type, output.type) is None:
                raise SqlError(
                    f"{target.name}.{column.name} is {column.type}, and the query gives {output.type}",
                    output.expression.location,
                )
            expression = output.expression
            if output.type == STRING != column.type:
                # A text says a time.
                expression = Cast(expression, column.type, location=expression.location)
            fitted.append(Named(column.name, expression, column.type))
        return tuple(fitted)


def _check_written(relation: Relation, location: Location) -> None:
    if relation.is_value:
        raise SqlError(
            f"{relation.name}: a record that is a value alone has no place for its row's event id: wrap_single_value = "
            "false is of a stream that is read",
            location,
        )


def _stream_of(relation: Relation | None) -> str:
    """Return where a relation's rows are: its stream, or its own name; empty for a query whose rows are shown."""
    return "" if relation is None else relation.stream or f"in-application {relation.name.lower()}"


def _written_by(query: QueryPlan) -> set[str]:
    return {_stream_of(query.target), query.late} - {""}
