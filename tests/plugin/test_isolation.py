"""Which driver makes the sandboxes, the least isolation that a suite demands, and what is said of both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Repo

OWN_DRIVERS = """
    from pytest_codereval.sandbox.drivers import Availability, Isolation, Order, driver

    class Mine:
        def __init__(self, name, isolation=Isolation.TEMPDIR, usable=True):
            self.name, self.isolation, self.usable = name, isolation, usable

        def availability(self, order=None):
            open("asked.txt", "a").write(f"{self.name}\\n")
            return Availability(self.usable, "" if self.usable else "the moon is not \\x1b[31mfull")

        def create(self, order):
            sandbox = driver("tempdir").create(order)
            sandbox.driver = self.name
            sandbox.described = {"means": "a cellar", "does_not_isolate": ["light", "\\x1b[31mair"]}
            return sandbox

    def pytest_codereval_drivers(config):
        return [Mine("cellar"), Mine("vault", Isolation.DOCKER), Mine("moonbase", Isolation.DOCKER, usable=False)]
"""


@pytest.fixture
def own(repo: Repo) -> Repo:
    """A repository with drivers of its own: cellar (weak), vault (strong) and moonbase (strong, not to be had)."""
    repo.file("conftest.py", OWN_DRIVERS)
    return repo


def used(repo: Repo, task: str = "hello") -> str:
    return str(repo.record(task)["environment"]["driver"])


def refused(repo: Repo, *args: str) -> str:
    """The message of a session that ends with a usage error before any trial begins. In this process if it can be."""
    alone = any(arg.startswith("-n") for arg in args)
    run = repo.pytester.runpytest_subprocess if alone else repo.pytester.runpytest_inprocess
    result = run("-p", "no:cacheprovider", "--codereval-run-dir=refused", *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    folder = repo.path / "refused" / "trials"
    assert not folder.exists() or not [*folder.iterdir()]
    text = result.stderr.str()
    assert "Traceback" not in text + result.stdout.str()
    return text


# -- names


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--codereval-driver=bublewrap"],
            "expected one of tempdir, bubblewrap, docker, auto; did you mean 'bubblewrap'?",
        ),
        (["--codereval-driver="], "--codereval-driver '': expected one of tempdir"),
        (["--codereval-isolation=dokcer"], "expected one of tempdir, bubblewrap, docker; did you mean 'docker'?"),
        (["--codereval-isolation=auto"], "--codereval-isolation 'auto': expected one of tempdir, bubblewrap, docker"),
        (["-o", "codereval_driver=dockr"], "ini codereval_driver 'dockr': expected one of"),
        (["-o", "codereval_isolation=bwrap"], "ini codereval_isolation 'bwrap': expected one of"),
        (
            ["-o", "codereval_readable=/no/such/place"],
            "ini codereval_readable: '/no/such/place': /no/such/place is not there",
        ),
        (["-o", "codereval_readable=.."], "holds the root directory, which agents must not see"),
    ],
)
def test_a_wrong_name_is_a_usage_error(repo: Repo, args: list[str], message: str) -> None:
    repo.task("hello")
    assert message in refused(repo, *args)


def test_names_of_plugins_are_known_on_the_command_line(own: Repo) -> None:
    own.task("hello")
    assert "tempdir, bubblewrap, docker, cellar, vault, moonbase, auto; did you mean 'vault'?" in refused(
        own, "--codereval-driver=valt"
    )


# -- which driver


def test_the_driver_of_the_command_line_takes_the_place_of_the_tasks(own: Repo) -> None:
    own.task("plain")
    own.task("named", sandbox={"driver": "cellar"})
    own.run("--codereval-driver=vault").assert_outcomes(passed=2)
    assert (used(own, "plain"), used(own, "named")) == ("vault", "vault")


def test_the_driver_of_the_ini_file_is_for_tasks_that_name_none(own: Repo) -> None:
    own.task("plain")
    own.task("network", sandbox={"env": {"A": "1"}})
    own.task("named", sandbox={"driver": "tempdir"})
    own.run("-o", "codereval_driver=cellar", "-n2").assert_outcomes(passed=3)
    assert (used(own, "plain"), used(own, "network"), used(own, "named")) == ("cellar", "cellar", "tempdir")


def test_a_task_names_a_driver_of_a_plugin(own: Repo) -> None:
    own.task("hello", sandbox={"driver": "cellar"})
    own.run().assert_outcomes(passed=1)
    assert used(own) == "cellar"


def test_a_driver_that_nobody_brings_is_told_where_the_task_names_it(own: Repo) -> None:
    own.task("hello", sandbox={"driver": "celar"})
    result = own.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*hello.yaml:*sandbox.driver*'celar'; did you mean 'cellar'?*"])


def test_auto_takes_the_strongest_that_can_be_had_and_says_which(repo: Repo) -> None:
    repo.file(
        "conftest.py",
        """
        from pytest_codereval.sandbox import drivers

        class Fake:
            def __init__(self, name, usable):
                self.name, self.usable = name, usable
                self.isolation = drivers.Isolation[name.upper()]

            def availability(self, order=None):
                return drivers.Availability(self.usable, "" if self.usable else "no daemon answers")

            def create(self, order):
                sandbox = drivers.driver("tempdir").create(order)
                sandbox.driver = self.name
                return sandbox

        drivers._built_in.update(docker=Fake("docker", False), bubblewrap=Fake("bubblewrap", True))
        """,
    )
    repo.task("hello")
    result = repo.run("--codereval-driver=auto", "-n2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["codereval driver: auto picks bubblewrap; for a trial *: tempdir; docker cannot be had: no daemon answers (*"]
    )
    assert used(repo) == "bubblewrap"
    refusal = refused(repo, "--codereval-driver=auto", "--codereval-isolation=docker", "-n0")
    assert "hello (bubblewrap)" in refusal
    assert "docker cannot be had: no daemon answers" in refusal


AUTO_LACKS = """
    from pytest_codereval.sandbox import drivers

    class Fake:
        name, isolation = "docker", drivers.Isolation.DOCKER

        def availability(self, order=None):
            lacks = order is not None and order.config.docker.image is None
            return drivers.Availability(not lacks, "it has no image" if lacks else "")

        def create(self, order):
            sandbox = drivers.driver("tempdir").create(order)
            sandbox.driver = self.name
            return sandbox

    drivers._built_in["docker"] = Fake()
