"""The argv matcher: parsing rules, facets, and agreement with the recorded vectors."""

from __future__ import annotations

import collections
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.recorder.argv import (
    ArgvPattern,
    FlagTest,
    compare,
    flag_test,
    is_number,
    matches,
    pattern_of,
    split_argv,
)
from pytest_codereval.recorder.options import Option, OptionTable
from pytest_codereval.task.cli_models import CliMatch

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors"

words = st.text(alphabet="-=ab1.oé ", max_size=6)
names = st.sets(st.sampled_from(["a", "b", "o", "ab", "output", "1"]), max_size=3)


def rows(name: str) -> list[Any]:
    file = VECTORS / f"{name}.jsonl"
    if not file.exists():
        pytest.skip("the recorded vectors are not here")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def split(
    *argv: str, value_flags: tuple[str, ...] = (), ignore: tuple[str, ...] = (), known: tuple[str, ...] = ()
) -> Any:
    return split_argv(argv, value_flags, ignore, known)


@pytest.mark.parametrize(
    ("argv", "positional", "flags"),
    [
        (["-xo", "FILE"], ["FILE"], {"x": [""], "o": [""]}),
        (["-oFILE"], [], {"o": ["FILE"]}),
        (["-o", "FILE"], [], {"o": ["FILE"]}),
        (["--1"], ["--1"], {}),
        (["-inf", "-nan", "-1_0", "-1e3", "-0.5"], ["-inf", "-nan", "-1_0", "-1e3", "-0.5"], {}),
        (["--output", "--yes", "p"], ["p"], {"output": ["--yes"]}),
        (["p", "--output"], ["p"], {"output": [""]}),
        (["-abc=1"], [], {"abc": ["1"]}),
        (["---x"], [], {"x": [""]}),
        (["-v", "--v"], [], {"v": ["", ""]}),
        (["--output=a", "-output", "b"], [], {"output": ["a", "b"]}),
        (["run", "--", "-x", "--", "-1"], ["run", "-x", "--", "-1"], {}),
        (["import", "-"], ["import", "-"], {}),
        (["--x=-1=2"], [], {"x": ["-1=2"]}),
        ([""], [""], {}),
        (["---"], [], {"": [""]}),
    ],
)
def test_split_with_value_flags_o_and_output(
    argv: list[str], positional: list[str], flags: dict[str, list[str]]
) -> None:
    assert split(*argv, value_flags=("o", "output")) == (positional, flags)


def test_a_declared_name_is_taken_whole_and_beats_a_number() -> None:
    assert split("-rf", known=("f",)) == ([], {"r": [""], "f": [""]})
    assert split("-rf", known=("rf",)) == ([], {"rf": [""]})
    assert split("head", "-1", "f", known=("1",)) == (["head", "f"], {"1": [""]})


def test_an_ignored_flag_goes_with_its_value_only_when_it_takes_one() -> None:
    assert split("--output", "json", "p", ignore=("output",)) == (["json", "p"], {})
    assert split("--output", "json", "p", ignore=("output",), value_flags=("output",)) == (["p"], {})
    assert split("-yq", ignore=("q",)) == ([], {"y": [""]})


@given(st.lists(words, max_size=8), names, names, names)
def test_split_loses_no_word(argv: list[str], value_flags: set[str], ignore: set[str], known: set[str]) -> None:
    positional, flags = split_argv(argv, value_flags, ignore, known)
    assert not set(flags) & ignore
    assert all(word in argv for word in positional)
    for values in flags.values():
        assert values
        for value in values:
            assert value == "" or value in argv or any(word.endswith(value) and word.startswith("-") for word in argv)
    again = split_argv(argv, value_flags, ignore, known)
    assert again == (positional, flags)


@given(st.lists(words, max_size=6))
def test_everything_after_a_double_dash_is_positional(argv: list[str]) -> None:
    assert split_argv(["--", *argv], ["a"], ["b"], ["ab"]) == (argv, {})


@given(st.lists(st.text(min_size=1, max_size=8).filter(lambda word: not word.startswith("-")), max_size=6))
def test_plain_words_stay_in_order(argv: list[str]) -> None:
    assert split_argv(argv, ["o"], [], []) == (argv, {})


@given(st.text(max_size=12))
def test_is_number_is_what_float_reads(text: str) -> None:
    assert is_number(text) == bool(_float(text))


def _float(text: str) -> list[float]:
    try:
        return [float(text)]
    except ValueError:
        return []


KINDS = {"positional": tuple, "value_flags": frozenset, "ignore_flags": frozenset}


