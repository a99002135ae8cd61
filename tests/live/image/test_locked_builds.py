"""Two locked builds against two states of an index, or of an apt mirror, install the same files.

The packages that a mirror has dropped are named.
"""

import functools
import hashlib
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result, make_command
from gpu_profile.engine.image_programs import read_image_file
from gpu_profile.errors import GateError
from gpu_profile.image import auto
from gpu_profile.image import build as image
from gpu_profile.image.build_log import BuildLog
from gpu_profile.image.downloads import Downloads
from gpu_profile.lock import file
from gpu_profile.lock.distribution_packages import (
    check_packages,
    record_packages,
    render_preferences,
)
from gpu_profile.lock.installed import PATH as MANIFEST
from gpu_profile.lock.python_index import find_target, make_index_environment
from gpu_profile.pins.resolvers import Tools, get_architecture
from gpu_profile.settings.settings import Settings, load_settings
from tests.image.checks import in_container
from tests.live.image.builds import PIP, PLAIN, ROOT, build, decide, why
from tests.live.image.wheel_index import add_package, make_index

pytestmark = [pytest.mark.image, pytest.mark.docker]
NAME = "gpu-profile-test-lock"
FIRST = {"torch": "1.0", "helper": "1.0", "numpy": "1.0", "nvtx": "9.0"}


class _Index(http.server.SimpleHTTPRequestHandler):
    """Pages without a date: pip keeps dated ones in its cache between two states."""

    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Last-Modified":
            super().send_header(keyword, value)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The index's directory, and its address."""
    directory = tmp_path / "index"
    make_index(directory, FIRST)
    handler = functools.partial(_Index, directory=str(directory))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield directory, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def move_on(directory: Path) -> None:
    """What a month does to an index: new versions, a rebuilt wheel of an old version, a removal."""
    for name in FIRST:
        add_package(directory, name, f"{FIRST[name]}.1")
    add_package(directory, "helper", "1.0", build="1", content="rebuilt")
    add_package(directory, "sympathy", "1.0")


def settings_of(directory: Path, url: str) -> Settings:
    words = ("INSTALL_TORCH=cpu", f"TORCH_URL={url}", "NVTX_VERSION=9.0", f"IMAGE={NAME}")
    options = "BUILD_OPTS=--network=host --target=torch --no-cache-filter=torch"
    return load_settings(directory / ".env", {}, (*PLAIN, *words, options))


def lock_settings(settings: Settings, downloads: Downloads) -> file.Lock:
    decided = process.drive(auto.decide_settings(settings)).settings

    def no_web(url: str) -> None:
        raise AssertionError(url)

    tools = Tools(
        fetch=no_web,  # type: ignore[arg-type]
        run=process.run,
        target=process.drive(find_target(decided.base_image, get_architecture())),
        index_environment=make_index_environment(downloads),
    )
    return file.resolve_lock(settings, decided, tools, lambda _: "")


def build_stage(chosen: Settings, downloads: Downloads) -> Result:
    decided = decide(chosen, PIP)
    options = image.BuildxOptions(root=ROOT, plain=True)
    return process.run(image.make_build_command(decided, downloads, options))


def build_files(chosen: Settings, downloads: Downloads) -> dict[str, str]:
    """Build, and return the SHA-256 of each file that the stage installed."""
    result = build_stage(chosen, downloads)
    log = BuildLog()
    for line in result.stderr.splitlines():
        log.feed(line)
    assert result.returncode == 0, why(log)
    script = "cd /out/usr && find . -type f -print0 | sort -z | xargs -0 sha256sum"
    listed = in_container(NAME, "sh", "-c", script).stdout.splitlines()
    return {path: digest for digest, _, path in (line.partition("  ") for line in listed)}


def test_the_same_files_of_two_states(
    embedded: None, index: tuple[Path, str], tmp_path: Path
) -> None:
    directory, url = index
    downloads = Downloads(pip_conf=f"[global]\nindex-url = {url}\n", ca_bundle="")
    settings = settings_of(tmp_path, url)
    written = file.parse_lock(file.render_lock(lock_settings(settings, downloads)))
    locked = file.apply_lock(settings, written)
    file.refuse_unlocked(process.drive(auto.decide_settings(locked)).settings)
    first = build_files(locked, downloads)
    assert any("helper-1.0.dist-info" in path for path in first)
    move_on(directory)
    assert build_files(locked, downloads) == first
    unlocked = build_files(settings, downloads)
    assert any("helper-1.0.1.dist-info" in path for path in unlocked)


def test_a_file_that_was_replaced_under_its_name_is_refused(
    embedded: None, index: tuple[Path, str], tmp_path: Path
) -> None:
    directory, url = index
    downloads = Downloads(pip_conf=f"[global]\nindex-url = {url}\n", ca_bundle="")
    settings = settings_of(tmp_path, url)
    locked = file.apply_lock(settings, lock_settings(settings, downloads))
    shutil.rmtree(directory / "helper")
    add_package(directory, "helper", "1.0", content="somebody else's")
    result = build_stage(locked, downloads)
    assert result.returncode != 0
    assert "HASH" in result.stderr.upper()


