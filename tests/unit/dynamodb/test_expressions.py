"""DynamoDB's bound on expressions: 4,096 bytes each, wherever they stand in a request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.services.dynamodb import items
from headrace.services.dynamodb.expressions import plain_assignments, refusal_of
from tests.support.moto_lab import MotoLab

FITS = "é" * 2048


@pytest.fixture(scope="module")
def patched_moto(tmp_path_factory: pytest.TempPathFactory) -> None:
    with MotoLab(tmp_path_factory.mktemp("lab")) as lab:
        lab.client("dynamodb").list_tables()


LONG = FITS + "x"


@pytest.mark.parametrize(
    "request_of",
    [
        lambda text: {"TableName": "t", "FilterExpression": text},
        lambda text: {"RequestItems": {"t": {"Keys": [], "FilterExpression": text}}},
        lambda text: {"TransactItems": [{"Put": {}}, {"Put": {"FilterExpression": text}}]},
    ],
)
def test_an_expression_has_at_most_4_096_bytes(request_of: Any):
    assert refusal_of(request_of(FITS)) is None
    assert refusal_of(request_of(LONG)) == (
        "Invalid FilterExpression: Expression size has exceeded the maximum allowed size;"
        " expression size: 4097"
    )


def test_names_and_values_are_no_expressions():
    assert refusal_of({"ExpressionAttributeValues": {":v": {"S": LONG}}, "TableName": LONG}) is None


@pytest.mark.parametrize(
    "expression", ["(" * 1500 + "n = :v" + ")" * 1500, " AND ".join(["(n = :v)"] * 300) + ")" * 9]
)
def test_an_expression_that_nests_too_deeply_is_refused(lab: MotoLab, expression: str):
    table = lab.client("dynamodb")
    table.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    table.put_item(TableName="t", Item={"k": {"S": "x"}})
    with pytest.raises(ClientError, match="ValidationException"):
        table.scan(
            TableName="t",
            FilterExpression=expression,
            ExpressionAttributeValues={":v": {"N": "1"}},
        )


UPDATES = (
    "SET a = :x",
    "SET a = a + :n, b.c[1] = if_not_exists(#m, :x) REMOVE e, f[0]",
    "SET #m = list_append(:l, #m) ADD g :n DELETE h :s",
    "SET a = :missing",
    "SET a = :x SET b = :x",
    "SET k = :x",
    "SET #m.a = :x, #m = :x",
    "ADD a :x",
)


@pytest.mark.parametrize("expression", UPDATES)
def test_a_tree_is_visited_as_moto_visits_it(lab: MotoLab, expression: str) -> None:
    lab.client("dynamodb").list_tables()
    from moto.dynamodb.models.dynamo_type import DynamoType, Item
    from moto.dynamodb.parsing.ast_nodes import DepthFirstTraverser
    from moto.dynamodb.parsing.expressions import UpdateExpressionParser
    from moto.dynamodb.parsing.validators import UpdateExpressionValidator

    attrs = {"k": {"S": "1"}, "a": {"N": "1"}, "b": {"M": {"c": {"L": [{"S": "0"}, {"S": "1"}]}}}}
    attrs |= {"mm": {"L": [{"S": "y"}]}, "f": {"L": [{"S": "y"}]}, "h": {"SS": ["p", "q"]}}
    values = {":x": {"S": "x"}, ":n": {"N": "2"}, ":l": {"L": [{"S": "z"}]}, ":s": {"SS": ["p"]}}

    def validated() -> Any:
        validator = UpdateExpressionValidator(
            UpdateExpressionParser.make(expression),
            expression_attribute_names={"#m": "mm"},
            expression_attribute_values=values,
            item=cast("Any", Item)(DynamoType({"S": "1"}), None, attrs),
            table=cast(
                "Any", SimpleNamespace(table_key_attrs=["k"], attr=[], attribute_keys=["k"])
            ),
        )
        try:
            return repr(_tree(validator.validate()))
        except Exception as error:  # noqa: BLE001 - both ways must fail alike
            return type(error), str(error)

    traverser: Any = DepthFirstTraverser
    quick = [validated(), validated()]
    visit = traverser.traverse_node_recursively
    traverser.traverse_node_recursively = visit.__wrapped__
    try:
        assert quick == [validated()] * 2
    finally:
        traverser.traverse_node_recursively = visit


NAMES = st.sampled_from(["a", "b", "k", "i", "Name", "#m", "#n", "#k", "#x", "a.b", "a[0]"])
VALUES = st.sampled_from([":x", ":n", ":e", ":missing", "a", ":n + :n"])
ASSIGNMENTS = st.builds("{} = {}".format, NAMES, VALUES)
SETS = st.builds(
    "{} {}{}".format,
    st.sampled_from(["SET", "SET ", "set", "ADD"]),
    st.lists(ASSIGNMENTS, min_size=1, max_size=3).map(", ".join),
    st.sampled_from(["", "", "", " REMOVE a"]),
)


@settings(max_examples=200, deadline=None)
@given(SETS)
@example("SET a = :x, #m = :n")
def test_plain_assignments_do_what_moto_does(patched_moto: None, expression: str) -> None:
    from moto.dynamodb.models.dynamo_type import DynamoType, Item

    names = {"#m": "mm", "#n": "a", "#k": "k"}
    values = {":x": {"S": "x"}, ":n": {"N": "2"}, ":e": {"S": ""}}
    keys: Any = {"table_key_attrs": ["k"], "attribute_keys": ["k", "i"]}
    table = SimpleNamespace(**keys, attr=[{"AttributeName": "i", "AttributeType": "S"}])

    def updated() -> Any:
        attrs = {"k": {"S": "1"}, "a": {"M": {"b": {"S": "y"}}}}
        item = cast("Any", Item)(DynamoType({"S": "1"}), None, attrs)
        try:
            items._run_expression(table, item, expression, names, values)
        except Exception as error:  # noqa: BLE001 - both ways must fail alike
            return type(error), str(error)
        return item.to_json()

    short = updated()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(items, "_plain_values", lambda *_: None)
        assert updated() == short


def test_plain_assignments_are_recognised(patched_moto: None) -> None:
    assert plain_assignments("SET a = :x, #b=:y") == (("a", ":x"), ("#b", ":y"))
    others = ("SET name = :x", "SET a = b", "SET a.b = :x", "SET a = :x REMOVE c", "ADD a :x")
    assert [plain_assignments(other) for other in others] == [None] * 5


@pytest.mark.parametrize("text", ["a = :x AND NOT (b.c[1] <> :y)", "size(a) < :x", "a = ", "?", ""])
def test_a_condition_is_read_as_moto_reads_it(patched_moto: None, text: str) -> None:
    from moto.dynamodb.comparisons import ConditionExpressionParser

    parser: Any = ConditionExpressionParser
    lex = parser._lex_condition_expression

    def parsed() -> Any:
        values = {":x": {"N": "1"}, ":y": {"S": "2"}}
        reader = parser(text, {}, values)
        try:
            return repr(reader.parse()), reader.expr_attr_values_found
        except Exception as error:  # noqa: BLE001 - both ways must fail alike
            return type(error), str(error)

    quick = [parsed(), parsed()]
    parser._lex_condition_expression = lex.__wrapped__
    try:
        assert quick == [parsed()] * 2
    finally:
        parser._lex_condition_expression = lex


def _tree(node: Any) -> Any:
    held = {name: value for name, value in vars(node).items() if name not in ("parent", "children")}
    children = [_tree(c) if hasattr(c, "children") else c for c in node.children or ()]
    shown = {name: getattr(value, "__dict__", value) for name, value in held.items()}
    return type(node).__name__, shown, children