def pattern(**facets: Any) -> ArgvPattern:
    flags = tuple(flag_test(name, predicate) for name, predicate in facets.pop("flags", {}).items())
    verbs = tuple(tuple(verb.split()) for verb in facets.pop("verbs", ()))
    return ArgvPattern(verbs=verbs, flags=flags, **{key: KINDS[key](value) for key, value in facets.items()})


def test_the_verb_is_a_prefix_of_the_words_and_positional_follows_it() -> None:
    wanted = pattern(verbs=["ixp projects get", "ixp get"], positional=["proj-1"])
    assert matches(wanted, ["ixp", "--verbose", "projects", "get", "proj-1", "more"])
    assert matches(wanted, ["ixp", "get", "proj-1"])
    assert not matches(wanted, ["ixp", "get", "x", "proj-1"])
    assert not matches(wanted, ["say", "ixp", "get", "proj-1"])
    assert not matches(wanted, ["ixp", "gets", "proj-1"])


@pytest.mark.parametrize(
    ("predicate", "yes", "no"),
    [
        ({"equals": "pro"}, [["--m", "pro"], ["--m=lite", "--m=pro"]], [["--m"], [], ["--m=prod"]]),
        ({"contains": "ro"}, [["--m=pro"]], [["--m=x"], []]),
        ({"matches_regex": "^P", "flags": re.IGNORECASE}, [["--m", "pro"]], [["--m", "x"], []]),
        ({"any_of": ["a", "b"]}, [["--m=b"]], [["--m=c"], []]),
        ({"present": True, "aliases": ["y"]}, [["-y"], ["--m"], ["-xy"], ["--m=1"]], [[], ["--yes"]]),
        ({"absent": True, "aliases": ["y"]}, [[], ["-x"]], [["-y"], ["--m"], ["-xy"]]),
        ({"equals": "v", "aliases": ["n"]}, [["-nv"], ["-n", "v"], ["--m=w", "-n=v"]], [["-n", "w"]]),
    ],
)
def test_flag_predicates(predicate: dict[str, Any], yes: list[list[str]], no: list[list[str]]) -> None:
    wanted = pattern(flags={"m": predicate})
    assert [argv for argv in yes if not matches(wanted, argv)] == []
    assert [argv for argv in no if matches(wanted, argv)] == []


def test_a_switch_that_is_asked_for_does_not_eat_the_next_word() -> None:
    wanted = pattern(verbs=["delete"], positional=["proj-1"], flags={"yes": {"present": True}})
    assert matches(wanted, ["delete", "--yes", "proj-1"])


@pytest.mark.parametrize(
    ("argv", "difference"),
    [
        (["ixp", "list"], "verb: expected 'ixp get', got 'ixp list'"),
        ([], "verb: expected 'ixp get', got no argument but flags"),
        (["ixp", "get"], "positional 1: expected 'p', got nothing"),
        (["ixp", "get", "q"], "positional 1: expected 'p', got 'q'"),
        (["ixp", "get", "p"], "flag --model equals 'pro': it was not passed"),
        (["ixp", "get", "p", "--model=x"], "flag --model equals 'pro': got 'x'"),
        (["ixp", "get", "p", "--model=pro", "-y"], "flag --yes or -y absent: it was passed"),
    ],
)
def test_the_first_facet_that_differs_is_told(argv: list[str], difference: str) -> None:
    flags = {"model": {"equals": "pro"}, "yes": {"absent": True, "aliases": ["y"]}}
    wanted = pattern(verbs=["ixp get"], positional=["p"], flags=flags)
    assert compare(wanted, argv).difference == difference
    assert compare(wanted, [*argv, "--other"]).matched is False


def test_nearer_calls_are_closer() -> None:
    wanted = pattern(verbs=["ixp get"], positional=["p", "q"], flags={"m": {"present": True}})
    calls = [["x"], ["ixp", "list"], ["ixp", "get"], ["ixp", "get", "p"], ["ixp", "get", "p", "q"]]
    closeness = [compare(wanted, argv).closeness for argv in calls]
    assert closeness == sorted(closeness)
    assert len(set(closeness)) == len(calls)


@given(st.lists(words, max_size=8))
def test_a_pattern_without_facets_matches_everything(argv: list[str]) -> None:
    assert compare(ArgvPattern(), argv).matched
    assert compare(ArgvPattern(), argv).difference == ""


@given(st.lists(words, max_size=8), st.sampled_from(["a", "ab", "output"]))
def test_absent_is_the_opposite_of_present(argv: list[str], name: str) -> None:
    present, absent = (ArgvPattern(flags=(FlagTest((name,), kind),)) for kind in ("present", "absent"))  # type: ignore[arg-type]
    assert matches(present, argv) != matches(absent, argv)


