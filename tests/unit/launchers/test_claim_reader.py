"""Reports off a claim, in a pod that is there for the copy only."""

from pathlib import Path

import pytest

from gpu_profile.command import Result
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.kubernetes.marks import PREFIX
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.reports import claim_reader
from gpu_profile.signals import HungUp
from tests.unit.launchers.kubernetes_objects import answer, name_of_new_pod, pod

OK = Result(returncode=0)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, HungUp])
@pytest.mark.parametrize("answers", [0, 1, 2, 3])
def test_reading_a_claim_that_is_interrupted_leaves_no_pod(
    answers: int, interrupt: type[BaseException]
) -> None:
    notes = {f"{PREFIX}/claim": "reports", f"{PREFIX}/reports": "/wd/train-1"}
    steps = claim_reader.collect_from_claim(
        KubernetesCluster(),
        PodOptions(image=ImageRef(name="gpu-profile")),
        "team/train-1",
        {"metadata": {"annotations": notes}},
        (),
        Path("/reports/train-1"),
        lasting=False,
    )
    create = next(steps)
    for one in (OK, OK, answer(pod("train-1-reader", "Running")))[:answers]:
        steps.send(one)
    remove = steps.throw(interrupt())
    assert remove.argv[1:5] == ("--namespace=team", "delete", "pod", name_of_new_pod(create))
    with pytest.raises(interrupt):
        steps.send(OK)
