"""Reports of pods go to a bucket by signed URLs, and come here from there: moto in S3's place."""

from typing import Any

import boto3
import pytest

from tests.live.kubernetes.conftest import Cluster
from tests.live.s3_server import start_bucket

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
BRIDGE = "10.99.0.1"  # of `up`: pods and this machine reach each other there
POD = """{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {restartPolicy: Never,
  containers: [{name: main, image: "IMAGE", command: [sh, -c, "env; sleep 1"]}]}}"""


def require_same_files(cluster: Cluster) -> None:
    store: Any = boto3.client("s3")
    run = cluster.directory / cluster.record()["id"]
    prefix = f"night/{run.name}/"
    objects = store.list_objects_v2(Bucket="reports", Prefix=prefix)["Contents"]
    names = {item["Key"].removeprefix(prefix) for item in objects}
    assert set(cluster.reports()) < names
    for name in names:
        body = store.get_object(Bucket="reports", Key=f"{prefix}{name}")["Body"].read()
        assert body == (run / name).read_bytes()


def test_reports_of_both_pods_are_in_the_bucket_and_here(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_bucket(BRIDGE, "reports", monkeypatch):
        to = "--report-to=s3://reports/night"
        done = cluster.profile("pytorchjob", to, "--trace=osrt", "--", "sh", "-c", "sleep 1")
        assert done.returncode == 0, done.stderr
        assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1"]
        assert "its reports stay in s3://reports/night/sh-" in done.stderr
        require_same_files(cluster)


@pytest.mark.slow
def test_a_pod_without_a_way_to_the_bucket_has_its_reports_put_there_from_here(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster.directory / "pod.yaml").write_text(POD.replace("IMAGE", cluster.image))
    with start_bucket("127.0.0.1", "reports", monkeypatch):
        words = ("--manifest=pod.yaml", "--trace=osrt", "--report-to=s3://reports/night")
        done = cluster.invoke("profile", *words)
        assert done.returncode == 0, done.stderr
        require_same_files(cluster)
        assert "AWS_" not in (cluster.directory / cluster.record()["id"] / "output.log").read_text()