"""


def test_auto_goes_by_each_trial_and_so_does_the_least_isolation(repo: Repo) -> None:
    repo.file("conftest.py", AUTO_LACKS)
    repo.task("plain")
    repo.task("image", sandbox={"docker": {"image": "some"}})
    repo.run("--codereval-driver=auto").assert_outcomes(passed=2)
    assert used(repo, "image") == "docker"
    assert used(repo, "plain") != "docker"
    message = refused(repo, "--codereval-driver=auto", "--codereval-isolation=docker", "-n2")
    assert "1 trial would run with less" in message
    assert f"plain ({used(repo, 'plain')})" in message


def test_what_to_do_about_too_little_isolation_goes_by_the_driver_that_counts(repo: Repo) -> None:
    repo.file("conftest.py", AUTO_LACKS)
    repo.task("plain", sandbox={"driver": "tempdir"})
    default = ("-o", "codereval_driver=auto", "--codereval-isolation=docker", "-n0")
    message = refused(repo, "--codereval-driver=tempdir", *default)
    assert "--codereval-driver tempdir is weaker than what is asked for: give docker or auto" in message
    message = refused(repo, *default)
    assert "write `driver: docker` below `sandbox:` in the task files" in message


AUTO_DIES = """
    import pytest
    from pytest_codereval.sandbox import drivers

    class Dying:
        name, isolation, asked = "docker", drivers.Isolation.DOCKER, 0

        def availability(self, order=None):
            Dying.asked += 1
            return drivers.Availability(Dying.asked == 1, "the daemon died")

    drivers._built_in["docker"] = Dying()
