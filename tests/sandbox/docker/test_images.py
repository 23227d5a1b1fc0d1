"""Images: found by name or built, described without running them, and never with answer keys in a build."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import registry
from pytest_codereval.sandbox.docker import building, images, leftovers
from pytest_codereval.sandbox.docker.archives import contents, seed_workspace, working_dir_of
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.enclosure import Owner
from pytest_codereval.sandbox.grading_copy import GRADING_LIMITS
from pytest_codereval.task.models import SandboxConfig

TASK = "task_id: t\nsuccess_criteria:\n  - {type: file_exists, path: a}\n"
OWNER = Owner(61000, 61000)

pytestmark = pytest.mark.usefixtures("docker_daemon")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory for sandboxes in which nothing is known of any image."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture
def order(place: Path, tmp_path: Path) -> Callable[..., Order]:
    """An order whose task lies in `tmp_path`/tasks/one."""
    task_dir = tmp_path / "tasks" / "one"
    task_dir.mkdir(parents=True)
    (task_dir / "task.yaml").write_text(TASK)

    def make(session: str = "", default: str | None = None, **docker: Any) -> Order:
        config = SandboxConfig(driver="docker", docker=docker)  # type: ignore[arg-type]
        return Order(config, task_dir=task_dir, root_parent=place, session=session, image=default)

    return make


@pytest.fixture
def forget() -> Iterator[Callable[[], None]]:
    """Forget what this process knows of images, as another process would."""

    def forget_all() -> None:
        images._facts.cache_clear()
        images._id_of.cache_clear()
        images._programs.clear()
        building._built.clear()

    forget_all()
    yield forget_all
    forget_all()


@pytest.fixture
def built(docker_client: Any) -> Iterator[list[str]]:
    """Ids of images that are removed when the test ends."""
    made: list[str] = []
    yield made
    for number in dict.fromkeys(made):
        docker_client.images.remove(number, force=True)


def refused(order: Order, answer_keys: tuple[Path, ...] = ()) -> TrialError:
    with pytest.raises(TrialError) as raised:
        images.image_for(order, answer_keys)
    return raised.value


def sweepable(order: Order) -> dict[str, str]:
    return leftovers.labels(registry.registry(order.root_parent))


def test_a_debian_image_is_described(order: Callable[..., Order], base_image: str) -> None:
    found = images.image_for(order(image=base_image))
    assert found.id.startswith("sha256:")
    assert found.name == base_image
    assert found.path_folders[:2] == ("/usr/local/bin", "/usr/bin")
    assert found.shell == "/usr/bin/dash"
    assert found.python == "/usr/bin/python3"
    assert found.env == {"LANG": "C.UTF-8"}
    assert found.passwd(OWNER, "/h").splitlines()[-1] == "agent:x:61000:61000::/h:/bin/sh"
    assert found.group(OWNER).splitlines()[-1] == "agent:x:61000:"


def test_an_image_with_nothing_but_busybox_is_described(order: Callable[..., Order], busybox_image: str) -> None:
    found = images.image_for(order(default=busybox_image))
    assert found.shell == "/bin/busybox sh"
    assert found.python is None
    assert found.path_folders == ("/bin",)


def test_an_account_with_the_name_or_number_of_the_agent_gives_way(place: Path) -> None:
    passwd = "root:x:0:0::/root:/bin/sh\nagent:x:5:5::/a:/bin/sh\nother:x:61000:1::/o:/bin/sh\n"
    image = images.Image("sha256:0", "x", (), "/bin/sh", None, "", {}, passwd, "agent:x:1:\nroot:x:0:\n")
    assert image.passwd(OWNER, "/h") == "root:x:0:0::/root:/bin/sh\nagent:x:61000:61000::/h:/bin/sh\n"
    assert image.group(OWNER) == "root:x:0:\nagent:x:61000:\n"


def test_what_one_process_found_out_serves_the_others(
    order: Callable[..., Order], busybox_image: str, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = images.image_for(order(image=busybox_image))
    forget()
    monkeypatch.setattr(images, "looking_into", lambda *_: pytest.fail("looked again"))
    assert images.image_for(order(image=busybox_image)) == first


def test_a_spoilt_note_about_an_image_is_written_anew(
    order: Callable[..., Order], busybox_image: str, forget: Callable[[], None], place: Path
) -> None:
    first = images.image_for(order(image=busybox_image))
    (note,) = place.glob("cev-*/images/*.json")
    for text in ("", "[]", '{"version": 1}', json.dumps({"version": 99})):
        note.write_text(text)
        forget()
        assert images.image_for(order(image=busybox_image)) == first
    assert json.loads(note.read_text())["id"] == first.id


def test_programs_are_regular_files_and_links_of_the_same_name(
    order: Callable[..., Order], base_image: str, busybox_image: str
) -> None:
    debian = images.image_for(order(image=base_image))
    asked = ["git", "cat", "awk", "python3", "sh", "dash", "no-such-tool", "a/b"]
    assert images.programs(debian, asked, order()) == {
        "git": ("/usr/bin/git",),
        "cat": ("/usr/bin/cat",),
        **dict.fromkeys(["awk", "python3", "sh", "dash", "no-such-tool", "a/b"], ()),
    }
    busybox = images.image_for(order(image=busybox_image))
    assert set(images.programs(busybox, ["cat", "sh", "busybox"], order()).values()) == {()}


@pytest.mark.parametrize("name", ["Not A Name", "localhost:1/codereval/none:x"])
def test_an_image_that_is_not_here_and_cannot_be_pulled_is_an_error(order: Callable[..., Order], name: str) -> None:
    error = refused(order(image=name))
    assert name in str(error)
    assert error.cause is (Cause.CONFIGURATION if " " in name else Cause.SANDBOX)


def test_without_any_image_the_key_is_named(order: Callable[..., Order]) -> None:
    error = refused(order())
    assert error.cause is Cause.CONFIGURATION
    assert "sandbox.docker.image" in str(error)


# -- builds


def dockerfile(order: Order, text: str, *more: str, name: str = "image/Dockerfile") -> None:
    assert order.task_dir is not None
    path = order.task_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for other in more:
        (path.parent / other).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / other).write_text(TASK if other.endswith(".yaml") else f"content of {other}")


def files_of(order: Order, built: list[str], answer_keys: tuple[Path, ...] = ()) -> set[str]:
    """The files that a build put into /app."""
    found = images.image_for(order, answer_keys)
    built.append(found.id)
    return {path for path, _, _ in contents(found, sweepable(order)) if path.startswith("/app/")}


def test_a_build_takes_arguments_and_heeds_dockerignore(
    order: Callable[..., Order], busybox_image: str, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEREVAL_TEST_FOLDER", "/app")
    wanted = order(dockerfile_path="image/Dockerfile", build={"args": {"FOLDER": "$CODEREVAL_TEST_FOLDER"}})
    text = f"FROM {busybox_image}\nARG FOLDER\nWORKDIR $FOLDER\nENV A=b\nCOPY . .\n"
    dockerfile(wanted, text, "kept.txt", "left/out.txt", "left/in.txt", "x.log")
    dockerfile(wanted, "left/*\n!left/in.txt\n*.log\n", name="image/.dockerignore")
    found = images.image_for(wanted)
    assert (found.working_dir, dict(found.env)) == ("/app", {"A": "b"})
    files = files_of(wanted, built)
    assert {"/app/kept.txt", "/app/left/in.txt"} <= files
    assert not files & {"/app/left/out.txt", "/app/x.log"}


def test_what_tells_how_tasks_are_judged_is_not_in_a_build(
    order: Callable[..., Order], busybox_image: str, built: list[str], tmp_path: Path
) -> None:
    wanted = order(dockerfile_path="../../Dockerfile")
    text = f"FROM {busybox_image}\nCOPY . /app/\n"
    more = ("app.py", "answers/a.txt", "rows.jsonl", ".git/config", "tasks/two/task.yaml", "tasks/two/grade.py")
    dockerfile(wanted, text, *more, name="../../Dockerfile")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "same.txt").hardlink_to(tmp_path / "rows.jsonl")
    (tmp_path / "linked").symlink_to("answers")
    files = files_of(wanted, built, (tmp_path / "answers", tmp_path / "rows.jsonl"))
    assert {path for path in files if not path.startswith("/app/place")} == {"/app/Dockerfile", "/app/app.py"}


@pytest.mark.parametrize(
    "line",
    [
        "COPY . /app",
        'COPY --chown=1:1 ["./", "/app/"]',
        "ADD * /app/",
        "COPY grad\\\n* /app/",
        "ARG X=.\nCOPY $X /app",
        "copy x/.. /app/",
        "RUN --mount=type=bind,target=/src cp -r /src /app",
    ],
)
def test_the_whole_folder_of_a_task_is_not_taken_into_an_image(order: Callable[..., Order], line: str) -> None:
    wanted = order(dockerfile_path="Dockerfile")
    dockerfile(wanted, f"FROM scratch\n{line}\n", "grade.py", name="Dockerfile")
    error = refused(wanted)
    assert error.cause is Cause.CONFIGURATION
    assert "folder of tasks" in str(error)


def test_single_files_of_the_folder_of_a_task_are(
    order: Callable[..., Order], busybox_image: str, built: list[str]
) -> None:
    wanted = order(dockerfile_path="Dockerfile")
    text = f"FROM {busybox_image} AS one\nCOPY app.py start/ /app/\nFROM one\nCOPY --from=one . /x\n"
    dockerfile(wanted, text, "app.py", "start/a.txt", "grade.py", name="Dockerfile")
    assert wanted.task_dir is not None
    (wanted.task_dir / "Dockerfile").rename(wanted.task_dir / "real")
    (wanted.task_dir / "Dockerfile").symlink_to("real")
    assert files_of(wanted, built) == {"/app/app.py", "/app/a.txt"}


def test_a_dockerfile_in_an_answer_key_is_refused(order: Callable[..., Order]) -> None:
    wanted = order(dockerfile_path="reference/Dockerfile")
    dockerfile(wanted, "FROM scratch\n", name="reference/Dockerfile")
    assert wanted.task_dir is not None
    error = refused(wanted, (wanted.task_dir / "reference",))
    assert error.cause is Cause.CONFIGURATION
    assert "answer key" in str(error)


def test_a_failed_build_shows_the_end_of_its_log_and_is_tried_once(
    order: Callable[..., Order], busybox_image: str, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = order(dockerfile_path="image/Dockerfile", session="s1")
    dockerfile(wanted, f"FROM {busybox_image}\nRUN echo about-to-fail; exit 3\n")
    error = refused(wanted)
    assert error.cause is Cause.SANDBOX
    assert "about-to-fail" in str(error)
    assert "3" in str(error).splitlines()[-1]
    forget()
    monkeypatch.setattr(building, "_build_by_daemon", lambda *_: pytest.fail("built again"))
    assert str(refused(wanted)) == str(error)


def _image_in_another_process(order: Order, answers: Any) -> None:
    try:
        answers.put(images.image_for(order).id)
    except Exception as error:
        answers.put(str(error))


def test_workers_of_a_session_build_once(
    order: Callable[..., Order], busybox_image: str, built: list[str], place: Path
) -> None:
    wanted = order(dockerfile_path="image/Dockerfile", session="s2")
    dockerfile(wanted, f"FROM {busybox_image}\nARG X\nRUN cat /proc/sys/kernel/random/uuid >/app.txt\n")
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=_image_in_another_process, args=(wanted, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    ids = [answers.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    built += ids
    assert len(set(ids)) == 1
    notes = [json.loads(path.read_text()) for path in place.glob("cev-*/images/codereval-build-*.json")]
    assert notes == [{"session": "s2", "id": ids[0]}]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        ({"args": {"A": "$CODEREVAL_NOT_SET"}}, "build.args.A"),
        ({"extra_args": ["--build-context=x=/"]}, "up to the harness"),
    ],
)
def test_settings_of_a_build_that_cannot_be_used(
    order: Callable[..., Order], build: dict[str, Any], expected: str
) -> None:
    wanted = order(dockerfile_path="image/Dockerfile", build=build)
    dockerfile(wanted, "FROM scratch\n")
    error = refused(wanted)
    assert error.cause is Cause.CONFIGURATION
    assert expected in str(error)


def test_a_dockerfile_that_is_not_there_is_named(order: Callable[..., Order]) -> None:
    assert "no file" in str(refused(order(dockerfile_path="nowhere/Dockerfile")))


def test_the_docker_program_builds_with_its_own_arguments(
    order: Callable[..., Order], busybox_image: str, built: list[str]
) -> None:
    if shutil.which("docker") is None:
        pytest.skip("there is no docker program")
    wanted = order(
        dockerfile_path="image/Dockerfile",
        build={"buildkit": False, "args": {"A": "from args"}, "extra_args": ["--target", "first"]},
    )
    dockerfile(wanted, f"FROM {busybox_image} AS first\nARG A\nENV A=$A\nFROM first\nENV A=second\n")
    found = images.image_for(wanted)
    built.append(found.id)
    assert found.env == {"A": "from args"}
    failing = order(dockerfile_path="image/Dockerfile", build={"extra_args": ["--no-such-option"]})
    assert "no-such-option" in str(refused(failing))


# -- the working directory


@pytest.mark.parametrize(
    ("asked", "of_image", "expected"),
    [
        (None, "/app", None),
        ("auto", "/app/", "/app"),
        ("auto", "", None),
        ("auto", "/", None),
        ("/srv//x/./y", "/app", "/srv/x/y"),
        ("auto", "/usr", TrialError),
        ("auto", "/work/x", TrialError),
    ],
)
def test_where_the_workspace_lies_in_an_image(asked: str | None, of_image: str, expected: Any) -> None:
    config = SandboxConfig(docker={"working_dir": asked})  # type: ignore[arg-type]
    image = images.Image("sha256:0", "x", (), "/bin/sh", None, of_image, {})
    if expected is TrialError:
        with pytest.raises(TrialError, match=r"sandbox\.docker\.working_dir"):
            working_dir_of(config, image)
    else:
        assert working_dir_of(config, image) == expected


def test_a_workspace_starts_with_what_the_image_has_there(
    order: Callable[..., Order], busybox_image: str, built: list[str], tmp_path: Path
) -> None:
    wanted = order(dockerfile_path="image/Dockerfile")
    script = " && ".join(
        [
            "cd /app; echo main >main.py; chmod 4755 main.py; ln main.py hard; ln -s main.py inside",
            "mkdir -p sub/deep; echo x >sub/deep/x; ln -s /app/sub/deep/x sub/absolute; chown -R 5:5 sub",
            "ln -s /etc/passwd outside; ln -s ../.. up; mkfifo pipe; ln -s /app /linked",
            "mkdir locked; echo s >locked/s; chmod 0 locked",
        ]
    )
    dockerfile(wanted, f"FROM {busybox_image}\nWORKDIR /app\nRUN {script}\n")
    image = images.image_for(wanted)
    built.append(image.id)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    seeded = seed_workspace(image, "/linked", workspace, sweepable(wanted))
    found = sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*"))
    assert found == sorted(
        ["main.py", "hard", "sub", "sub/deep", "sub/deep/x", "sub/absolute", "inside", "locked", "locked/s"]
    )
    assert (workspace / "main.py").stat().st_mode & 0o7777 == 0o755
    assert (workspace / "hard").read_text() == "main\n"
    assert (workspace / "sub" / "absolute").readlink() == Path("deep/x")
    assert (workspace / "inside").readlink() == Path("main.py")
    assert sorted(text.split(":")[0] for text in seeded.left_out) == ["outside", "pipe", "up"]
    assert seed_workspace(image, "/nowhere", tmp_path / "workspace", sweepable(wanted)).entries == 0


def test_a_working_directory_that_is_too_large_is_an_error(
    order: Callable[..., Order], base_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from pytest_codereval.sandbox.docker import archives

    image = images.image_for(order(image=base_image))
    monkeypatch.setattr(archives, "GRADING_LIMITS", dataclasses.replace(GRADING_LIMITS, entries=20))
    (tmp_path / "workspace").mkdir()
    with pytest.raises(TrialError, match="too much") as raised:
        seed_workspace(image, "/usr/share", tmp_path / "workspace", sweepable(order()))
    assert raised.value.cause is Cause.CONFIGURATION


def test_every_file_of_an_image_can_be_searched(order: Callable[..., Order], busybox_image: str) -> None:
    image = images.image_for(order(image=busybox_image))
    found = {path: (size, stream.read(4)) for path, size, stream in contents(image, sweepable(order()))}
    assert found["/etc/passwd"][1] == b"root"
    assert found["/bin/busybox"][1] == b"\x7fELF"
    assert found["/bin/busybox"][0] > 100_000
    with pytest.raises(TrialError, match="searched"):
        list(contents(image, sweepable(order()), most=1000))
