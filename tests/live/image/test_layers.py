"""No layer holds what must not be there, not even one that a later layer hides."""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command

pytestmark = pytest.mark.slow

_LARGEST_TEXT = 1 << 20
_SECRETS = re.compile(
    rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"
    rb"|\bAKIA[A-Z0-9]{16}\b|\bhf_[A-Za-z0-9]{30,}\b|\bgh[pos]_[A-Za-z0-9]{36}\b"
)
_FORBIDDEN = re.compile(
    r"(?:^|/)ssh_host_\w+_key$|(?:^|/)id_(?:rsa|ed25519|ecdsa)$"
    r"|^run/secrets/.+|^var/cache/apt/.+\.deb$|^var/lib/apt/lists/.+_Packages"
    r"|^root/\.cache/.+|^(?:tmp|var/tmp)/.+|^out(?:/|$)|^mnt/.+"
    r"|aws-efa-installer.*\.tar\.gz$|\.(?:deb|whl)$"
)
_EXAMPLES = re.compile(r"/(?:tests?|testing|certs_test|__pycache__)/")


@pytest.fixture(scope="module")
def layers(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tarfile.TarFile]:
    archive = tmp_path_factory.mktemp("layers") / "image.tar"
    process.run(Command(argv=("docker", "save", image), stdout_file=archive))
    with tarfile.open(archive) as saved:
        yield saved
    archive.unlink()


def _layer_names(saved: tarfile.TarFile) -> list[str]:
    file = saved.extractfile("manifest.json")
    assert file is not None
    names: list[str] = json.load(file)[0]["Layers"]
    return names


def _files(saved: tarfile.TarFile) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    for name in _layer_names(saved):
        layer = saved.extractfile(name)
        assert layer is not None
        with tarfile.open(fileobj=layer) as files:
            yield from ((files, info) for info in files if info.isfile())


def test_no_key_token_or_archive_in_any_layer(layers: tarfile.TarFile) -> None:
    names = []
    for files, info in _files(layers):
        name = info.name.removeprefix("./")
        if _FORBIDDEN.search(name):
            names.append(name)
        elif info.size <= _LARGEST_TEXT and not _EXAMPLES.search(name):
            content = files.extractfile(info) or io.BytesIO()
            if _SECRETS.search(content.read()):
                names.append(f"{name}: looks like a secret")
    assert names == []


def test_the_patterns_see_what_they_should(tmp_path: Path) -> None:
    assert _FORBIDDEN.search("etc/ssh/ssh_host_rsa_key")
    assert _FORBIDDEN.search("root/aws-efa-installer-1.50.0.tar.gz")
    assert not _FORBIDDEN.search("etc/ssh/ssh_config")
    body = b"A" * 64
    assert _SECRETS.search(b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + body)
    assert not _SECRETS.search(b"looks for -----BEGIN PRIVATE KEY----- in files")
