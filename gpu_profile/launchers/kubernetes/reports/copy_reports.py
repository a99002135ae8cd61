"""Copy reports out of pods, compare their checksums, and name each report that is missing."""

import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Command, Steps, make_command
from gpu_profile.errors import ReportError
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import KubernetesCluster, Object, strip_address
from gpu_profile.kubernetes.pod_exec import NO_RUN, TRIES, ask_pod, execute_in_pod
from gpu_profile.launchers.agent.job_directory import Agent
from gpu_profile.launchers.kubernetes.reports import to_bucket

_SETTLE_S = 180
_PLANTED = 97
"""Exit code of a pod whose directory of the node was another's (node_directory.py)."""
# nsys may still write the report of a rank that mpirun or a signal has ended: wait up to 180 s for
# it. Process 1, the pod's own script, has the directory in its command line too: skip it. The nsys
# of an armed rank runs on, and its windows so far are whole.
_LIST = f"""cd "$1" || exit {NO_RUN}
for _ in $(seq {_SETTLE_S}); do
  ! ls windows/armed-* >/dev/null 2>&1 || break
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
cksum -- *.nsys-rep *.qdstrm *.steps.json *.pt.trace.json.gz 2>/dev/null
true"""
_EXPORT = f"""PATH=$PATH:{CARRIED_TO}/carrier/bin
umask 077
cd "$1" && for report in *.nsys-rep; do
  database=${{report%.nsys-rep}}.sqlite
  if [ -e "$report" ] && ! [ -s "$database" ]; then
    {{ nsys export --type=sqlite --include-blobs=true --output="$database.part" "$report" >&2 ||
        nsys export --type=sqlite --force-overwrite=true --output="$database.part" "$report" >&2
    }} && mv "$database.part" "$database"
  fi
done
cksum -- *.sqlite 2>/dev/null
true"""
_SUMS = 'cd "$1" && shift && cksum -- "$@" 2>/dev/null; true'
_KNOWN = 'cd "$1" && cksum -- rank*.* 2>/dev/null; true'
_FULL = ("no space left on device", "disk quota exceeded")
_NO_ROOM = "no space is left in"
_AGENT = Agent(python=sys.executable)
Sums = dict[str, str]
"""`CRC bytes` by file name, as cksum prints them.

https://pubs.opengroup.org/onlinepubs/9699919799/utilities/cksum.html
"""


def parse_sums(text: str, directory: str = "") -> Sums:
    """Return the checksums of cksum's lines by file name. Other lines are ignored."""
    checksums: Sums = {}
    for line in text.splitlines():
        crc, _, size_and_name = line.partition(" ")
        size, _, name = size_and_name.partition(" ")
        if crc.isdecimal() and size.isdecimal() and name and "/" not in name[len(directory) :]:
            checksums[name[len(directory) :]] = f"{crc} {size}"
    return checksums


def copy_reports(
    cluster: KubernetesCluster,
    pod: Object,
    directory: str,
    to: Path,
    *,
    bucket: str = "",
) -> Steps[str]:
    """Copy a pod's reports, and by way of a bucket if there is one.

    Returns what went wrong, or "".
    """
    listed = yield from ask_pod(cluster, pod, _LIST, directory)
    if listed.returncode == NO_RUN:
        return f"{pods.get_name(pod)} has no {directory}: it was made after the run began"
    if listed.returncode:
        reason = strip_address(listed)
        return f"{pods.get_name(pod)} cannot be read, and has its reports still: {reason}"
    checksums = parse_sums(listed.stdout)
    if checksums:
        exported = yield from ask_pod(cluster, pod, _EXPORT, directory)
        checksums |= parse_sums(exported.stdout)
    checksums = yield from _leave_out_known(checksums, to)
    if not bucket or not checksums:
        return (yield from _copy_whole(cluster, pod, directory, to, checksums))
    return (yield from _copy_by_bucket(cluster, pod, directory, to, checksums, bucket))


def _copy_whole(
    cluster: KubernetesCluster, pod: Object, directory: str, to: Path, checksums: Sums
) -> Steps[str]:
    """Copy files through kubectl until their checksums agree.

    A job that goes on replaces its file of step times each 5 s: that one is summed again.
    """
    for _ in range(TRIES):
        if not checksums:
            return ""
        names = tuple(sorted(checksums))
        tar = execute_in_pod(cluster, pod, "tar", "-C", directory, "-cf", "-", "--", *names)
        problem = yield from _unpack(tar, pod, to)
        checksums = yield from _list_damaged(checksums, to)
        if problem.startswith(_NO_ROOM):
            break
        if checksums:
            reply = yield from ask_pod(cluster, pod, _SUMS, directory, *sorted(checksums))
            checksums = yield from _list_damaged(checksums | parse_sums(reply.stdout), to)
    if not checksums:
        return ""
    return f"{', '.join(sorted(checksums))} of {pods.get_name(pod)} did not arrive whole: {problem}"


