"""ci as a user types it, up to what runs; and the judgement of pairs of recorded runs."""

import functools
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.errors import ReportError
from gpu_profile.verbs.pull_request.judge import judge_pairs
from tests.further import keep_first
from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank
from tests.unit.settings_for import settings_for

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.com")


def git(folder: Path, *words: str) -> None:
    subprocess.run(("git", *AUTHOR, "-C", str(folder), *words), check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a base, tagged, and a change of train.py after it."""
    folder = tmp_path_factory.mktemp("code")
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "train.py").write_text("print(1)\n")
    (folder / ".gitignore").write_text(".env\nruns\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=base")
    git(folder, "switch", "--quiet", "--create=change")
    (folder / "made").mkdir()
    (folder / "train.py").write_text("print(2)\n")
    git(folder, "commit", "--quiet", "--all", "--message=change")
    (folder / ".env").write_text(f"REPORT_DIR={folder}/runs\n")
    return folder


@pytest.mark.parametrize(
    ("words", "code", "said"),
    keep_first(
        5,
        [
            ("--", 2, "ci needs a base to compare with. Use --base main"),
            ("-- x", 2, "ci needs a base to compare with. Use --base main"),
            ("--base main --base-image a:1 -- x", 2, "ci compares with one base"),
            ("--base main", 2, "ci needs the program to run. Write its command after --"),
            ("--base main --pairs 2 -- x", 2, "--pairs 2 is too small. Use 3 or more"),
            ("--base main --pairs x -- x", 2, "--pairs"),
            ("--base main --fail-over much -- x", 2, "--fail-over 'much'"),
            ("--base gone -- x", 2, "git knows no such commit. `git fetch origin gone`"),
            ("--base --output=x -- x", 2, "git knows no such commit"),
            ("--base-dir gone -- x", 2, "there is no such directory"),
            (
                "--base main -- python3 {here}/train.py",
                2,
                "which is the change's file in both runs",
            ),
            (
                "--base main --dry-run -- python3 {here}/train.py",
                2,
                "the change's file in both runs",
            ),
            ("--base main --workdir /usr -- x", 2, "so both sides run the same code"),
            ("--base main --workdir made -- x", 2, "made is not in the base, main ("),
            ("--base main -- x", 2, "runs does not exist. Create it, or set another"),
            ("--result gone.json", 6, "--result gone.json: No such file"),
            ("--result train.py", 6, "the file is not a result of ci"),
        ],
    ),
)
def test_what_cannot_be_judged_is_refused(
    repository: Path, words: str, code: int, said: str
) -> None:
    argv = ["--on=host", *words.format(here=repository).split()]
    done = invoke("ci", *argv, directory=repository)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
    assert not (repository / "runs").exists()
    assert not (repository / ".git" / "gpu-profile").exists()


def test_a_plan_shows_both_sides_and_their_directories(repository: Path) -> None:
    environment = repository / ".venv"
    environment.mkdir(exist_ok=True)
    (environment / "pyvenv.cfg").touch()
    shown = invoke(
        *("ci", "--dry-run", "--base=main", "--on=host", "--workdir=.", "--env=A=b", "--"),
        *("python3", "train.py"),
        directory=repository,
    ).stdout
    base = repository / ".git" / "gpu-profile"
    assert shown.startswith(f"git -c core.hooksPath=/dev/null -C {repository} worktree add")
    (first, second) = (part.split("\n")[0] for part in shown.split('"cwd": "')[1:])
    assert first.startswith(f"{base}/base-")
    assert second.startswith(".")
    assert f"ln -s {environment} {base}/base-" in shown
    assert "# the base, 6 times, in turns with the other" in shown
    assert f"worktree remove --force {base}/base-" in shown.splitlines()[-1]
    assert not base.exists()
    (of_base, of_change) = (
        line
        for line in invoke(
            *("ci", "--dry-run", "--base=main", "--on=docker", "--", "python3", "train.py"),
            directory=repository,
        ).stdout.splitlines()
        if line.startswith("docker run --detach")
    )
    assert f",source={base}/base-" in of_base
    assert f",source={repository},target={repository} " in of_change
    for line in (of_base, of_change):  # the command finds the same paths
        assert f",target={repository} --workdir={repository} " in line


def test_the_base_of_a_killed_process_is_removed(repository: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(("true",))
    process.wait()
    below = repository / ".git" / "gpu-profile"
    left, used = below / f"base-aaa-{process.pid}", below / "base-aaa-1"
    for folder in (left, used):
        git(repository, "worktree", "add", "--quiet", "--detach", str(folder), "main")
    words = ("--base=main", "--on=host", f"--set=REPORT_DIR={tmp_path}", "--set=NSYS=/gone/nsys")
    done = invoke("ci", *words, "--", "true", directory=repository)
    assert done.returncode == 3, done.stderr
    assert f"note: removed {left}, the base of a ci that was killed" in done.stderr
    assert list(below.iterdir()) == [used]
    git(repository, "worktree", "remove", str(used))
    below.rmdir()


def test_without_a_repository_a_directory_is_the_base(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    words = ("ci", "--dry-run")
    done = invoke(*words, "--on=host", "--base=main", "--", "x", directory=tmp_path / "new")
    assert done.returncode == 2
    assert "this is not a git repository" in done.stderr
    done = invoke(
        *words, "--on=host", f"--base-dir={tmp_path}/old", "--", "x", directory=tmp_path / "new"
    )
    assert done.returncode == 0, done.stderr
    assert f'"cwd": "{tmp_path}/old"' in done.stdout
    done = invoke(*words, "--base-dir=~", "--on=docker", "--", "x", directory=tmp_path / "new")
    assert (done.returncode, "is the home directory" in done.stderr) == (2, True)
    done = invoke(*words, "--base-image=a:1", "--on=docker", "--", "x", directory=tmp_path / "new")
    assert "a:1" in done.stdout


def cast(rank: Rank) -> None:
    rank.kernel(400, "void cast<float>(T|x)")
    rank.item()
    rank.work(2000)


def save_runs(folder: Path, side: str, training: Training) -> list[Path]:
    """Three runs, whose kernels take 0.2 % more each time."""
    places = [folder / f"{side}-{pair}" for pair in range(3)]
    for pair, place in enumerate(places):
        place.mkdir()
        kernel_us = training.kernel_us * (1 + pair / 500)
        replace(training, kernel_us=kernel_us).record().save(place / "rank0.host.sqlite")
    return places


def test_pairs_of_runs_tell_the_kernel_and_the_finding(tmp_path: Path) -> None:
    usual = Training(ranks=1, steps=8)
    base = save_runs(tmp_path, "base", usual)
    slower = save_runs(tmp_path, "new", replace(usual, after=cast))
    judge = functools.partial(
        judge_pairs, settings=settings_for(), title="main", fail_over="5%", fail_over_gpu="1%"
    )
    result = judge(base, slower)
    gpu, wall = result.figures
    assert gpu.verdict == "regression"
    assert gpu.difference is not None
    assert gpu.difference.change == pytest.approx(0.05, abs=0.004)
    assert gpu.difference.noise < 0.001 < wall.mean_ms[1] - wall.mean_ms[0]
    assert str(result.kernels) == "kernels that appeared: 1, that vanished: 0"
    changes = {change.name: change for change in result.changes}
    assert changes["void cast<float>(T|x)"].cause == "appeared, 1 a step"
    assert changes["void cast<float>(T|x)"].ms == pytest.approx(0.4)
    findings = {change.name for change in result.changes if change.kind == "finding"}
    assert findings == {"idle", "synchronization"}
    assert changes["idle"].base_ms == 0
    assert changes["idle"].ms == pytest.approx(2, abs=0.1)
    again = judge(base, save_runs(tmp_path, "same", replace(usual, host_us=4.1)))
    assert (again.verdict, again.changes) == ("pass", ())
    with pytest.raises(ReportError, match="hold the same recording"):
        judge([*base[:2], base[0]], slower)
