"""What another user or job can leave where --output writes is neither followed nor replaced."""

import os
import shlex
import socket
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import files, process
from gpu_profile.analysis.pull_request.document import as_json
from gpu_profile.analysis.pull_request.figure import Figure
from gpu_profile.analysis.pull_request.result import CiResult
from gpu_profile.cli.table import VERBS
from gpu_profile.command import Result, make_command
from gpu_profile.errors import SettingsError
from tests.further import further, keep_first
from tests.invoked import argv, invoke
from tests.unit.verbs.small_report import make_small_report

WORDS = {
    "html": ("--report=rank0.sqlite",),
    "timeline": ("--report=rank0.sqlite",),
    "scrub": ("--report=rank0.sqlite",),
    "compare": ("--base=rank0.sqlite", "--new=new.sqlite"),
    "ci": ("--result=result.json",),
    "trace-file": ("json:loads",),
    "init": (),
}
STREAMS = ("compare", "trace-file", "ci")
"""Verbs whose result is a text: they write to a device or a FIFO as it is. The others refuse it."""
INSIDE = {
    "html": "page.html",
    "timeline": "timeline.perfetto-trace.gz",
    "compare": "comparison.txt",
    "trace-file": "functions.json",
}
"""The file that a verb writes into a folder."""
FILE = "output.sqlite"  # scrub takes other names for folders
ATTACKED = {
    "fifo": ("ci", "html", "scrub", "trace-file"),
    "device": ("init", "timeline", "compare"),
    "link": ("html", "init", "scrub", "timeline", "trace-file"),
    "link to a device": ("init", "scrub", "compare"),
    "directory": ("timeline", "scrub", "trace-file"),
    "drafts": ("ci", "html", "scrub", "timeline", "compare"),
    "/proc/x.sqlite": ("html", "trace-file"),
    "victim/x.sqlite": ("init", "scrub"),
}
"""The verbs that meet each attack. Each attack meets verbs that write in different ways."""
WAYS = {
    **dict.fromkeys(("ci", "compare", "trace-file"), "files.write_output"),
    **dict.fromkeys(("html", "init"), "files.write_atomically"),
    **{"timeline": "a draft", "scrub": "copies"},
}


FIGURE = Figure(metric="step", base_ms=(1.0, 1.0), new_ms=(1.0, 1.0), fail_over=5.0)


def meets(attack: str) -> pytest.MarkDecorator:
    """A verb that writes as an earlier one of the same attack does is left to CI."""
    ways = [WAYS[verb] for verb in ATTACKED[attack]]
    cases = [
        verb if ways.index(way) == number else further(verb)
        for number, (verb, way) in enumerate(zip(ATTACKED[attack], ways, strict=True))
    ]
    return pytest.mark.parametrize("verb", cases)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("rank0.sqlite", "new.sqlite"):
        (tmp_path / name).write_bytes(make_small_report())
    (tmp_path / "victim").write_text("own")
    (tmp_path / "result.json").write_text(as_json(CiResult(base="main", figures=(FIGURE,))))
    return tmp_path


def run(verb: str, place: Path, output: Path) -> Result:
    """Run the verb with this --output. It ends with 0, or with 2 and one line; nothing is lost."""
    done = invoke(verb, *WORDS[verb], f"--output={output}", directory=place)
    assert done.returncode in (0, 2), done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == (done.returncode == 2), done.stderr
    assert "Traceback" not in done.stderr
    assert (place / "victim").read_text() == "own"
    assert [path for path in place.rglob(".*.part") if not path.is_symlink()] == []
    return done


def test_every_verb_with_an_output_is_tried() -> None:
    verbs = {v.name for v in VERBS if "output" in {o.name for o in v.options}}
    assert verbs == set(WORDS) == {verb for attacked in ATTACKED.values() for verb in attacked}


def make_socket(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/socket")  # a socket's path has 107 bytes at most
        Path(folder, "socket").replace(path)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null
        path.read_bytes()
    except PermissionError:
        pytest.skip("no device can be made here: not root, or a file system mounted nodev")


def make_block_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(240, 99))  # of no driver
    except PermissionError:
        pytest.skip("no device can be made here: not root")


def identity(path: Path) -> tuple[int, int, int]:
    facts = path.lstat()
    return facts.st_mode, facts.st_ino, facts.st_rdev


@meets("fifo")
def test_a_fifo_stays_what_it_is(verb: str, place: Path) -> None:
    os.mkfifo(place / FILE)
    before = identity(place / FILE)
    assert run(verb, place, place / FILE).returncode == 2
    assert identity(place / FILE) == before


@meets("device")
def test_a_device_stays_what_it_is(verb: str, place: Path) -> None:
    make_device(place / FILE)
    before = identity(place / FILE)
    assert run(verb, place, place / FILE).returncode == (0 if verb in STREAMS else 2)
    assert identity(place / FILE) == before


