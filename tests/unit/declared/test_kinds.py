"""Every setting and flag has a kind, and a text of another kind is refused at once."""

from pathlib import Path

import pytest

from gpu_profile.cli.check_flags import check_flags
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.table import find_verb
from gpu_profile.declared.key import Key
from gpu_profile.declared.kinds import KINDS, fault
from gpu_profile.errors import SettingsError
from gpu_profile.settings import settings
from gpu_profile.settings.settings import KEYS

REFUSED_WORDS = (
    "SHM_SIZE=banana SHM_SIZE=0 KUBE_WAIT=-1 KUBE_HOLD=1h IMAGE=../x IMAGE= IMAGE=Big "
    "NSYS_VERSION=1;x NSYS_VERSION=$(x) VERSION=a/b VERSION= REGISTRY=https://x/y "
    "REGISTRY=host/UPPER CUDA_ARCHS=sm_90 NETWORK=-x CONTAINER=a/b "
    "REPORT_DIR=~no-such-user/x SSH_HOST=-oProxyCommand=x SLURM_TIME=soon AWS_REGION=Ohio "
    "KUBE_NAMESPACE=Team_A KUBE_INSTANCE=p5 KUBE_REPORT_TO=pvc:claim KUBE_REPORT_TO=ftp://x "
    "KUBE_INJECTOR_NAME={UID} KUBE_INJECTOR_NAME=rank%q{RANK}.a.b "
    "KUBE_AFFINITY=[] KUBE_AFFINITY={ "
    "KUBE_RUN_AS_USER=me NCCL_COMMIT=abc NCCL_SHA256=12 NCCL_URL=ftp//x NSYS_URL=javascript:x "
    "SSH_WORKDIR=-x SSH_SYNC=-x SLURM_WORKDIR=-rf SLURM_DIR=runs SLURM_DIR=~/runs "
    "no_proxy=http://host no_proxy=a;b KUBE_NODE_SELECTOR=zone KUBE_NODE_SELECTOR==a "
    "KUBE_NODE_SELECTOR=zone=a,,b=c KUBE_TOLERATIONS=a:Never KUBE_TOLERATIONS=:NoSchedule "
    "EFA_FINGERPRINT=12 PORT_MAP=8080:8080 VOL_MAP=/data:/data https_proxy=ht!tp"
)
REFUSED = REFUSED_WORDS.split()
SPACED = (
    "PORT_MAP=-p banana",
    "PORT_MAP=-p 70000:80",
    "VOL_MAP=-v :/data",
    "VOL_MAP=-v /data:data",
    "NSYS_VERSION=1; echo x",
    "SSH_HOST=a b",
    "BUILD_OPTS='",
    "SSH_WORKDIR= ",
    "SLURM_WORKDIR=a\tb",
    "KUBE_NODE_SELECTOR=zone=a b",
    "KUBE_TOLERATIONS=a b",
)
TAKEN = (
    *(
        "SSH_WORKDIR=~me/my code",
        "SSH_SYNC=../code",
        "SLURM_WORKDIR=code",
        "SLURM_DIR=/fsx/my runs",
    ),
    *("no_proxy=localhost,127.0.0.1,.svc,10.0.0.0/8,[::1],*.example.org:8080", "no_proxy=*"),
    *("KUBE_NODE_SELECTOR=no/such=node, pool=", "KUBE_NODE_SELECTOR=node.kubernetes.io/a_b=c.d"),
    "KUBE_TOLERATIONS=team=a:NoSchedule,spot:NoExecute, example.org/any",
    *("SHM_SIZE=1.5g", "SHM_SIZE=512m", "SHM_SIZE=", "IMAGE=team/gpu-profile", "VERSION=auto"),
    *("REGISTRY=localhost:5000/team", "REGISTRY=docker.io/name", "CUDA_ARCHS=80,90a,100"),
    *("PORT_MAP=-p 8080:8080 --publish=127.0.0.1:22:22/tcp -p 5000-5002:5000-5002", "PORT_MAP=-P"),
    *("VOL_MAP=-v /data:/data:ro -v named:/x --mount type=tmpfs,target=/t", "VOL_MAP=-v /cache"),
    *("SSH_HOST=ubuntu@10.0.0.1", "SSH_HOST=gpu_box", "SLURM_TIME=1-00:00:00", "SLURM_TIME=30"),
    *("SLURM_PARTITION=p5,p4d", "SLURM_MODULES=cuda/12.4 openmpi+x", "SLURM_IMAGE=/fsx/x.sqsh"),
    *("KUBE_REPORT_TO=pvc:reports:/data", "KUBE_REPORT_TO=s3://team/night"),
    *('KUBE_AFFINITY={"nodeAffinity": {}}', "KUBE_INSTANCE=p5.48xlarge"),
    *("KUBE_CONTEXT=arn:aws:eks:us-west-2:123456789012:cluster/x", "NSYS=~/nsight/nsys"),
    *(
        "https_proxy=http://u:p@proxy:3128",
        "https_proxy=proxy:3128",
        "TORCH_URL=",
        "TORCH_URL=auto",
    ),
    *("NCCL_URL=git@github.com:NVIDIA/nccl.git", "NCCL_URL=file:///src/nccl", "NCCL_COMMIT="),
    *("BASE_IMAGE=nvidia/cuda:13.0.0-devel-ubuntu24.04@sha256:" + "a" * 64, "NETWORK=container:x"),
)


def load(path: Path, word: str) -> settings.Settings:
    return settings.load_settings(path / ".env", {}, [word])


@pytest.mark.parametrize("word", [*REFUSED, *SPACED])
def test_a_setting_of_another_kind_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, word)
    line = str(refused.value)
    name = word.partition("=")[0]
    assert line.startswith(f"command line: {name} is ")
    assert "Use " in line or "quot" in line
    assert "\n" not in line
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("word", TAKEN)
def test_a_setting_of_its_kind_is_taken(tmp_path: Path, word: str) -> None:
    name, _, value = word.partition("=")
    key = next(key for key in KEYS if key.name == name)
    assert str(load(tmp_path, word).value(key)) == str(Path(value)) or value in word


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_defaults_are_of_their_kind(key: Key) -> None:
    assert key.kind in KINDS
    if key.default != "" and key.default != "auto":
        assert (
            fault(key.kind, str(key.default).lower() if key.kind == "bool" else str(key.default))
            == ""
        )


FLAGS = (
    ("profile", "delay", float("nan")),
    ("profile", "duration", float("inf")),
    ("profile", "delay", -1.0),
    ("profile", "capture_range", "nope"),
    ("profile", "ranks", "0-99999999999"),
    ("profile", "ranks", "3-1"),
    ("profile", "ranks", "0;1"),
    ("profile", "env", ("=x",)),
    ("profile", "env", ("A B=x",)),
    ("profile", "mount", (":/b",)),
    ("profile", "mount", ("/a:b",)),
    ("profile", "image", "-x"),
    ("profile", "processes", -1),
    ("test", "min_busbw", float("nan")),
    ("stats", "top", -3),
    ("test", "at", "much"),
    ("test", "at", "0"),
    ("test", "floor", "p9"),
    ("test", "suite", "all"),
    ("profile", "name", "---"),
    ("profile", "name", "a\nb"),
    ("profile", "format", "csv"),
    ("doctor", "format", "xml"),
    ("config", "format", "yaml"),
    ("compare", "format", "csv"),
    ("stats", "names", "long"),
    ("profile", "on", "kubernetes"),
    ("stats", "scheduler", "nope"),
    ("compare", "fail_over", "much"),
)


@pytest.mark.parametrize(("name", "flag", "value"), FLAGS)
def test_a_flag_of_another_kind_is_refused(name: str, flag: str, value: object) -> None:
    options_class = find_verb(name).options_class
    check_flags(options_class())
    with pytest.raises(SettingsError, match=f"--{flag.replace('_', '-')} ") as refused:
        check_flags(options_class.from_flags({flag: value}))
    assert "\n" not in str(refused.value)


def test_flags_of_their_kind_are_taken() -> None:
    taken = ProfileOptions(
        delay=2.5,
        ranks="0, 2-3",
        capture_range="cudaProfilerApi",
        env=("HF_TOKEN", "A=b c\nd", "X="),
        mount=("/a:/b:ro", "./c:/d", "C:\\x:/y"),
        image="123456789012.dkr.ecr.us-west-2.amazonaws.com/a:b",
    )
    check_flags(taken)


def test_a_variable_s_name_is_one_that_each_machine_takes() -> None:
    for name in ("$(x)", "a;b", "../x", "a..b", "a\x1b", "1A", "a b", "", "é"):
        assert fault("variable", f"{name}=1"), name
    for text in ("A", "_a1=", "A.B-c=x=y\n;$(z)"):
        assert fault("variable", text) == "", text
