"""Expressions of every engine that are drawn at random."""

from __future__ import annotations

import random

from tests.security.expression_bombs import (
    LOOP,
    TEXT,
    Bomb,
    of_parameters,
    of_template,
)

# --- random ones ----------------------------------------------------------------------------------------


def random_bombs(seed: int, count: int) -> list[Bomb]:
    """Return bombs that are put together at random: mapping templates, intrinsic functions and JSONata."""
    chance = random.Random(seed)

    def statement(depth: int) -> str:
        kinds = [
            "#set($s=$s+$s)", '#set($s="$s$s")', "#set($s=$s.replace('a','aaaa'))", "#set($x=$k.add($s))",
            "#set($x=$k.add($k))", "#set($x=$k.addAll($k))", "#set($s=$util.base64Encode($s))", "$k", "$s",
            "#set($x=$k.add($s.split('a')))", "#set($m.a=$m)", '#set($x=$m.put("$s",$k))', "$m.entrySet()",
            "#set($s=$util.urlEncode($m))", "#set($s=$input.json('$'))", "#if($k==$m)x#end", "$k.contains($s)",
            "#set($s=$util.escapeJavaScript($s))", "#set($k=$util.parseJson(\"[$s]\"))",
        ]  # fmt: skip
        if depth and chance.random() < 0.5:
            return LOOP + statement(depth - 1) + statement(depth - 1) + "#end"
        return chance.choice(kinds)

    def of_velocity() -> Bomb:
        body = "".join(statement(3) for _ in range(6))
        return of_template(f"#set($s='aaaaaaaa')#set($k=[1])#set($m={{}}){LOOP}{body}#end")

    def intrinsic(depth: int) -> str:
        if not depth:
            return chance.choice(["$.x", "$.l", "5", "'aaaa'", "$.l[*]", "$..*"])
        inner = [intrinsic(depth - 1) for _ in range(3)]
        return chance.choice(
            [
                f"States.Array({inner[0]}, {inner[1]}, {inner[2]})",
                f"States.Format('{{}}{{}}', {inner[0]}, {inner[1]})",
                f"States.JsonToString({inner[0]})",
                f"States.ArrayRange(1, {chance.choice(['1000', '999999999'])}, {chance.choice('129')})",
                f"States.ArrayPartition({inner[0]}, 1)",
                f"States.StringSplit({inner[0]}, 'a')",
                f"States.ArrayUnique({inner[0]})",
            ]
        )

    def of_intrinsics() -> Bomb:
        value = intrinsic(4)
        return lambda lab: lab.state(of_parameters(value), {"x": TEXT, "l": list(range(1000))})

    def of_jsonata() -> Bomb:
        pieces = [
            "$x := $x & $x;", "$l := [$l, $l];", "$l := $map($l, function($v){ [$v, $l] });",
            "$x := $join($l ~> $map($string), $x);",
            "$l := [1..300000];", "$x := $pad($x, 9999999);", "$l := $append($l, $l);", "$x := $string($l);",
            "$x := $replace($x, 'a', $x);", "$l := $split($x, '');", "$l := $sort($l);", "$x := $base64encode($x);",
        ]  # fmt: skip
        body = " ".join(chance.choice(pieces) for _ in range(25))
        text = "{% ($x := 'aaaaaaaa'; $l := [1, 2, 3]; " + body + " $x) %}"
        return lambda lab: lab.state({"Output": text}, None, "JSONata")

    makers = (of_velocity, of_intrinsics, of_jsonata)
    return [makers[number % 3]() for number in range(count)]
