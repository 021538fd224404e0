"""Java's regular expressions on other engines.

The table was observed with Java 17 (`Pattern.compile(pattern).matcher(text).matches()`), 2026-10.
"""

from __future__ import annotations

import base64
import random
import subprocess
from pathlib import Path

import pytest

from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern

# (pattern, texts that match, texts that do not)
OBSERVED: list[tuple[str, list[str], list[str]]] = [
    ("[a-z][a-z0-9-]{2,62}", ["abc", "a-b-c"], ["ab", "Abc", "a\nb"]),
    ("(a+)+$", ["aaa"], ["aab"]),
    (r"^\d{3}-\d{4}$", ["555-1234"], ["555-12345", "\u0663\u0663\u0663-\u0661\u0662\u0663\u0664"]),
    (".+", ["abc"], ["a\nb", "a\u2028b", ""]),
    ("(?s).+", ["a\nb"], []),
    (r"\w+", ["abc_1"], ["\xe9"]),
    (r"\s+", [" \t\n\x0b\x0c\r"], ["\xa0"]),
    (r"\h+", ["\xa0 \t"], ["\n"]),
    (r"\v+", ["\n\x0b\r\u2028"], [" "]),
    (r"\R", ["\r\n", "\n", "\x85"], ["ab"]),
    ("[a-z&&[^aeiou]]+", ["xyz"], ["abc"]),
    ("[a-d[m-p]]+", ["adm"], ["x"]),
    ("[a-z&&[def]&&[e-z]]", ["e"], ["d"]),
    (r"[^a-c\d]+", ["xyz"], ["a", "1"]),
    ("[]a]+", ["]a"], ["b"]),
    (r"[a\-z]+", ["a-z"], ["b"]),
    ("[a-]+", ["a-"], ["b"]),
    (r"[\[\]]+", ["[]"], ["a"]),
    ("[a-zA-Z0-9-_]+", ["a-_Z9"], ["a b"]),
    (r"\Qa.b*\E+", ["a.b***"], ["axb"]),
    (r"\u0041\x42\x{43}\0104", ["ABCD"], ["abcd"]),
    (r"\uD83D\uDE00", ["\U0001f600"], ["x"]),
    (r"[\uD800\uDC00-\uDBFF\uDFFF]", ["\U0001f600"], ["x"]),
    (r"\t\n\r\f\a\e", ["\t\n\r\x0c\x07\x1b"], ["t"]),
    (r"\cA", ["\x01"], ["A"]),
    (r"\p{Lower}\p{Upper}\p{Alpha}\p{Digit}\p{Alnum}", ["aAa1a"], ["\xe9\xc0a1a"]),
    (r"\p{Punct}+", ["!$%+<"], ["a"]),
    (r"\p{ASCII}*", ["abc"], ["\xe9"]),
    (r"\p{L}+", ["\xe9a"], ["1"]),
    (r"\pL\pN", ["a1"], ["1a"]),
    (r"\p{Lu}\p{IsLu}\p{gc=Lu}", ["AB\xc9"], ["abc"]),
    (r"\p{IsLatin}+\p{IsGreek}+", ["a\u03b1"], ["\u03b1a"]),
    (r"\p{IsAlphabetic}+", ["a\xe9"], ["1"]),
    (r"\P{L}+", ["123"], ["a1"]),
    (r"[\p{L}\p{N}_.:/=+\-@]*", ["a\xe91_./"], ["a b"]),
    ("(?i)abc", ["ABC", "aBc"], ["abd"]),
    ("(?i)[^a]", ["b"], ["A"]),
    ("a(?i)b|c", ["aB", "C"], ["AB"]),
    ("a(?i:b)c", ["aBc"], ["aBC"]),
    ("(?x) a b # comment", ["ab"], ["a b"]),
    (r"(?m)^a$\n^b$", ["a\nb"], []),
    ("(?!aws:)[a-z:]+", ["abc"], ["aws:x"]),
    (r"(?=.*\d)(?=.*[a-z]).{4,8}", ["abc1"], ["abcd", "a1"]),
    ("(?<!-)a|b(?<=b)", ["a", "b"], []),
    (r"(a|b)\1", ["aa"], ["ab"]),
    (r"(?<x>[ab])\k<x>", ["bb"], ["ba"]),
    (r"(?i)(a)\1", ["aA"], ["ab"]),
    ("a++a", [], ["aa"]),
    ("(?>a+)b", ["aab"], ["b"]),
    ("a*?b", ["aab"], ["a"]),
    (r"([a-z]{1,63}\.){1,20}com", ["a.b.com"], ["a..com"]),
    ("x{0,4000}y", ["xy"], []),
    (r"\bfoo\b", ["foo"], ["food"]),
    (r"\Aab\z", ["ab"], ["ab\n"]),
    ("a|", ["a", ""], ["b"]),
    ("()", [""], ["a"]),
]
REFUSED = [
    "a{",
    "[a",
    "(a",
    "a)",
    "*a",
    r"\k<nope",
    r"\y",
    "a{2,1}",
    r"\p{Nonsense}",
    "[z-a]",
    "a**",
    "(?z)a",
    "(?<1>a)",
]


