"""file_exists, file_contains, file_matches_regex and file_check over files as agents leave them."""

from __future__ import annotations

import os
import re

import pytest

from pytest_codereval.sandbox.workspace import DEFAULT_READ_LIMIT

READERS = [
    {"type": "file_contains", "includes": ["x"]},
    {"type": "file_contains", "includes": [], "excludes": ["x"]},
    {"type": "file_matches_regex", "pattern": "x"},
    {"type": "file_matches_regex", "pattern": "x", "must_match": False},
    {"type": "file_check", "includes": ["x"]},
    {"type": "file_check", "excludes": ["x"]},
    {"type": "file_check"},
    {"type": "json_check"},
    {"type": "classification_match", "expected_label": "x", "allowed_labels": ["x"]},
]


@pytest.fixture(params=READERS, ids=lambda fields: "-".join(map(str, fields.values())))
def reader(request):
    return request.param


def test_missing_file_fails_every_reader(judge, reader):
    judgement = judge(path="answer.txt", **reader)
    assert judgement.score == 0
    assert "answer.txt" in judgement.reason


def test_link_out_of_the_workspace_fails_every_reader(judge, reader, workspace):
    outside = workspace.parent / "outside.txt"
    outside.write_text("x")
    (workspace / "answer.txt").symlink_to(outside)
    assert judge(path="answer.txt", **reader).score == 0


def test_link_through_a_directory_out_of_the_workspace_fails(judge, reader, workspace):
    (workspace.parent / "elsewhere").mkdir()
    (workspace.parent / "elsewhere" / "answer.txt").write_text("x")
    (workspace / "dir").symlink_to("../elsewhere")
    assert judge(path="dir/answer.txt", **reader).score == 0


def test_fifo_fails_and_does_not_block(judge, reader, workspace):
    os.mkfifo(workspace / "answer.txt")
    assert judge(path="answer.txt", **reader).score == 0


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/proc/self/environ"])
def test_link_to_a_device_fails(judge, reader, workspace, target):
    (workspace / "answer.txt").symlink_to(target)
    assert judge(path="answer.txt", **reader).score == 0


def test_sparse_giant_fails_and_fills_no_memory(judge, workspace, reader):
    with open(workspace / "answer.txt", "wb") as file:
        file.truncate(1 << 40)
    judgement = judge(path="answer.txt", **reader)
    if reader == {"type": "file_check"}:
        assert judgement.score == 1
    else:
        assert judgement.score == 0


def test_directory_fails_every_reader(judge, reader, workspace):
    (workspace / "answer.txt").mkdir()
    assert judge(path="answer.txt", **reader).score == 0


def test_text_that_is_not_utf8_fails(judge, reader, workspace):
    (workspace / "answer.txt").write_bytes(b"x\xff")
    assert judge(path="answer.txt", **reader).score == (1 if reader == {"type": "file_check"} else 0)


def test_link_loop_fails(judge, reader, workspace):
    (workspace / "answer.txt").symlink_to("answer.txt")
    assert judge(path="answer.txt", **reader).score == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_mode_fails(judge, reader, workspace):
    (workspace / "answer.txt").write_text("x")
    (workspace / "answer.txt").chmod(0)
    if reader != {"type": "file_check"}:
        assert judge(path="answer.txt", **reader).score == 0


def test_two_files_for_one_glob_fail_with_their_names(judge, reader, workspace):
    (workspace / "a.txt").write_text("x")
    (workspace / "b.txt").write_text("x")
    judgement = judge(path="*.txt", **reader)
    assert judgement.score == 0
    assert "a.txt" in judgement.reason
    assert "b.txt" in judgement.reason


def test_reason_is_one_line_whatever_the_agent_named_its_file(judge, reader, workspace):
    (workspace / "a\nb.txt").write_bytes(b"\xff\n")
    assert "\n" not in judge(path="a*.txt", **reader).reason


def test_link_inside_the_workspace_is_followed(judge, workspace):
    (workspace / "real.txt").write_text("x")
    (workspace / "answer.txt").symlink_to("real.txt")
    assert judge(type="file_exists", path="answer.txt").score == 1
    assert judge(type="file_contains", path="answer.txt", includes=["x"]).score == 1


def test_file_exists(judge, workspace):
    (workspace / "dir").mkdir()
    (workspace / "dir" / "a.txt").write_text("")
    assert judge(type="file_exists", path="dir/a.txt").score == 1
    assert judge(type="file_exists", path="**/a.txt").score == 1
    assert judge(type="file_exists", path="dir/b.txt").score == 0
    assert judge(type="file_exists", path="*.md").score == 0


@pytest.mark.parametrize("target", ["nowhere", "loop", "/etc/passwd", "../outside", "/dev/null"])
def test_file_exists_does_not_count_a_link_to_nothing_or_out(judge, workspace, target):
    (workspace.parent / "outside").write_text("x")
    (workspace / "loop").symlink_to(target)
    judgement = judge(type="file_exists", path="loop")
    assert judgement.score == 0
    assert re.fullmatch("loop: (missing|a loop of links|not a regular file|leaves the workspace)", judgement.reason)


def test_file_exists_does_not_count_a_fifo(judge, workspace):
    os.mkfifo(workspace / "pipe")
    assert judge(type="file_exists", path="pipe").score == 0


