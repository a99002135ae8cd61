"""Which nsys of a machine is used: fakes in folders laid out as NVIDIA and distributions do."""

from collections.abc import Callable
from pathlib import Path

import find_nsys
import pytest
from find_nsys import Nsys


def fake(path: Path, version: str, importer: bool = True) -> Path:
    """A program that says its version. ELF files are told from scripts by their first bytes."""
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho NVIDIA Nsight Systems version {version}\n")
    path.chmod(0o755)
    if importer:
        beside = path.parent.parent / "host-linux-x64" / "QdstrmImporter"
        beside.parent.mkdir()
        beside.write_text("")
    return path


@pytest.mark.parametrize(
    ("places", "chosen"),
    [
        ((("a", "2023.4.4.54-1v0", "i"), ("b", "2025.3.1.90-2v0", "i")), "b"),
        ((("a", "2025.10.1", "i"), ("b", "2025.9.9", "i")), "a"),
        ((("a", "2023.4.4", "i"), ("b", "2025.3.1", "")), "a"),
        ((("a", "2023.4.4", ""), ("b", "2025.3.1", "")), "b"),
        ((("first", "2025.3.1", "i"), ("b", "2025.3.1", "i")), "first"),
    ],
)
def test_the_newest_that_can_import_wins(
    places: tuple[tuple[str, str, str], ...], chosen: str
) -> None:
    copies = [Nsys(path, "PATH", version, importer) for path, version, importer in places]
    best = find_nsys.choose_copy(copies)
    assert best is not None
    assert best.path == chosen


def test_none_is_none() -> None:
    assert find_nsys.choose_copy([]) is None


def test_the_order_of_places() -> None:
    places = [origin for origin, _ in find_nsys.list_patterns(False, {"CUDA_HOME": "/opt/cuda"})]
    assert list(dict.fromkeys(places)) == [
        "nsight-systems",
        "cuda",
        "nsight-compute",
        "distribution",
    ]


def test_windows_places_need_no_posix_path() -> None:
    patterns = find_nsys.list_patterns(
        True, {"ProgramFiles": r"D:\Programs", "CUDA_PATH": r"D:\CUDA"}
    )
    assert patterns[0][1] == (
        r"D:\Programs\NVIDIA Corporation\Nsight Systems *\target-windows-x64\nsys.exe"
    )
    assert patterns[-1] == ("cuda", r"D:\CUDA\bin\nsys.exe")
    assert not any("/" in pattern for _, pattern in patterns)


def test_a_named_one_wins_and_is_the_only_one(tmp_path: Path) -> None:
    path = fake(tmp_path / "target-linux-x64" / "nsys", "2024.1.1")
    assert [copy.version for copy in find_nsys.find_copies(str(path))] == ["2024.1.1"]
    assert find_nsys.find_copies("/nowhere/nsys") == []


def test_a_copy_without_importer_is_used_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "target-linux-x64" / "nsys"
    path.parent.mkdir()
    path.write_bytes(b"\x7fELF")
    assert find_nsys.find_importer(path) == ""
    assert "WARNING" in find_nsys.describe_copy(Nsys(str(path), "nsight-compute", "2025.3.1"))


def test_nsight_computes_importer_lies_in_a_folder_of_another_name(tmp_path: Path) -> None:
    path = tmp_path / "host" / "target-linux-x64" / "nsys"
    importer = tmp_path / "host" / "linux-desktop-glibc_2_11_3-x64" / "QdstrmImporter"
    for file in (path, importer):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\x7fELF")
    assert find_nsys.find_importer(path) == str(importer)


def test_an_importer_that_lacks_a_library_is_none_and_the_library_is_named(tmp_path: Path) -> None:
    importer = tmp_path / "QdstrmImporter"
    importer.write_text(
        "#!/bin/sh\necho 'QdstrmImporter: error while loading shared libraries: libdw.so.1:'"
        " 'cannot open shared object file' >&2\nexit 127\n"
    )
    importer.chmod(0o755)
    assert find_nsys._lacking(str(importer)) == "libdw.so.1"
    copy = Nsys("nsys", "nsight-compute", "2025.3.1", "", "libdw.so.1")
    assert "its importer lacks libdw.so.1" in find_nsys.describe_copy(copy)


def test_debians_split_layout_has_an_importer(tmp_path: Path) -> None:
    path = tmp_path / "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64/nsys"
    host = tmp_path / "usr/lib/nsight-systems/host-linux-x64/QdstrmImporter"
    for file in (path, host):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\x7fELF")
    assert find_nsys.list_importers([Nsys(str(path), "distribution")]) == [str(host)]


def test_none_here_exits_3_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find_nsys, "_candidates", lambda: iter(()))
    assert find_nsys.main([]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_arguments_go_to_the_chosen_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], fake_tool: Callable[..., object]
) -> None:
    path = fake(tmp_path / "x" / "nsys", "2024.1.1", importer=False)
    assert find_nsys.main([f"--nsys={path}", "profile", "--help"]) == 0
    assert "2024.1.1" in capfd.readouterr().out