def test_a_regex_that_does_not_compile_is_told_when_the_pattern_is_built() -> None:
    with pytest.raises(re.error):
        flag_test("m", {"matches_regex": "("})


# -- a tool that declares its options

OPTIONS: OptionTable = (
    Option(("output", "o"), 1),
    Option(("yes", "y"), 0),
    Option(("size", "s"), 2),
    Option(("quiet", "q"), 0),
    Option(("dry-run",), 0),
)


def declared(*argv: str, **more: Any) -> Any:
    return split_argv(argv, more.get("value_flags", ()), more.get("ignore", ()), more.get("known", ()), OPTIONS)


@pytest.mark.parametrize(
    ("argv", "positional", "flags"),
    [
        ("-qo FILE p", ["p"], {"quiet": [""], "output": ["FILE"]}),
        ("-xo FILE p", ["p"], {"x": [""], "output": ["FILE"]}),
        ("-qoFILE p", ["p"], {"quiet": [""], "output": ["FILE"]}),
        ("-qo=FILE p", ["p"], {"quiet": [""], "output": ["FILE"]}),
        ("-xo=FILE p", ["p"], {"xo": ["FILE"]}),
        ("-oKEY=VALUE p", ["p"], {"output": ["KEY=VALUE"]}),
        ("-o=FILE --output G -oH", [], {"output": ["FILE", "G", "H"]}),
        ("--output --yes p", ["p"], {"output": ["--yes"]}),
        ("-output f p", ["p"], {"output": ["f"]}),
        ("p --output", ["p"], {"output": [""]}),
        ("--size 1 2 p", ["p"], {"size": ["1", "2"]}),
        ("--size=1 2 p", ["p"], {"size": ["1", "2"]}),
        ("-qs1 2 p", ["p"], {"quiet": [""], "size": ["1", "2"]}),
        ("-s -1 -2 p", ["p"], {"size": ["-1", "-2"]}),
        ("p -s 1", ["p"], {"size": ["1"]}),
        ("p --size", ["p"], {"size": [""]}),
        ("--yes p -y", ["p"], {"yes": ["", ""]}),
        ("--yes=no p", ["p"], {"yes": ["no"]}),
        ("-yq p", ["p"], {"yes": [""], "quiet": [""]}),
        ("--dry-run p", ["p"], {"dry-run": [""]}),
        ("--other p", ["p"], {"other": [""]}),
        ("-abc=1 -0.5 -1e3", ["-0.5", "-1e3"], {"abc": ["1"]}),
        ("--xo p", ["p"], {"xo": [""]}),
        ("-o -- -- -y", ["-y"], {"output": ["--"]}),
        ("- -y", ["-"], {"yes": [""]}),
    ],
)
def test_split_with_declared_options(argv: str, positional: list[str], flags: dict[str, list[str]]) -> None:
    assert declared(*argv.split()) == (positional, flags)


def test_what_a_pattern_says_of_a_flag_that_the_tool_does_not_declare() -> None:
    assert declared("-po", "v", value_flags=("p",)) == (["v"], {"p": ["o"]})
    assert declared("-info", "v", known=("info",)) == (["v"], {"info": [""]})
    assert declared("--folder", "F", "p", value_flags=("folder",)) == (["p"], {"folder": ["F"]})
    assert declared("--yes", "p", value_flags=("yes",)) == (["p"], {"yes": [""]})
    assert declared("-o", "F", "p", ignore=("output", "o")) == (["p"], {})


def facets(**fields: Any) -> Any:
    return CliMatch.model_validate(fields)


def test_options_take_the_place_of_what_a_pattern_declares() -> None:
    loose = facets(verb="get", positional=["p"], flags={"o": {"present": True}})
    assert not matches(pattern_of(loose), ["-o", "json", "get", "p"])
    assert matches(pattern_of(loose, OPTIONS), ["-o", "json", "get", "p"])
    assert matches(pattern_of(loose, OPTIONS), ["get", "--output", "json", "p"])
    switch = facets(verb="delete", flags={"yes": "now"})
    assert matches(pattern_of(switch), ["--yes", "now", "delete"])
    assert not matches(pattern_of(switch, OPTIONS), ["--yes", "now", "delete"])
    ignoring = facets(flags={"quiet": {"present": True}}, value_flags=["q"], ignore_flags=["y"])
    assert matches(pattern_of(ignoring, OPTIONS), ["-yq", "p"])