APT_NAME = "gpu-profile-test-apt"
_NSYS = "#!/bin/sh\\necho NVIDIA Nsight Systems version 2025.1.1\\n"


def add_deb(mirror: Path, version: str) -> None:
    """Add a package to a mirror. Epoch 9 is newer than the distribution's own."""
    tree = mirror.parent / f"deb-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    control = f"Package: libcap2-bin\nVersion: 9:{version}\nArchitecture: all\nMaintainer: test\n"
    control += "Description: stand-in\n"
    (tree / "DEBIAN/control").write_text(control)
    mirror.mkdir(exist_ok=True)
    deb = mirror / f"libcap2-bin_{version}_all.deb"
    built = process.run(make_command("dpkg-deb", "--root-owner-group", "-b", str(tree), str(deb)))
    assert built.returncode == 0, built.stderr
    content = deb.read_bytes()
    size = f"Size: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    (mirror / f"{version}.entry").write_text(f"{control}Filename: ./{deb.name}\n{size}\n")
    write_packages(mirror)


def drop_deb(mirror: Path, version: str) -> None:
    (mirror / f"{version}.entry").unlink()
    (mirror / f"libcap2-bin_{version}_all.deb").unlink()
    write_packages(mirror)


def write_packages(mirror: Path) -> None:
    entries = sorted(mirror.glob("*.entry"))
    (mirror / "Packages").write_text("".join(entry.read_text() for entry in entries))


def build_on_mirror(directory: Path, url: str, lock: file.Lock) -> str:
    """Build the smallest image on a base that has the mirror; return the image's manifest."""
    embedded = load_settings(directory / ".env", {}, ("BASE_IMAGE=embedded", *PLAIN[1:]))
    base = process.drive(auto.with_base(process.drive(auto.decide_settings(embedded))))
    lines = (
        f"FROM {base.settings.base_image}\nRUN echo 'deb [trusted=yes] {url}/ ./' >"
        f"/etc/apt/sources.list.d/x.list && printf '{_NSYS}' >/usr/local/bin/nsys &&"
        " chmod +x /usr/local/bin/nsys\n"
    )
    made = process.run(
        Command(
            argv=("docker", "build", "--network=none", f"--tag={APT_NAME}-base", "-"), stdin=lines
        )
    )
    assert made.returncode == 0, made.stderr
    words = (f"BASE_IMAGE={APT_NAME}-base", "NSYS_SOURCE=base", "INSTALL_MPI=false")
    options = "BUILD_OPTS=--network=host --no-cache-filter=base"
    preferences = render_preferences(lock)
    log = build(directory, APT_NAME, *words, options, apt_preferences=preferences)
    assert log is None, why(log)
    return process.drive(read_image_file(APT_NAME, str(MANIFEST)))


def test_two_states_of_an_apt_mirror(
    embedded: None, index: tuple[Path, str], tmp_path: Path
) -> None:
    directory, url = index
    add_deb(directory / "apt", "1")
    written = record_packages(build_on_mirror(tmp_path, f"{url}/apt", {}))
    add_deb(directory / "apt", "2")
    check_packages(APT_NAME, build_on_mirror(tmp_path, f"{url}/apt", written), written)
    drop_deb(directory / "apt", "1")
    with pytest.raises(GateError, match=r"libcap2-bin\S* is 9:2, was 9:1"):
        check_packages(APT_NAME, build_on_mirror(tmp_path, f"{url}/apt", written), written)


def requirements_of(directory: Path, *names: str) -> str:
    """A requirements file with the hash of each package's only file, as `pip-compile` writes it."""
    lines = []
    for name in names:
        (wheel,) = (directory / name).glob("*.whl")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name}=={FIRST[name]} \\\n    --hash=sha256:{digest}\n")
    return "".join(lines)


def test_a_requirements_file_with_hashes_is_installed_and_held_to_them(
    embedded: None, index: tuple[Path, str], tmp_path: Path
) -> None:
    directory, url = index
    downloads = Downloads(pip_conf=f"[global]\nindex-url = {url}\n", ca_bundle="")
    wanted = tmp_path / "requirements.txt"
    wanted.write_text(requirements_of(directory, "helper", "torch"))
    options = "BUILD_OPTS=--network=host --target=requirements --no-cache-filter=requirements"
    words = (*PLAIN, f"REQUIREMENTS={wanted}", f"IMAGE={NAME}", options)
    chosen = load_settings(tmp_path / ".env", {}, words)
    files = build_files(chosen, downloads)
    assert {"helper-1.0.dist-info", "torch-1.0.dist-info"} <= {
        Path(path).parent.name for path in files
    }
    shutil.rmtree(directory / "helper")
    add_package(directory, "helper", "1.0", content="somebody else's")
    refused = build_stage(chosen, downloads)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr
