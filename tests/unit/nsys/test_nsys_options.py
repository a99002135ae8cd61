"""nsys' options: which ones, in which nsys' spelling."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile.command import Result
from gpu_profile.job import PRESETS, ProfileSpec
from gpu_profile.nsys import export
from gpu_profile.nsys import options as nsys
from gpu_profile.nsys.help import TYPICAL_HELP, list_values, parse_options

HELP = Path(__file__).parents[2] / "data" / "nsys-help"
OLD = (HELP / "2023.4.txt").read_text()
RECENT = (HELP / "recent.txt").read_text()
ASKED = ProfileSpec(
    trace="cuda,nvtx",
    sample="process-tree",
    capture_range="cudaProfilerApi",
    capture_range_end="repeat:3",
    delay_s=1.5,
    python_functions_trace=Path("functions.json"),
    nvtx_domain_include="default,NCCL",
    cuda_graph_trace="node",
    gpu_metrics=True,
    nic_metrics=True,
    stats=True,
    export="sqlite",
    nsys_args=("--cuda-memory-usage=true", "-d", "30"),
)


def lines() -> Iterator[str]:
    """Every preset on every nsys, with and without GPUs."""
    for version, help_text in (("2023.4", OLD), ("recent", RECENT), ("typical", TYPICAL_HELP)):
        for preset in PRESETS:
            for gpus in (True, False):
                yield f"{version}, {preset}, {'GPUs' if gpus else 'no GPU'}:"
                yield from shown(ProfileSpec(preset=preset), help_text, gpus=gpus)
        yield f"{version}, armed:"
        yield from shown(ProfileSpec(record="manual"), help_text, gpus=True)
        yield f"{version}, everything asked for by name:"
        yield from shown(ASKED, help_text, gpus=True)


def shown(spec: ProfileSpec, help_text: str, *, gpus: bool) -> Iterator[str]:
    options = nsys.profile_options(spec, help_text, gpus=gpus)
    first = nsys.first_options(spec, help_text, gpus=gpus, efa=True)
    yield f"  {' '.join(options)}"
    yield f"  first: {' '.join(first)}" if first else "  first: nothing"
    kinds = ", ".join(sorted(nsys.expected_kinds(spec, options, gpus=gpus)))
    yield f"  must hold {kinds}; privileges: {nsys.needs_privileges((*options, *first))}"


def test_options(golden: Callable[[str, str], None]) -> None:
    golden("nsys-options.txt", "\n".join(lines()) + "\n")


def test_help_is_read_with_short_and_twofold_names() -> None:
    has = parse_options(OLD)
    assert {"trace", "t", "nvtx-domain-include", "nvtx-domain-exclude", "ftrace"} <= set(has)
    assert has["t"] == has["trace"] != has["sample"]
    assert list_values(has, "capture-range") == ("none", "cudaProfilerApi", "nvtx", "hotkey")


@pytest.mark.parametrize(
    "text",
    [
        "   Possible values are 'a', 'b-c' or 'none'.\n   Select the API. Default is 'd'.",
        "   Possible values are a, b-c, none.\n   When 'd' is used, it starts.",
        "   Possible formats are: a b-c none\n   Create more files.",
    ],
)
def test_values_as_the_versions_write_them(text: str) -> None:
    assert list_values({"x": f"--x=\n\n{text}"}, "x") == ("a", "b-c", "none")


def test_an_armed_job_keeps_the_graphs_that_the_user_or_serve_asks_for() -> None:
    options = nsys.profile_options(ProfileSpec(record="manual", cuda_graph_trace="graph"), OLD)
    serve = nsys.profile_options(ProfileSpec(record="manual", preset="serve"), OLD)
    assert "--cuda-graph-trace=graph" in options
    assert "--cuda-graph-trace=node:host-only" in serve
    assert not [word for word in (*options, *serve) if "flush-on-cudaprofilerstop" in word]


def test_a_recorded_window_leaves_the_job_running() -> None:
    spec = ProfileSpec(duration_s=20)
    assert "--kill=none" in nsys.profile_options(spec, OLD)
    assert "--kill=none" not in nsys.profile_options(ProfileSpec(), OLD)


def test_shutdown_that_was_asked_for_ends_the_job() -> None:
    spec = ProfileSpec(capture_range="nvtx", capture_range_end="stop-shutdown")
    options = nsys.profile_options(spec, OLD)
    assert "--capture-range-end=stop-shutdown" in options
    assert "--kill=none" not in options


def test_a_window_takes_the_software_trace_where_there_is_one() -> None:
    spec = ProfileSpec(duration_s=20)
    assert "--trace=cuda-sw,nvtx" in nsys.profile_options(spec, RECENT)
    assert "--trace=cuda,nvtx" in nsys.profile_options(ProfileSpec(), RECENT)


def test_own_words_replace_ours_by_either_name() -> None:
    spec = ProfileSpec(nsys_args=("-t", "osrt", "--sample=process-tree"))
    options = nsys.profile_options(spec, OLD)
    assert options[-3:] == spec.nsys_args
    assert not [word for word in options[:-3] if word.startswith(("--trace", "--sample"))]


def test_the_samples_window_needs_a_gpu_and_no_other_window() -> None:
    light = ProfileSpec()
    assert nsys.sample_window(light, gpus=True).capture_range == "cudaProfilerApi"
    assert nsys.sample_window(light, gpus=False) is light
    assert nsys.sample_window(ProfileSpec(delay_s=0), gpus=True).capture_range == ""


def test_events_asked_for_by_name_are_all_expected() -> None:
    spec = ProfileSpec(trace="nvtx,osrt,cuda,openacc")
    options = ("--trace=nvtx,osrt,cuda,openacc",)
    assert nsys.expected_kinds(spec, options, gpus=True) == {"nvtx", "osrt", "cuda"}
    assert nsys.expected_kinds(spec, options, gpus=False) == {"nvtx", "osrt"}


def test_export_goes_where_it_is_told_to() -> None:
    output = Path("/r/.new-1/rank0.a.b.sqlite")
    command = export.export_command(("nsys",), Path("/r/rank0.a.b.nsys-rep"), output)
    assert command.argv[-2:] == (f"--output={output}", "/r/rank0.a.b.nsys-rep")
    assert "--include-blobs=true" in command.argv


def test_an_nsys_without_payloads_exports_without_them() -> None:
    command = export.export_command(("nsys",), Path("/r/rank0.a.b.nsys-rep"), Path("/r/x.sqlite"))
    refusal = Result(returncode=1, stderr="unrecognised option '--include-blobs=true'\n\nusage:")
    plain = export.without_blobs(command, refusal)
    assert plain
    assert plain.argv == tuple(word for word in command.argv if "blobs" not in word)
    damaged = Result(returncode=1, stderr="The file is damaged")
    assert export.without_blobs(command, damaged) is None
    assert export.without_blobs(command, Result(returncode=0)) is None


def test_a_server_s_windows_come_again_and_hold_what_it_forks() -> None:
    spec = nsys.endpoint_windows(ProfileSpec(record="endpoint"))
    options = set(nsys.profile_options(spec, OLD))
    assert options >= {
        *("--capture-range=cudaProfilerApi", "--capture-range-end=repeat", "--kill=none"),
        "--trace-fork-before-exec=true",
    }