@pytest.mark.parametrize(("pattern", "yes", "no"), OBSERVED)
def test_a_pattern_matches_what_java_matches(pattern: str, yes: list[str], no: list[str]):
    compiled = java_pattern(pattern)
    assert [text for text in yes if not compiled.matches(text)] == []
    assert [text for text in no if compiled.matches(text)] == []


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_java_refuses_is_refused_with_a_reason(pattern: str):
    with pytest.raises(PatternRefused, match=r".+"):
        java_pattern(pattern)


# --- against Java itself ----------------------------------------------------------------------

_PROGRAM = """
import java.util.Base64; import java.util.Scanner; import java.util.regex.*;
public class Oracle { public static void main(String[] a) throws Exception {
  Scanner in = new Scanner(System.in, "UTF-8");
  while (in.hasNextLine()) { String[] p = in.nextLine().split(" ", -1); StringBuilder o = new StringBuilder();
    try { Pattern q = Pattern.compile(text(p[0]));
      for (int i = 1; i < p.length; i++) o.append(q.matcher(text(p[i])).matches() ? '1' : '0');
    } catch (PatternSyntaxException e) { o.append("refused"); }
    System.out.println(o); } }
  static String text(String s) throws Exception { return new String(Base64.getDecoder().decode(s), "UTF-8"); } }
"""
_ATOMS = ["a", "b", "A", "1", "_", "-", "é", ".", r"\d", r"\w", r"\s", r"\S", r"\D", r"\W", r"\.", r"\R", r"\h",
          r"\p{L}", r"\pL", r"\p{Space}", r"\p{IsAlphabetic}", r"\x61", r"\u00e9", r"\Qa.\E", r"\061", "^",
          "[a-c]", "[^a-c]", r"[\d_]", r"[^\W1]", "[a-z&&[^b]]", "[ab[1-3]]", r"[\p{Alpha}-]",
          r"[^\p{Punct}a]"]  # fmt: skip
_REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{1,}", "*?", "+?", "*+", "++"]
_OPENINGS = ["(", "(?:", "(?i:", "(?s:", "(?=", "(?!", "(?>"]


def _random_pattern(chance: random.Random, depth: int = 0) -> str:
    pieces: list[str] = []
    for _ in range(chance.randint(1, 3)):
        if depth < 3 and chance.random() < 0.3:
            piece = f"{chance.choice(_OPENINGS)}{_random_pattern(chance, depth + 1)})"
        else:
            piece = chance.choice(_ATOMS)
        pieces.append(piece + (chance.choice(_REPEATS) if chance.random() < 0.3 else ""))
    return "".join(pieces) + ("|" + chance.choice(_ATOMS) if chance.random() < 0.2 else "")


@pytest.mark.slow
def test_ten_thousand_random_patterns_match_as_in_java(tmp_path: Path):
    chance = random.Random(7)
    texts = ["", "a", "aa", "ab", "abc"]
    cases = [
        (
            _random_pattern(chance),
            texts + ["".join(chance.choices("abA1_- .\n\ré", k=4)) for _ in range(8)],
        )
        for _ in range(10_000)
    ]
    source = tmp_path / "Oracle.java"
    source.write_text(_PROGRAM)
    packed = "\n".join(
        " ".join(base64.b64encode(text.encode()).decode() for text in (pattern, *given))
        for pattern, given in cases
    )
    told = subprocess.run(
        ["java", str(source)], input=packed, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(told) == len(cases)
    wrong: list[tuple[str, str, str]] = []
    for (pattern, given), expected in zip(cases, told, strict=True):
        try:
            compiled = java_pattern(pattern)
            found = "".join("1" if compiled.matches(text) else "0" for text in given)
        except PatternRefused:
            found = "refused"
        except MatchTooLong:
            continue  # neither yes nor no
        if found != expected:
            wrong.append((pattern, found, expected))
    assert wrong == []
