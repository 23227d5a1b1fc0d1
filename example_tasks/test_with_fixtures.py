"""The fixtures in a Python test: for what is more easily said in Python than in YAML."""

import pytest


@pytest.mark.codereval(task="deploy_service.yaml")
def test_logs_in_before_it_deploys(codereval_run):
    verbs = [call.argv[0] for call in codereval_run.invocations.invocations]
    assert verbs.index("login") < verbs.index("services")
    assert codereval_run.judge().status == "passed"


def test_every_city(codereval_run_task):
    for row in ("france", "japan", "kenya"):
        run = codereval_run_task("capital_cities.yaml", row=row)
        assert run.workspace.read_text("answer.txt").strip()