def _copy_by_bucket(
    cluster: KubernetesCluster,
    pod: Object,
    directory: str,
    to: Path,
    checksums: Sums,
    bucket: str,
) -> Steps[str]:
    """Have the pod send files to a bucket, and get them from there.

    What a pod cannot send, without a way to the bucket for example, comes by kubectl and is put
    there from here.
    """
    execute = functools.partial(execute_in_pod, cluster, pod)
    sizes = {name: int(total.partition(" ")[2]) for name, total in sorted(checksums.items())}
    unsent = yield from to_bucket.send_files(execute, directory, sizes, bucket)
    names = [name for name in sizes if name not in unsent]
    if names:
        yield from _unpack(to_bucket.call_bucket("get", bucket, *names), pod, to)
    damaged = yield from _list_damaged(checksums, to)
    problem = yield from _copy_whole(cluster, pod, directory, to, damaged)
    if problem or not damaged:
        return problem
    lost = yield from to_bucket.put_files(to, sorted(damaged), bucket)
    why = "".join(list(lost.values())[:1])
    return f"{', '.join(lost)} came here and not to {bucket}: {why}" if lost else ""


def _list_damaged(checksums: Sums, to: Path) -> Steps[Sums]:
    """Return the files that `to` lacks, or has with other checksums."""
    here = yield make_command("cksum", *(f"{to}/{name}" for name in sorted(checksums)))
    got = parse_sums(here.stdout, f"{to}/")
    return {name: total for name, total in checksums.items() if got.get(name) != total}


def _leave_out_known(checksums: Sums, to: Path) -> Steps[Sums]:
    """Return what `to` lacks. A report may have another rank's number there: see number_reports.

    Each window of a job that goes on is fetched once.
    """
    if not checksums:
        return {}
    here = yield make_command("sh", "-c", _KNOWN, "gpu-profile", str(to))
    sums_here = {(_drop_rank(name), total) for name, total in parse_sums(here.stdout).items()}
    return {
        name: total
        for name, total in checksums.items()
        if (_drop_rank(name), total) not in sums_here
    }


def _drop_rank(name: str) -> str:
    """Return `node1.3.nsys-rep` of `rank0.node1.3.nsys-rep`."""
    return name.partition(".")[2]


def _unpack(tar: Command, pod: Object, to: Path) -> Steps[str]:
    """Unpack what a command writes as a tar. Returns the last message of what failed.

    kubectl cp follows no links, and has shortened files without an error.
    """
    archive = to / f".{pods.get_name(pod)}.tar"
    sent = yield Command(argv=tar.argv, stdout_file=archive, stdout_partial=True)
    unpacked = yield _AGENT.call("job.py", "unpack", "--exports", str(archive), str(to))
    # kubectl 1.33 exits with 0 when it cannot write its output.
    if any(word in f"{sent.stderr}{unpacked.stderr}".lower() for word in _FULL):
        return f"{_NO_ROOM} {to}"
    return sent.last_line if sent.returncode else unpacked.last_line


def collect_from_pods(
    cluster: KubernetesCluster,
    job_pods: Sequence[Object],
    directory: str,
    to: Path,
    missing: Sequence[str],
    host_path: str = "",
    bucket: str = "",
) -> Steps[None]:
    """Copy the reports of every pod that still runs.

    `host_path` is the directory of each node that has them too, if any, and `bucket` the place in
    S3 that they take their way by. Raises ReportError that names each missing report and why.
    Reports that did arrive stay in `to`.
    """
    lost = [*missing, *_list_unreadable(job_pods, host_path)]
    live = [pod for pod in job_pods if pods.is_running(pod)]
    empty: list[str] = []
    for pod in live:
        problem = yield from copy_reports(cluster, pod, directory, to, bucket=bucket)
        (empty if directory in problem else lost).extend([problem] if problem else [])
    if len(empty) < len(live):  # no pod has the directory: the run had not begun
        lost += empty
    if lost:
        hint = f"{to} holds those that could"
        if not host_path:
            hint += "; --report-to keeps reports apart from pods"
        if any(_NO_ROOM in problem for problem in lost):
            hint = f"Make room; `invoke fetch --job {to.name}` goes on: the pods have them still"
        raise ReportError(f"not every report could be fetched: {'; '.join(lost)}", hint)


def _list_unreadable(job_pods: Sequence[Object], host_path: str) -> Iterator[str]:
    for pod in job_pods:
        code = (pods.get_termination(pod) or {}).get("exitCode")
        # Without a directory of the node 97 is the program's own, and its reports are lost.
        has_refused = bool(host_path) and code == _PLANTED
        if not has_refused and not pods.is_running(pod):
            end = pods.describe_ending(pod) or pods.get_phase(pod).lower()
            node = pods.get_node(pod) or "no node"
            there = f"; {node} has its reports in {host_path}" if host_path else ""
            yield f"{pods.get_name(pod)} on {node} cannot be read ({end}){there}"