@pytest.mark.parametrize("write", [files.write_output, files.write_atomically])
@pytest.mark.parametrize("make_node", [make_socket, make_block_device])
def test_a_socket_or_a_disk_stays_what_it_is(
    make_node: Callable[[Path], None], write: Callable[[Path, str], None], tmp_path: Path
) -> None:
    make_node(tmp_path / FILE)
    before = identity(tmp_path / FILE)
    with pytest.raises(SettingsError, match="is not a regular file"):
        write(tmp_path / FILE, "text")
    assert identity(tmp_path / FILE) == before
    assert len(list(tmp_path.iterdir())) == 1


@meets("link")
def test_a_link_is_never_written_through(verb: str, place: Path) -> None:
    output, target = place / FILE, "absent" if verb in ("html", "init") else "victim"
    output.symlink_to(target)
    done = run(verb, place, output)
    assert done.returncode == (2 if verb == "init" else 0), "init replaces nothing that is there"
    assert output.is_symlink() == (verb == "init")
    assert not (place / "absent").exists()


def check_refused(verb: str, place: Path, output: Path) -> None:
    """The verb refuses this --output, and no file has changed."""
    before = {path: path.read_bytes() for path in place.iterdir()}
    done = run(verb, place, output)
    line = f"error: {output} is a report to read, and would be lost. Name another place.\n"
    assert (done.returncode, done.stderr) == (2, line)
    assert {path: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.parametrize("verb", keep_first(2, ["html", "timeline", "compare", "scrub"]))
def test_a_report_that_is_read_stays(verb: str, place: Path) -> None:
    """By its name, and by a second name of the same file."""
    os.link(place / "rank0.sqlite", place / "other.sqlite")
    check_refused(verb, place, place / "rank0.sqlite")
    check_refused(verb, place, place / "other.sqlite")


@pytest.mark.parametrize("verb", ["html", "timeline", "compare"])
def test_the_recording_beside_a_report_stays(verb: str, place: Path) -> None:
    (place / "rank0.nsys-rep").write_text("recording")
    check_refused(verb, place, place / "rank0.nsys-rep")


@meets("link to a device")
def test_a_link_to_a_device_is_no_file(verb: str, place: Path) -> None:
    make_device(place / "device")
    (place / FILE).symlink_to("device")
    done = run(verb, place, place / FILE)
    assert done.returncode == (0 if verb in STREAMS else 2)
    assert (place / FILE).is_symlink()
    assert stat.S_ISCHR((place / "device").lstat().st_mode)


@meets("directory")
def test_a_directory_stays_and_so_does_one_inside_it(verb: str, place: Path) -> None:
    name = INSIDE.get(verb, "")
    (place / FILE / name).mkdir(parents=True)
    assert run(verb, place, place / FILE).returncode == 2
    assert (place / FILE / name).is_dir()


@meets("drafts")
def test_links_for_the_names_of_drafts_are_not_followed(verb: str, place: Path) -> None:
    """In a directory that every user may write to, as /tmp."""
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    names = (f".{FILE}.part", f"{FILE}.part", f".{FILE}", f"{FILE}.tmp", ".new-", "copy.sqlite")
    for name in (*names, f"{FILE}-journal", f"{FILE}-wal"):
        (shared / name).symlink_to(place / "victim")
    assert run(verb, place, shared / FILE).returncode == 0
    assert (shared / FILE).lstat().st_size > 0
    assert len(list(shared.iterdir())) == len(names) + 3


PLACES = ("/proc/x.sqlite", "victim/x.sqlite")


@pytest.mark.parametrize(
    ("verb", "output"),
    keep_first(2, [(verb, place) for place in PLACES for verb in ATTACKED[place]]),
)
def test_a_place_that_holds_no_files_is_one_line(verb: str, output: str, place: Path) -> None:
    done = run(verb, place, place / output)
    assert done.returncode == 2
    assert output.rpartition("/")[0] in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("write", [files.write_output, files.write_atomically])
def test_a_file_of_another_user_in_a_shared_directory_stays(
    write: Callable[[Path, str], None],
) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders admit one user alone
        Path(folder).chmod(0o1777)
        theirs = Path(folder) / "page.html"
        theirs.write_text("own")
        os.seteuid(65534)
        try:
            with pytest.raises(SettingsError, match=r"page\.html cannot be written: "):
                write(theirs, "new")
        finally:
            os.seteuid(0)
        assert list(Path(folder).iterdir()) == [theirs]
        assert theirs.read_text() == "own"


def test_a_log_that_the_shell_appends_to_keeps_its_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n")
    words = argv("trace-file", "json:loads", "--output=/dev/stdout", directory=tmp_path)
    line = f"{shlex.join(words)} >>{shlex.quote(str(log))}"
    done = process.run(make_command("sh", "-c", line))
    assert done.returncode == 0, done.stderr
    assert log.read_text().startswith("first\n")
    assert '"loads"' in log.read_text()