def test_a_directory_counts_only_where_the_author_asks_for_one(judge, workspace):
    (workspace / "out").mkdir()
    judgement = judge(type="file_exists", path="out")
    assert judgement.score == 0
    assert "'out/'" in judgement.reason
    assert judge(type="file_exists", path="out/").score == 1
    (workspace / "file").write_text("")
    assert judge(type="file_exists", path="file/").score == 0


def test_name_with_glob_characters_that_exists_wins(judge, workspace):
    (workspace / "a[1].txt").write_text("literal")
    (workspace / "a1.txt").write_text("globbed")
    assert judge(type="file_contains", path="a[1].txt", includes=["literal"]).score == 1


def test_file_contains_scores_the_mean_of_both_ratios(judge, workspace):
    (workspace / "a.txt").write_text("one two three")
    assert judge(type="file_contains", path="a.txt", includes=["one", "four"]).score == 0.5
    assert judge(type="file_contains", path="a.txt", includes=["one"], excludes=["two"]).score == 0.5
    assert judge(type="file_contains", path="a.txt", includes=["one", "x", "y"], excludes=["z"]).score == pytest.approx(
        (1 / 3 + 1) / 2
    )
    assert judge(type="file_contains", path="a.txt", includes=[]).score == 1
    judgement = judge(type="file_contains", path="a.txt", includes=["one", "four"], excludes=["two"])
    assert "does not contain 'four'" in judgement.details
    assert "contains 'two'" in judgement.details


def test_file_check_scores_the_mean_of_the_kinds_used(judge, workspace):
    (workspace / "a.txt").write_text("one two three")
    fields = {"type": "file_check", "path": "a.txt"}
    assert judge(**fields).score == 1
    assert judge(**fields, patterns=[{"pattern": "t.o"}, {"pattern": "x"}]).score == 0.5
    assert judge(**fields, patterns=[{"pattern": "T.O", "flags": 2}, {"pattern": "x", "must_match": False}]).score == 1
    score = judge(**fields, includes=["one"], excludes=["two"], patterns=[{"pattern": "x"}]).score
    assert score == pytest.approx(1 / 3)


def test_file_matches_regex_searches_the_whole_text(judge, workspace):
    (workspace / "a.txt").write_text("first\nsecond\n")
    fields = {"type": "file_matches_regex", "path": "a.txt"}
    assert judge(**fields, pattern="sec").score == 1
    assert judge(**fields, pattern="^sec").score == 0
    assert judge(**fields, pattern="^sec", flags=int(re.MULTILINE)).score == 1
    assert judge(**fields, pattern="sec", must_match=False).score == 0
    assert judge(**fields, pattern="third", must_match=False).score == 1
    assert "line 2" in judge(**fields, pattern="sec").reason


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_every_end_of_line_is_a_line_feed(judge, workspace, newline):
    (workspace / "a.txt").write_bytes(b"a" + newline + b"b")
    assert judge(type="file_matches_regex", path="a.txt", pattern="a\nb").score == 1
    assert judge(type="file_contains", path="a.txt", includes=["a\nb"]).score == 1


def test_a_byte_order_mark_is_text(judge, workspace):
    (workspace / "a.txt").write_bytes("\ufeffhead".encode())
    assert judge(type="file_matches_regex", path="a.txt", pattern="^.head").score == 1


def test_file_of_the_largest_size_is_read(judge, workspace):
    (workspace / "a.txt").write_bytes(b"x" * (DEFAULT_READ_LIMIT - 1) + b"y")
    assert judge(type="file_contains", path="a.txt", includes=["xy"]).score == 1
    (workspace / "a.txt").write_bytes(b"x" * DEFAULT_READ_LIMIT + b"y")
    assert judge(type="file_contains", path="a.txt", includes=["xy"]).score == 0


@pytest.mark.parametrize(
    ("text", "label", "score"),
    [
        ("positive", "positive", 1),
        (" POSITIVE \r\n", "positive", 1),
        ("\ufeffpositive", "positive", 1),
        ("negative", "negative", 0),
        ("maybe", "(other)", 0),
        ("positive negative", "(other)", 0),
        ("", "(none)", 0),
        (" \n", "(none)", 0),
    ],
)
def test_classification_label(judge, workspace, text, label, score):
    (workspace / "label").write_text(text, newline="")
    judgement = judge(
        type="classification_match", path="label", expected_label="positive", allowed_labels=["positive", "negative"]
    )
    assert (judgement.label, judgement.expected_label, judgement.score) == (label, "positive", score)


def test_classification_is_sensitive_to_case_when_asked(judge, workspace):
    (workspace / "label").write_text("A")
    fields = {"type": "classification_match", "path": "label", "expected_label": "a", "allowed_labels": ["a", "b"]}
    assert judge(**fields).label == "a"
    assert judge(**fields, case_sensitive=True).label == "(other)"


def test_classification_labels_what_cannot_be_read(judge, workspace):
    fields = {"type": "classification_match", "expected_label": "a", "allowed_labels": ["a"]}
    assert judge(**fields, path="nowhere").label == "(none)"
    (workspace / "x1").write_bytes(b"\xff")
    assert judge(**fields, path="x1").label == "(other)"
    (workspace / "x2").write_text("a")
    assert judge(**fields, path="x*").label == "(other)"