"""


def test_auto_never_falls_back_when_what_it_picked_dies(repo: Repo) -> None:
    repo.file("conftest.py", AUTO_DIES)
    repo.task("hello")
    result = repo.run("--codereval-driver=auto")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'docker' could be had when the session began, and now not: the daemon died*"])


# -- what cannot be had


@pytest.mark.parametrize(
    "args", [["--codereval-driver=moonbase"], ["-ocodereval_driver=moonbase"], ["-ocodereval_driver=moonbase", "-n2"]]
)
def test_a_driver_of_the_session_that_cannot_be_had_is_a_usage_error(own: Repo, args: list[str]) -> None:
    own.task("hello")
    message = refused(own, *args)
    assert "moonbase: it cannot be had on this machine: the moon is not \\x1b[31mfull" in message
    assert (own.path / "asked.txt").read_text() == "moonbase\n"


def test_a_driver_that_no_trial_needs_is_not_asked_for(own: Repo) -> None:
    own.task("hello", sandbox={"driver": "cellar"})
    own.file("test_plain.py", "def test_plain(): pass")
    own.run("test_plain.py", "--codereval-driver=moonbase").assert_outcomes(passed=1)
    own.run("-ocodereval_driver=moonbase", "tasks", "--codereval-run-dir=other").assert_outcomes(passed=1)
    collected = own.collect("--codereval-driver=moonbase", "--codereval-isolation=docker")
    assert collected == ["tasks/hello.yaml::hello", "test_plain.py::test_plain"]
    assert set((own.path / "asked.txt").read_text().split()) == {"cellar"}


def test_a_driver_of_a_task_that_cannot_be_had_is_an_error_of_that_trial(own: Repo) -> None:
    own.task("far", sandbox={"driver": "moonbase"})
    own.task("near")
    result = own.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the driver 'moonbase' cannot be had: the moon is not \\x1b?31mfull"])
    assert own.record("far")["cause"] == "sandbox"


# -- the least isolation


@pytest.mark.parametrize(
    "args",
    [
        ["--codereval-isolation=bubblewrap"],
        ["-ocodereval_isolation=bubblewrap"],
        ["--codereval-isolation=docker", "-n2"],
    ],
)
def test_less_isolation_than_demanded_refuses_the_session(own: Repo, args: list[str]) -> None:
    own.task("strong", sandbox={"driver": "vault"})
    own.task("weak", sandbox={"driver": "cellar"})
    own.task("many", dataset={"rows": [{"id": f"r{number}"} for number in range(6)]})
    message = refused(own, *args)
    level = args[0].partition("=")[2]
    assert f" {level}: 7 trials would run with less; nothing was run\n" in message.replace("--codereval-isolation", "")
    assert "  tasks/many.yaml::many[r0] (tempdir)\n" in message
    assert message.count("many[") == 5
    assert "  and 2 more\n" in message
    assert f"--codereval-driver {level}" in message
    assert "strong" not in message


@pytest.mark.parametrize(
    ("args", "passed"),
    [
        (["--codereval-isolation=docker", "-kstrong", "-n2"], 1),
        (["--codereval-isolation=docker", "--codereval-driver=vault"], 2),
        (["-ocodereval_isolation=docker", "--codereval-isolation=tempdir"], 2),
    ],
)
def test_a_session_that_is_isolated_enough_runs(own: Repo, args: list[str], passed: int) -> None:
    own.task("strong", sandbox={"driver": "vault"})
    own.task("weak")
    own.run(*args).assert_outcomes(passed=passed)


def test_a_weak_driver_of_the_command_line_is_refused(own: Repo) -> None:
    own.task("hello", sandbox={"driver": "vault"})
    message = refused(own, "--codereval-driver=cellar", "--codereval-isolation=docker")
    assert "hello (cellar)" in message
    assert "--codereval-driver cellar is weaker than what is asked for" in message


def test_a_trial_of_a_python_test_refuses_itself_before_anything_runs(own: Repo) -> None:
    own.script("hello", {"bash": "touch ran"}, pre_run=[{"command": "touch prepared"}])
    own.file("test_weak.py", "def test_weak(codereval_run_task):\n    codereval_run_task('tasks/hello.yaml')\n")
    result = own.run("test_weak.py", "--codereval-isolation=bubblewrap")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*'tempdir' isolates less than 'bubblewrap', which this session demands*"])
    assert own.record()["cause"] == "configuration"
    assert own.record()["pre_run"] == []


# -- the hook


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("5", "expected a list of drivers, found 5"),
        ("[object()]", "is no driver: its name is None"),
        ("[Thing]", "is no driver: it is a class, expected an instance"),
        ("[Thing('a b')]", "its name is 'a b', expected letters, digits"),
        ("[Thing('x', 2)]", "its isolation is no Isolation"),
        ("[Thing('x', Isolation.DOCKER)]", "it has no method availability"),
    ],
)
def test_what_is_no_driver_is_told(repo: Repo, made: str, message: str) -> None:
    repo.file(
        "conftest.py",
        f"""
        from pytest_codereval.sandbox.drivers import Isolation

        class Thing:
            def __init__(self, name, isolation=Isolation.DOCKER):
                self.name, self.isolation = name, isolation

        def pytest_codereval_drivers(config):
            return {made}
        """,
    )
    repo.task("hello")
    text = refused(repo)
    assert message in text
    assert "conftest.py" in text


@pytest.mark.parametrize("name", ["cellar", "docker", "auto"])
def test_two_drivers_of_one_name_are_an_error_that_names_both(own: Repo, name: str) -> None:
    own.file("other_plugin.py", OWN_DRIVERS.partition("[Mine(")[0] + f"[Mine({name!r})]\n")
    own.pytester.syspathinsert()
    own.task("hello")
    text = refused(own, "-p", "other_plugin")
    assert name in text
    assert "other_plugin" in text
    assert ("conftest.py" in text) == (name == "cellar")


def test_drivers_are_forgotten_when_a_session_ends(own: Repo) -> None:
    own.task("hello", sandbox={"driver": "cellar"})
    own.file(
        "twice.py",
        """
        import pytest, sys
        from pytest_codereval.sandbox import drivers
        for folder in ("first", "second"):
            assert pytest.main(["-q", "tasks", "-p", "no:cacheprovider", f"--codereval-run-dir={folder}"]) == 0
            assert drivers.names() == ("tempdir", "bubblewrap", "docker")
        """,
    )
    done = subprocess.run([sys.executable, "twice.py"], cwd=own.path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


# -- what is said


def test_reports_say_how_trials_were_isolated(own: Repo) -> None:
    own.task("hello", sandbox={"driver": "cellar"})
    own.task("plain")
    result = own.run("--codereval-isolation=tempdir")
    result.stdout.fnmatch_lines(
        [
            "codereval driver: the one that each task names; at least tempdir (--codereval-isolation)",
            "isolation: cellar (a cellar): does not isolate: light; \\x1b?31mair",
        ]
    )
    (tempdir,) = (line for line in result.outlines if line.startswith("isolation: tempdir"))
    assert "does not isolate: the user" in tempdir
    for name in ("hello", "file_exists-greeting-is-there"):
        cases = own.suite().findall(f"testcase[@name='{name}']")
        assert cases
        found = [{prop.get("name"): prop.get("value") for prop in case.iter("property")} for case in cases]
        cellar = [each["codereval.isolation"] for each in found if each["codereval.driver"] == "cellar"]
        assert cellar == ["cellar (a cellar): does not isolate: light; \\x1b[31mair"]


def test_a_session_without_a_word_about_drivers_has_no_header(repo: Repo) -> None:
    repo.file("test_plain.py", "def test_plain(): pass")
    result = repo.run()
    assert "codereval driver" not in result.stdout.str()
    assert "isolation" not in result.stdout.str()


def test_drivers_are_listed_beside_pytest(tmp_path: Path) -> None:
    environment = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock", "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest_codereval", "drivers"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert [line.partition(":")[0] for line in said] == ["docker", "bubblewrap", "tempdir"]
    assert said[0].startswith("docker: cannot be had: ")
    assert said[1].startswith("bubblewrap: cannot be had: ")
    assert said[2] == "tempdir: can be had"
    assert "on this machine: tempdir (" in done.stdout


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_trial_that_cannot_have_the_driver_of_the_session_is_named_before_anything_runs(
    repo: Repo, workers: str
) -> None:
    repo.task("plain")
    repo.task("walled", sandbox={"network": {"allow": ["localhost:8080"]}})
    message = refused(repo, "--codereval-driver=tempdir", workers)
    assert "--codereval-driver tempdir: it cannot be had for tasks/walled.yaml::walled: sandbox.network:" in message
