"""A directory of the node that somebody made before the job is refused in one line."""

import sys
from pathlib import Path

import pytest
from node_directory import refuse_planted
from rank_call import RefusedError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pods run Linux")
POD = "5 1 8:1 /var/lib/kubelet/pods/6f0c/etc-hosts /etc/hosts rw - ext4 /dev/vda1 rw\n"


def refuse(output: Path, shown: str, others: str = POD) -> None:
    """Ask of a run's directory that shows `shown` of the node."""
    mounts = output.with_name("mountinfo")
    mounts.write_text(f"{others}7 1 8:1 {shown} {output} rw - ext4 /dev/vda1 rw\n")
    refuse_planted(output, mounts)


def test_a_directory_of_the_node_is_the_pods_own(tmp_path: Path) -> None:
    output = tmp_path / "train-1"
    output.mkdir(mode=0o755)
    refuse(output, "/tmp/train-1")
    with pytest.raises(RefusedError, match=r"train-1 is a link to /etc on this node: remove it"):
        refuse(output, "/etc")
    output.chmod(0o777)
    with pytest.raises(RefusedError, match=r"is /tmp/train-1 on this node, where anoth") as refusal:
        refuse(output, "/tmp/train-1")
    assert refusal.value.code == 97  # the fetch knows it, too


def test_no_other_directory_is_looked_at(tmp_path: Path) -> None:
    """Docker mounts the run's directory, which is the user's own, to a container's root."""
    output = tmp_path / "train-1"
    output.mkdir()
    output.chmod(0o777)
    refuse(output, "/home/user/train-1", "5 1 8:1 /docker/containers/6f/hosts /etc/hosts rw\n")
    (tmp_path / "mountinfo").write_text(POD)
    refuse_planted(output, tmp_path / "mountinfo")
    refuse_planted(output, tmp_path / "none")
