"""The trials of scripts/try_on_aws.py that need a cluster, in order, on one of this machine.

Nodes with GPUs, EFA, hugepages and 192 GiB are out of reach, and so is NVIDIA's chart. The
scheduler is told of GPUs and EFA, a kubectl before the real one leaves hugepages and memory out of
jobs, the benchmark prints what it printed elsewhere, the training runs on CPUs, and the chart
beside this file stands in.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command
from gpu_profile.settings.places import ROOT
from tests.live.kubernetes.conftest import derived, kubectl, must
from tests.live.registry.conftest import ecr_api, moto  # noqa: F401 - fixtures

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry),
    *(pytest.mark.alone, pytest.mark.slow),
]
CHART = Path(__file__).parent / "injector-stand-in"
RECORDED = ROOT / "tests" / "data" / "nccl-tests-all_reduce_perf-h200x4.txt"
BENCHMARK = f"""\
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
echo 'node-1:1:1 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 1 nics)'
echo 'node-1:1:1 [0] NCCL INFO Using network Libfabric'
cat /{RECORDED.name}
"""
KUBECTL = """
case " $* " in
  *" create --filename=- "*) sed '/hugepages-2Mi/d; /memory: [0-9]*Gi/d' | exec {real} "$@" ;;
  *) exec {real} "$@" ;;
esac
"""


@pytest.mark.usefixtures("operators", "gpus_for_the_scheduler", "ecr_api")
def test_the_trials_of_a_cluster_in_order(
    image: str,
    registry_address: str,
    fake_tool: Callable[..., Callable[[], list[list[str]]]],
    require: Callable[[str, object], None],
    tmp_path: Path,
) -> None:
    require("kubernetes", not shutil.which("helm") and "helm is not installed")
    (tmp_path / "all_reduce_perf").write_text(BENCHMARK)
    (tmp_path / "all_reduce_perf").chmod(0o755)
    program = "/usr/local/bin/all_reduce_perf"
    there = derived(image, registry_address, tmp_path / "all_reduce_perf", program, RECORDED)
    calls = fake_tool("kubectl", KUBECTL.format(real=shutil.which("kubectl")))
    context = must(kubectl("config", "current-context")).strip()
    argv = (
        *("env", f"--chdir={tmp_path}", sys.executable, str(ROOT / "scripts" / "try_on_aws.py")),
        *("--yes", "--region=us-east-1", "--only=eks,multinode,injector"),
        *(f"--context={context}", "--instance=p5.4xlarge", "--gpus=0"),
        f"--cluster-image={there}",
        *(f"--chart={CHART}", f"--chart-image={there}"),
    )
    done = process.run(Command(argv=argv, env={**os.environ, "REPORT_DIR": str(tmp_path)}))
    report = (tmp_path / "try-on-aws.md").read_text()
    assert done.returncode == 0, report
    for name in ("eks", "multinode", "injector"):
        assert f"| {name} | passed | " in report
    assert "the price of 2 nodes p5.4xlarge, which run anyway, for some 10 minutes" in done.stdout
    assert "- nothing is left" in report
    (namespace,) = {words[-1] for words in calls() if words[-3:-1] == ["create", "namespace"]}
    assert kubectl("get", "namespace", namespace).returncode
    assert len(list(tmp_path.glob("try-on-aws-*/rank*.nsys-rep"))) == 2
