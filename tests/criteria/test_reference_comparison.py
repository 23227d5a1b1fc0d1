"""reference_comparison: similarity of Python files."""

from __future__ import annotations

import pytest

from pytest_codereval.errors import JudgingError

METHODS = ["ast", "token", "complexity"]
SOURCE = """
def add(a, b):
    # adds
    if a and b:
        return a + b
    return 0


def main():
    for n in range(3):
        print(add(n, n))
"""


@pytest.fixture(params=METHODS)
def compare(request, judge, workspace):
    """Judge an agent's source by a reference's."""

    def run(agent: str | bytes, reference: str = SOURCE):
        data = agent if isinstance(agent, bytes) else agent.encode()
        (workspace / "a.py").write_bytes(data)
        return judge(
            type="reference_comparison",
            agent_file="a.py",
            reference_file="r.py",
            comparison_method=request.param,
            reference={"r.py": reference},
        )

    return run


def test_copy_scores_1(compare):
    assert compare(SOURCE).score == 1


def test_copy_with_other_line_ends_scores_1(compare):
    assert compare(SOURCE.replace("\n", "\r\n")).score == 1


def test_copy_of_what_is_no_python_scores_1(compare):
    assert compare("not python at all {", "not python at all {").score == 1


def test_renamed_copy_scores_1(compare):
    assert compare(SOURCE.replace("add", "plus")).score == 1


def test_large_copy_with_one_more_line_stays_similar(compare):
    large = "".join(f"x{n} = f(x{n - 1}, {n})\n" for n in range(1, 400))
    assert 0.95 < compare("import os\n" + large, large).score < 1


def test_other_program_is_less_similar(compare):
    assert compare("print(1)\n").score < 0.5


@pytest.mark.parametrize("source", ["def (", "x = \0", "(" * 5000, b"\xff", "", "x = 1\n  y = 2\n"])
def test_what_cannot_be_compared_is_no_match(compare, source):
    assert compare(source).score < 0.5


def test_missing_file_fails(judge):
    judgement = judge(type="reference_comparison", agent_file="a.py", reference_file="r.py", reference={"r.py": SOURCE})
    assert judgement.score == 0


@pytest.mark.parametrize(
    "reference",
    [None, {}, {"r.py": ""}, {"r.py": " \n"}, {"r.py": "def ("}],
    ids=["no", "missing", "0", "blank", "bad"],
)
def test_reference_that_cannot_be_used_is_an_error(judge, workspace, reference):
    (workspace / "a.py").write_text("x = 1\n")
    with pytest.raises(JudgingError, match="reference"):
        judge(type="reference_comparison", agent_file="a.py", reference_file="r.py", reference=reference)
