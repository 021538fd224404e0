"""Velocity templates: the language as its reference documents it, and that no template gets further or runs for ever.

Reference: https://velocity.apache.org/engine/1.7/vtl-reference.html (documented).
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.core.evaluation import Budget
from headrace.core.evaluation.budget import MOST_STEPS
from headrace.services.apigateway.velocity.velocity import Members, TemplateError, render

GIVEN: dict[str, Any] = {
    "input": Members({"body": "b"}, {"path": lambda path: {"a": [{"x": 1}, {"x": 2}]}}),
    "context": {"id": "7", "n": 3, "no": None, "list": [1, 2]},
}


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ("$input.body ${context.id}x $!context.none|$context.none", "b 7x |$context.none"),
        ("$5 is # no $reference, a\\$b", "$5 is # no $reference, a$b"),
        ("a## to the end\nb#* and this *#c", "abc"),
        ("#set($x = 1 + 2 * 3)$x #set($y = (1 + 2) * 3)$y", "7 9"),
        ("#set($x = -7 / 2)$x #set($y = 7 % 4)$y", "-3 3"),
        ("#set($x = \"v$context.id\")$x #set($y = '$x')$y", "v7 $x"),
        ("#if($context.id == '7' && !$context.no)yes#{else}no#end", "yes"),
        ("#if($context.n < 3)a#elseif($context.n == 3)b#{else}c#end", "b"),
        ("#foreach($e in $input.path('$').a)$e.x#if($foreach.hasNext),#end#end", "1,2"),
        (
            (
                "#foreach($k in $context.keySet())#if($foreach.isFirst())$foreach.getIndex()"
                "#elseif($foreach.hasNext()),#else!#end#end"
            ),
            "0,,!",
        ),
        (
            (
                "#foreach($i in [1..2])#foreach($j in [1])$foreach.parent.count$foreach.getParent().last"
                "#end#end $foreach.count"
            ),
            "1false2true $foreach.count",
        ),
        ("#foreach($i in [1..3])$i#if($i == 2)#break#end#end!", "12!"),
        (
            '#set($m = {"a": 1})#set($m.b = [1, "z"])$m $m.keySet() $m["a"]',
            "{a=1, b=[1, z]} [a, b] 1",
        ),
        ("$context.list.size() $context.list[1] $context.get('id')", "2 2 7"),
        ("$context.id.matches('[0-9]') $context.id.matches('.*x')", "true false"),
        ("$context.id.replaceAll('7', '@@').replaceAll('@', 'a')", "aa"),
        ("$context.id.replaceAll('\\.', 'x')", "7"),
        ("a#stop b", "a"),
        ("line\n#set($x = 1)\nnext", "line\nnext"),
    ],
)
def test_a_template_is_filled(template: str, made: str):
    assert render(template, GIVEN) == made


@pytest.mark.parametrize(
    "template",
    [
        "#if(true)",
        "#end",
        "#set($x = )",
        "#set($x = 'a)",
        "$context.id.getClass()",
        "$context.id.replaceAll('.*', 'x')",
        "$context.id.matches('(')",
        "#foreach($i of [1])#end",
        "#if(" + "(" * 500 + "1" + ")" * 500 + ")#end",
    ],
)
def test_what_cannot_be_filled_is_refused(template: str):
    with pytest.raises(TemplateError):
        render(template, GIVEN)


def test_no_attribute_of_python_is_reached():
    template = "$!input.properties$!context.__class__$!context.items$!input.body.__class__.mro()"
    assert render(template, GIVEN) == ""


@pytest.mark.parametrize(
    "template",
    [
        "#foreach($i in [1..100000])#foreach($j in [1..100000])x#end#end",
        "#set($s = 'xxxxxxxx')#foreach($i in [1..60])#set($s = $s + $s)#end",
        "#set($l = [1])#foreach($i in [1..60])#set($l = [$l, $l])#end$l",
        "#set($l = [1])#set($n = $l.add($l))$l",
        "#set($s = 'aaaaaaaa')#foreach($i in [1..60])#set($s = $s.replace('a', $s))#end",
        "#set($n = 9)#foreach($i in [1..99])#set($n = $n * $n)#end",
    ],
    ids=["loops", "text", "lists", "a list in itself", "replacement", "numbers"],
)
def test_no_template_runs_for_ever_or_takes_all_memory(template: str):
    begun = time.process_time()
    with pytest.raises(TemplateError):
        render(template, {})
    assert time.process_time() - begun < 5


LOOP = "#foreach($i in [1..1000])"


@pytest.mark.parametrize(
    "template",
    [
        f"#set($a=[1]){LOOP}{LOOP}#set($x=$a.add($a))#end#end",
        f"#set($k=[]){LOOP}#set($x=$k.add($text.split('a')))#end",
        f"#set($k=[]){LOOP}#set($x=$k.add($text.replace('a','ab')))#end",
        f"#set($k=[]){LOOP}#set($x=$k.add($text.toUpperCase()))#end",
        f'#set($m={{}}){LOOP}$m.put("k$i",$m.entrySet())#end',
        f"#set($s='aaaaaaaa'){LOOP}#set($s=$s+$s)#end",
        f"{LOOP}{LOOP}#if($text.contains('zz'))x#end#end#end",
        '#set($x="' + "$a[" * 50 + '")$x',
    ],
)
def test_a_template_that_swells_is_refused_before_it_has(template: str):
    variables = {"text": "a" * 1_000_000}
    with Budget("a") as budget:
        if "$a[" in template:
            assert render(template, variables, budget) == "$a[" * 50
        else:
            with pytest.raises(TemplateError, match=r"too much|more than"):
                render(template, variables, budget)
        # What is refused was counted, not made.
        assert budget.steps < 2 * MOST_STEPS


def test_a_loop_ends_after_a_thousand_iterations_as_in_api_gateway():
    assert render(f"{LOOP}x#end", {}) == "x" * 1000
    assert render("#foreach($i in [1..5000])x#end", {}) == "x" * 1000


def test_a_template_has_at_most_300_kb():
    with pytest.raises(TemplateError, match="307200 bytes"):
        render("x" * 307_201, {})
