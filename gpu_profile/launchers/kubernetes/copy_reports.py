"""Bring reports out of pods: whole, checked, and never silently fewer than there were."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu_profile.command import Command, Result, Steps, make_command
from gpu_profile.errors import ReportError
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import KubernetesCluster, Object, strip_address
from gpu_profile.launchers.agent.job_directory import Agent

_TRIES = 4
_PAUSE_S = 1
_SETTLE_S = 180
_NO_RUN = 96
"""Exit code where the run never came to this pod."""
# nsys outlives a rank that mpirun or a signal ended: it is still writing that rank's report.
# Process 1 is the pod's own script, which names the directory too.
_LIST = f"""cd "$1" || exit {_NO_RUN}
for _ in $(seq {_SETTLE_S}); do
  busy=
  for process in /proc/[0-9]*; do
    [ "$process" != /proc/1 ] || continue
    case "$(tr '\\0' ' ' 2>/dev/null <"$process/cmdline")" in
      *"--output=$1/"* | *"--output=$1 "* | *"$1/"*.qdstrm*) busy=1 ;;
    esac
  done
  [ "$busy" ] || break
  sleep 1
done
cksum -- *.nsys-rep *.qdstrm 2>/dev/null
true"""
_EXPORT = """cd "$1" && for report in *.nsys-rep; do
  database=${report%.nsys-rep}.sqlite
  if [ -e "$report" ] && ! [ -e "$database" ]; then
    { nsys export --type=sqlite --include-blobs=true --output="$database.part" "$report" >&2 ||
        nsys export --type=sqlite --force-overwrite=true --output="$database.part" "$report" >&2
    } && mv "$database.part" "$database"
  fi
done
cksum -- *.sqlite 2>/dev/null
true"""
_AGENT = Agent(python=sys.executable)
Sums = dict[str, str]
"""`CRC bytes` of files by name, as POSIX cksum prints them."""


def get_container_name(pod: Object) -> str:
    """The first one: what operators give its part of the job to."""
    return str(pod["spec"]["containers"][0]["name"])


def execute_in_pod(cluster: KubernetesCluster, pod: Object, *argv: str) -> Command:
    return cluster.kubectl(
        "exec",
        pods.get_name(pod),
        f"--container={get_container_name(pod)}",
        "--",
        *argv,
        namespace=pod["metadata"]["namespace"],
    )


def run_shell_in_pod(cluster: KubernetesCluster, pod: Object, script: str, *words: str) -> Command:
    return execute_in_pod(cluster, pod, "sh", "-c", script, "gpu-profile", *words)


def ask_pod(cluster: KubernetesCluster, pod: Object, script: str, *words: str) -> Steps[Result]:
    """What a script of ours says in a pod: again where kubectl's connection was cut meanwhile."""
    for tries_left in reversed(range(_TRIES)):
        result = yield run_shell_in_pod(cluster, pod, script, *words)
        if result.returncode in (0, _NO_RUN) or "orbidden" in result.stderr or not tries_left:
            break
        yield cluster.pause(_PAUSE_S)
    return result


def parse_sums(text: str, directory: str = "") -> Sums:
    """cksum's lines by file name; other lines are none of its."""
    checksums: Sums = {}
    for line in text.splitlines():
        crc, _, rest = line.partition(" ")
        size, _, name = rest.partition(" ")
        if crc.isdecimal() and size.isdecimal() and name and "/" not in name[len(directory) :]:
            checksums[name[len(directory) :]] = f"{crc} {size}"
    return checksums


def copy_reports(
    cluster: KubernetesCluster, pod: Object, directory: str, to: Path, *, export: bool = True
) -> Steps[str]:
    """Copy a pod's reports; returns what went wrong, empty where nothing did."""
    listed = yield from ask_pod(cluster, pod, _LIST, directory)
    if listed.returncode == _NO_RUN:
        return f"{pods.get_name(pod)} has no {directory}: it was made after the run began"
    if listed.returncode:
        reason = strip_address(listed)
        return f"{pods.get_name(pod)} cannot be read, and has its reports still: {reason}"
    checksums = parse_sums(listed.stdout)
    if checksums and export:
        exported = yield from ask_pod(cluster, pod, _EXPORT, directory)
        checksums |= parse_sums(exported.stdout)
    for _ in range(_TRIES):
        if not checksums:
            return ""
        problem = yield from _copy_files(cluster, pod, directory, to, tuple(sorted(checksums)))
        here = yield make_command("cksum", *(f"{to}/{name}" for name in sorted(checksums)))
        got = parse_sums(here.stdout, f"{to}/")
        checksums = {name: total for name, total in checksums.items() if got.get(name) != total}
    if not checksums:
        return ""
    return f"{', '.join(sorted(checksums))} of {pods.get_name(pod)} did not arrive whole: {problem}"


def _copy_files(
    cluster: KubernetesCluster, pod: Object, directory: str, to: Path, names: Sequence[str]
) -> Steps[str]:
    """One stream through `exec`: kubectl cp follows no links and has cut files short in silence."""
    archive = to / f".{pods.get_name(pod)}.tar"
    tar = execute_in_pod(cluster, pod, "tar", "-C", directory, "-cf", "-", "--", *names)
    sent = yield Command(argv=tar.argv, stdout_file=archive, stdout_partial=True)
    unpacked = yield _AGENT.call("job.py", "unpack", "--exports", str(archive), str(to))
    return sent.said if sent.returncode else unpacked.said


def collect_from_pods(
    cluster: KubernetesCluster,
    found: Sequence[Object],
    directory: str,
    to: Path,
    missing: Sequence[str],
) -> Steps[None]:
    """Copy from every pod that can still be read, then say what could not be had, and why.

    Raises ReportError that names each loss. What did arrive stays in `to`.
    """
    lost = [*missing, *_list_unreadable(found)]
    live = [pod for pod in found if pods.is_running(pod)]
    empty: list[str] = []
    for pod in live:
        problem = yield from copy_reports(cluster, pod, directory, to)
        (empty if directory in problem else lost).extend([problem] if problem else [])
    if len(empty) < len(live):  # where no pod has it, nothing was recorded yet
        lost += empty
    if lost:
        raise ReportError(
            f"not every report could be fetched: {'; '.join(lost)}",
            f"{to} holds those that could; KUBE_PVC keeps reports apart from pods",
        )


def _list_unreadable(found: Sequence[Object]) -> Iterator[str]:
    for pod in found:
        if not pods.is_running(pod):
            end = pods.describe_ending(pod) or pods.get_phase(pod).lower()
            node = pods.get_node(pod) or "no node"
            yield f"{pods.get_name(pod)} on {node} cannot be read ({end})"
