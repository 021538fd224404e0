"""DynamoDB's PartiQL: the examples of the developer guide, and what others observed on AWS (facts, no text)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

NO_KEY = "Where clause does not contain a mandatory equality on all key attributes"


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with MotoLab(tmp_path_factory.mktemp("partiql") / "moto") as lab:
        dynamodb = lab.client("dynamodb")
        for name, keys in (("flat", ("pk",)), ("tall", ("pk", "sk"))):
            dynamodb.create_table(
                TableName=name,
                KeySchema=[
                    {"AttributeName": key, "KeyType": kind}
                    for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
                ],
                AttributeDefinitions=[
                    {"AttributeName": key, "AttributeType": "S"} for key in (*keys, "kind")
                ],
                BillingMode="PAY_PER_REQUEST",
                GlobalSecondaryIndexes=[
                    {
                        "IndexName": "by-kind",
                        "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ],
            )
        yield dynamodb


def run(dynamodb: Any, statement: str, *parameters: Any, **more: Any) -> list[Any]:
    given = {"Parameters": list(parameters)} if parameters else {}
    return dynamodb.execute_statement(Statement=statement, **given, **more)["Items"]


@pytest.fixture
def rows(dynamodb: Any) -> Iterator[Any]:
    """A partition of five rows, the third of which lacks what the others have."""
    for number in range(1, 6):
        item = {"pk": {"S": "p"}, "sk": {"S": f"s{number}"}, "n": {"N": str(number)}}
        if number != 3:
            item |= {
                "kind": {"S": "ab"[number % 2]},
                "m": {"M": {"l": {"L": [{"S": "x"}, {"N": str(number)}]}}},
            }
        dynamodb.put_item(TableName="tall", Item=item)
    yield dynamodb
    for number in range(1, 6):
        dynamodb.delete_item(TableName="tall", Key={"pk": {"S": "p"}, "sk": {"S": f"s{number}"}})


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("", "12345"),
        ("WHERE pk='p'", "12345"),
        ("where pk = 'p' and sk > 's3'", "45"),
        ("WHERE pk='p' AND sk BETWEEN 's2' AND 's4'", "234"),
        ("WHERE pk='p' AND begins_with(sk, 's2')", "2"),
        ("WHERE pk='p' AND begins_with(\"sk\",'s') AND n>=4", "45"),
        ("WHERE 'p' = pk AND n = 2", "2"),
        ("WHERE pk IN ['p', 'q'] AND n IN (1, 2, 9)", "12"),
        ("WHERE n=1 OR n=5", "15"),
        ("WHERE pk='p' AND (n=1 OR n=5) AND NOT n<>5", "5"),
        ("WHERE pk='p' AND NOT (n<3 OR sk='s5')", "34"),
        ("WHERE kind IS MISSING", "3"),
        ("WHERE kind IS NOT MISSING AND n<3", "12"),
        ("WHERE attribute_not_exists(kind)", "3"),
        ("WHERE attribute_exists(m.l) AND n<=2", "12"),
        ("WHERE contains(kind, 'a')", "24"),
        ("WHERE NOT contains(kind, 'a')", "135"),
        ("WHERE attribute_type(n, 'N') AND n > -1", "12345"),
        ("WHERE m.l[1] = 4", "4"),
        ("WHERE size(sk) = 2 AND n=1", "1"),
        ("WHERE n != 1 AND n NOT IN [2] AND n NOT BETWEEN 4 AND 9", "3"),
        ("WHERE pk='p' ORDER BY sk DESC", "54321"),
        ("WHERE pk='p' AND n>2 ORDER BY sk", "345"),
        ("WHERE kind='it''s'", ""),
    ],
)  # fmt: skip
def test_rows_are_selected(rows: Any, where: str, numbers: str) -> None:
    items = run(rows, f'SELECT * FROM "tall" {where}')
    found = [item["n"]["N"] for item in items]
    assert "".join(found if "ORDER" in where else sorted(found)) == numbers


def test_columns_parameters_and_an_index(rows: Any) -> None:
    assert run(rows, "SELECT n, m.l[0], m.l FROM tall WHERE pk=? AND sk=?", {"S": "p"}, {"S": "s1"}) == [
        {"n": {"N": "1"}, "l": {"L": [{"S": "x"}, {"N": "1"}]}}
    ]  # fmt: skip
    found = run(rows, 'SELECT sk FROM "tall"."by-kind" WHERE kind = ?', {"S": "a"})
    assert sorted(item["sk"]["S"] for item in found) == ["s2", "s4"]
    assert run(rows, "SELECT none FROM tall WHERE pk='p' AND sk='s1'") == [{}]


def test_binary_values_come_as_they_went(dynamodb: Any, item: str) -> None:
    for given in (
        {"B": b"\x00\xff"},
        {"BS": [b"a", b"\xfe"]},
        {"M": {"b": {"L": [{"B": b"\x80"}]}}},
    ):
        run(dynamodb, "UPDATE flat SET bin = ? WHERE pk='i'", given)
        assert run(dynamodb, "SELECT bin FROM flat WHERE pk='i'") == [{"bin": given}]
        assert run(dynamodb, "SELECT bin FROM flat WHERE bin = ?", given) == [{"bin": given}]
        [old] = run(dynamodb, "UPDATE flat SET n = 1 WHERE pk='i' RETURNING ALL OLD *")
        assert old["bin"] == given


def test_a_select_has_pages(rows: Any) -> None:
    statement = "SELECT * FROM tall WHERE pk='p'"
    first = rows.execute_statement(Statement=statement, Limit=2)
    assert [item["n"]["N"] for item in first["Items"]] == ["1", "2"]
    second = rows.execute_statement(Statement=statement, NextToken=first["NextToken"])
    assert [item["n"]["N"] for item in second["Items"]] == ["3", "4", "5"]
    assert "NextToken" not in second
    with pytest.raises(ClientError, match="Given NextToken is invalid"):
        rows.execute_statement(Statement=statement, NextToken="no")


def item_of(dynamodb: Any, pk: str) -> Any:
    return dynamodb.get_item(TableName="flat", Key={"pk": {"S": pk}}).get("Item")


@pytest.fixture
def item(dynamodb: Any) -> Iterator[str]:
    run(
        dynamodb,
        "INSERT INTO flat VALUE {'pk': 'i', 'n': 5, 'name': 'alpha', 'tags': ['a','b','c'], 'set': <<'a','b'>>,"
        " 'map': {'sub': 'old', 'sib': true}, 'nothing': null}",
    )
    yield "i"
    dynamodb.delete_item(TableName="flat", Key={"pk": {"S": "i"}})


def test_an_item_is_inserted_once(dynamodb: Any, item: str) -> None:
    assert item_of(dynamodb, item) == {
        "pk": {"S": "i"}, "n": {"N": "5"}, "name": {"S": "alpha"},
        "tags": {"L": [{"S": "a"}, {"S": "b"}, {"S": "c"}]}, "set": {"SS": ["a", "b"]},
        "map": {"M": {"sub": {"S": "old"}, "sib": {"BOOL": True}}}, "nothing": {"NULL": True},
    }  # fmt: skip
    with pytest.raises(ClientError, match="Duplicate primary key exists in table") as refusal:
        run(dynamodb, "INSERT INTO flat VALUE {'pk':?,'n':?}", {"S": "i"}, {"N": "1"})
    assert refusal.value.response["Error"]["Code"] == "DuplicateItemException"
    assert item_of(dynamodb, item)["n"] == {"N": "5"}


@pytest.mark.parametrize(
    ("change", "attribute", "value"),
    [
        ("SET n=9", "n", {"N": "9"}),
        ("SET n = n + 2", "n", {"N": "7"}),
        ("SET n=n-2", "n", {"N": "3"}),
        ("SET a=1 SET n=2", "n", {"N": "2"}),
        ("SET a=1, n=2 REMOVE name", "name", None),
        ("REMOVE map.sub", "map", {"M": {"sib": {"BOOL": True}}}),
        ("SET map.sub = 'new'", "map", {"M": {"sub": {"S": "new"}, "sib": {"BOOL": True}}}),
        ("SET tags[0] = 'x'", "tags", {"L": [{"S": "x"}, {"S": "b"}, {"S": "c"}]}),
        ("SET tags = list_append(tags, ['d'])", "tags", {"L": [{"S": "a"}, {"S": "b"}, {"S": "c"}, {"S": "d"}]}),
        ("SET \"set\" = set_add(\"set\", <<'c'>>)", "set", {"SS": ["a", "b", "c"]}),
        ("SET \"set\" = set_delete(\"set\", <<'a'>>)", "set", {"SS": ["b"]}),
        ("SET name = nothing", "name", {"NULL": True}),
    ],
)  # fmt: skip
def test_an_item_is_updated(
    dynamodb: Any, item: str, change: str, attribute: str, value: Any
) -> None:
    run(dynamodb, f'UPDATE "flat" {change} WHERE pk=?', {"S": item})
    shown = item_of(dynamodb, item).get(attribute)
    if shown and "SS" in shown:
        shown["SS"].sort()
    assert shown == value


@pytest.mark.parametrize(
    ("statement", "returned"),
    [
        ("UPDATE flat SET n=6 WHERE pk='i' RETURNING MODIFIED OLD *", [{"n": {"N": "5"}}]),
        ("UPDATE flat SET n=6 WHERE pk='i' RETURNING MODIFIED NEW *", [{"n": {"N": "6"}}]),
        ("UPDATE flat SET added='x' WHERE pk='i' RETURNING MODIFIED OLD *", []),
        ("UPDATE flat REMOVE n WHERE pk='i' RETURNING MODIFIED NEW *", []),
        ("UPDATE flat SET map.sub='new' WHERE pk='i' RETURNING MODIFIED NEW *",
         [{"map": {"M": {"sub": {"S": "new"}}}}]),
        ("UPDATE flat SET n=6 WHERE pk='i'", []),
        ("DELETE FROM flat WHERE pk='none' RETURNING ALL OLD *", []),
        ("DELETE FROM flat WHERE pk='none' AND n=1", []),
    ],
)  # fmt: skip
def test_what_a_write_returns(dynamodb: Any, item: str, statement: str, returned: Any) -> None:
    assert run(dynamodb, statement) == returned


def test_a_whole_item_is_returned(dynamodb: Any, item: str) -> None:
    [old] = run(dynamodb, "UPDATE flat SET n=6 WHERE pk='i' AND name='alpha' RETURNING ALL OLD *")
    [new] = run(dynamodb, "DELETE FROM flat WHERE pk='i' AND n=6 RETURNING ALL OLD *")
    assert (old["n"], new) == ({"N": "5"}, {**old, "n": {"N": "6"}})
    assert item_of(dynamodb, item) is None


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE flat SET n=6 WHERE pk='i' AND name='beta'", "ConditionalCheckFailedException"),
        ("UPDATE flat SET n=6 WHERE pk='none'", "ConditionalCheckFailedException"),
        ("DELETE FROM flat WHERE pk='i' AND NOT begins_with(name,'al')", "ConditionalCheckFailedException"),
        ("DELETE FROM flat WHERE name='alpha'", NO_KEY),
        ("UPDATE tall SET n=1 WHERE pk='p'", NO_KEY),
        ("UPDATE flat SET n=1", NO_KEY),
        ("DELETE FROM flat WHERE pk='i' RETURNING MODIFIED OLD *",
         r"Invalid returning clause: RETURNING MODIFIED OLD \*. Only RETURNING ALL OLD \* is allowed in DELETE stat"),
        ("UPDATE flat SET newlist[0]='x' WHERE pk='i'", "The document path provided in the update"),
        ("SELECT * FROM none", "ResourceNotFoundException"),
        ("SELECT * FROM flat.none", "The table does not have the specified index: none"),
        ("SLECT * FROM flat", "Statement wasn't well formed, can't be processed: Expected data manipulation"),
        ("SELECT * FROM flat WHERE", "Statement wasn't well formed"),
        ("SELECT * FROM flat WHERE pk='i' x", "Statement wasn't well formed"),
        ("SELECT * FROM flat WHERE pk = 'open", "Statement wasn't well formed"),
        ("SELECT * FROM flat; DELETE FROM flat WHERE pk='i'", "Statement wasn't well formed"),
        ("SELECT \"a from tall\" FROM flat", "Statement wasn't well formed"),
        ("SELECT * FROM flat WHERE " + "(" * 200 + "pk='i'" + ")" * 200, "Statement wasn't well formed"),
        ("SELECT * FROM flat WHERE a = " + "[" * 200 + "]" * 200, "Statement wasn't well formed"),
        ("SELECT * FROM flat WHERE pk = ?", "Number of parameters in request and statement don't match"),
        ("SELECT * FROM flat ORDER BY pk", "Must have at least one non-optional hash key condition"),
        ("SELECT * FROM flat WHERE attribute_exists('n')", "Operator or function requires a document path"),
        ("EXISTS(SELECT * FROM flat WHERE pk='i')", "EXISTS can only be used in ExecuteTransaction"),
        ("INSERT INTO flat VALUE 'a'", "Statement wasn't well formed"),
        ("INSERT INTO flat VALUE {'n': 1}", "ValidationException"),
    ],
)  # fmt: skip
def test_what_aws_refuses_is_refused(dynamodb: Any, item: str, statement: str, code: str) -> None:
    with pytest.raises(ClientError, match=code):
        run(dynamodb, statement)
    assert item_of(dynamodb, item)["n"] == {"N": "5"}


def test_a_batch_answers_each_statement(dynamodb: Any, item: str) -> None:
    reads = [
        "SELECT n FROM flat WHERE pk='i'",
        "SELECT * FROM flat WHERE n=5",
        "SELECT * FROM none WHERE pk='i'",
        "SLECT",
    ]
    writes = [
        "INSERT INTO flat VALUE {'pk':'i'}",
        "UPDATE flat SET n=6 WHERE pk='i' RETURNING MODIFIED NEW *",
        "DELETE FROM flat WHERE pk='i' RETURNING MODIFIED NEW *",
    ]
    responses = [*run_batch(dynamodb, *reads), *run_batch(dynamodb, *writes)]
    items = [one.get("Item") for one in responses]
    assert items == [{"n": {"N": "5"}}, None, None, None, None, {"n": {"N": "6"}}, None]
    assert [one.get("Error", {}).get("Code") for one in responses] == [
        None, "ValidationError", "ResourceNotFound", "ValidationError", "DuplicateItem", None, "ValidationError",
    ]  # fmt: skip
    assert responses[0]["TableName"] == "flat"


def test_a_batch_reads_or_writes(dynamodb: Any, item: str) -> None:
    with pytest.raises(ClientError, match="Batches cannot have both reads and writes"):
        run_batch(dynamodb, "DELETE FROM flat WHERE pk='i'", "SELECT n FROM flat WHERE pk='i'")
    assert item_of(dynamodb, "i") is not None


def run_batch(dynamodb: Any, *statements: str) -> Any:
    named = [{"Statement": one} for one in statements]
    return dynamodb.batch_execute_statement(Statements=named)["Responses"]


def transact(dynamodb: Any, *statements: str) -> Any:
    given = [{"Statement": one} for one in statements]
    return dynamodb.execute_transaction(TransactStatements=given)["Responses"]


def test_a_transaction_happens_whole_or_not_at_all(dynamodb: Any, item: str) -> None:
    check = "EXISTS(SELECT * FROM flat WHERE pk='i' AND n={})"
    writes = ("UPDATE flat SET n=7 WHERE pk='i2'", "INSERT INTO flat VALUE {'pk':'i3'}")
    run(dynamodb, "INSERT INTO flat VALUE {'pk':'i2','n':1}")
    with pytest.raises(ClientError, match="TransactionCanceledException"):
        transact(dynamodb, check.format(6), *writes)
    assert item_of(dynamodb, "i3") is None
    transact(dynamodb, check.format(5), *writes)
    assert transact(
        dynamodb, "SELECT n FROM flat WHERE pk='i2'", "SELECT * FROM flat WHERE pk='none'"
    ) == [{"Item": {"n": {"N": "7"}}}, {}]
    with pytest.raises(ClientError, match="both reads and writes"):
        transact(dynamodb, "SELECT n FROM flat WHERE pk='i2'", writes[0])
    transact(dynamodb, "DELETE FROM flat WHERE pk='i2'", "DELETE FROM flat WHERE pk='i3'")
    assert item_of(dynamodb, "i2") is None


def test_a_transaction_with_a_token_happens_once(dynamodb: Any, item: str) -> None:
    add = {"Statement": "UPDATE flat SET n = n + 1 WHERE pk='i'"}
    update = {
        "TableName": "flat", "Key": {"pk": {"S": "i"}}, "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }  # fmt: skip
    for _ in range(2):
        dynamodb.execute_transaction(TransactStatements=[add], ClientRequestToken="a")
        dynamodb.transact_write_items(TransactItems=[{"Update": update}], ClientRequestToken="b")
    assert item_of(dynamodb, item)["n"] == {"N": "7"}
    with pytest.raises(ClientError, match="IdempotentParameterMismatchException"):
        dynamodb.transact_write_items(
            TransactItems=[{"Update": update}, {"Delete": {"TableName": "flat", "Key": {"pk": {"S": "z"}}}}],
            ClientRequestToken="b",
        )  # fmt: skip
    fails = [{"Statement": "UPDATE flat SET n = 1 WHERE pk='i' AND n = 99"}]
    for _ in range(2):
        with pytest.raises(ClientError, match="TransactionCanceledException"):
            dynamodb.execute_transaction(TransactStatements=fails, ClientRequestToken="c")


def test_a_token_is_forgotten_after_ten_minutes(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        dynamodb = lab.client("dynamodb")
        dynamodb.create_table(
            TableName="flat",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        run(dynamodb, "INSERT INTO flat VALUE {'pk':'i','n':0}")
        add = [{"Statement": "UPDATE flat SET n = n + 1 WHERE pk='i'"}]
        for wait_s in (0, 599, 2):
            lab.clock.advance(wait_s)
            dynamodb.execute_transaction(TransactStatements=add, ClientRequestToken="a")
        lab.restart()
        assert item_of(dynamodb, "i")["n"] == {"N": "2"}