def test_all_names_of_an_option_are_one_flag() -> None:
    either = pattern_of(facets(flags={"o": {"any_of": ["a", "b"]}}), OPTIONS)
    assert all(matches(either, argv) for argv in (["-ob"], ["--output=b"], ["--output", "c", "-o", "a"]))
    assert compare(either, ["--output", "c"]).difference == "flag --output or -o any_of ['a', 'b']: got 'c'"
    none = pattern_of(facets(flags={"y": {"absent": True}}), OPTIONS)
    assert not matches(none, ["--yes"])


option_words = st.sampled_from(
    [
        "p",
        "q",
        "-",
        "--",
        "-o",
        "-y",
        "-yo",
        "-xo",
        "-oF",
        "--size",
        "-s",
        "-ys",
        "--output",
        "--size=1",
        "-x",
        "--zz",
        "-1",
    ]
)


@given(st.lists(option_words, max_size=10), names, names, names)
def test_no_word_is_lost_between_options(
    argv: list[str], value_flags: set[str], ignore: set[str], known: set[str]
) -> None:
    positional, flags = split_argv(argv, value_flags, (), known, OPTIONS)
    assert not {"o", "y", "s", "q"} & set(flags)
    kept = collections.Counter([*positional, *(value for values in flags.values() for value in values)])
    assert collections.Counter(word for word in argv if not word.startswith("-") or word == "-") <= kept
    named = sum(word.startswith("-") and word not in ("-", "--", "-1") and word not in kept for word in set(argv))
    assert named <= sum(map(len, flags.values()))
    ignoring = split_argv(argv, value_flags, ignore, known, OPTIONS)[1]
    assert set(flags) - set(ignoring) == set(flags) & {"output" if name == "o" else name for name in ignore}


SPELLINGS = (
    (["--output", "f"], ["--output=f"], ["-o", "f"], ["-of"], ["-o=f"]),
    (["--yes"], ["-y"]),
    (["--size", "1", "2"], ["-s", "1", "2"], ["--size=1", "2"], ["-s1", "2"]),
    (["--dry-run"],),
    (["--unknown"],),
)


@given(st.data())
def test_neither_order_nor_spelling_of_flags_matters(data: st.DataObject) -> None:
    flags = data.draw(st.permutations([data.draw(st.sampled_from(choices)) for choices in SPELLINGS]))
    words = ["projects", "delete", "p1"]
    places = sorted(data.draw(st.lists(st.integers(0, len(flags)), min_size=3, max_size=3)))
    argv: list[str] = []
    for index in range(len(flags) + 1):
        argv += [word for word, place in zip(words, places, strict=True) if place == index]
        argv += flags[index] if index < len(flags) else []
    expected = {"output": ["f"], "yes": [""], "size": ["1", "2"], "dry-run": [""], "unknown": [""]}
    assert declared(*argv) == (words, expected)
    wanted = facets(verb="projects delete", positional=["p1"], flags={"s": {"equals": "2"}, "y": {"present": True}})
    assert matches(pattern_of(wanted, OPTIONS), argv)


def test_whether_a_command_line_has_the_words_of_a_pattern_at_all() -> None:
    verb = pattern(verbs=["ixp get"], positional=["p"])
    assert compare(verb, ["ixp", "list"]).touched
    assert not compare(verb, ["get", "ixp"]).touched
    free = pattern(positional=["p"], flags={"m": {"equals": "x"}, "force": {"absent": True}})
    assert [compare(free, argv).touched for argv in (["p"], ["--m=x"], ["--m=y"], ["--force"], ["q"], [])] == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]


def test_agrees_with_the_vectors() -> None:
    for row in rows("argv_split"):
        positional, flags = split_argv(row["argv"], row["value_flags"], row["ignore"], row["known"])
        assert {"positional": positional, "flags": flags} == row["expected"], row["id"]
    for row in rows("is_number"):
        assert is_number(row["text"]) == row["expected"]["number"], row["id"]
    for row in rows("flag_predicate"):
        assert flag_test("f", row["predicate"]).holds(row["values"]) == row["expected"]["match"], row["id"]
    for row in rows("argv_match"):
        spec = row["spec"]
        wanted = pattern(
            verbs=[" ".join(verb) for verb in spec["verb_spellings"]],
            positional=spec["positional"] or (),
            flags=spec["flags"] or {},
            value_flags=spec["value_flags"],
            ignore_flags=spec["ignore_flags"],
        )
        assert matches(wanted, row["argv"]) == row["expected"]["match"], row["id"]
