"""A stand-in for AWS's EFA archive: its layout and signature, with files of our own in it."""

import hashlib
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy

from gpu_profile import process
from gpu_profile.command import make_command

SCRIPT = Path(__file__).with_name("efa-installer-stand-in.sh")
_FI_INFO = "#!/bin/sh\ncase $1 in --version) echo 'fi_info: 9.9.9' ;; *) echo 'efa:' ;; esac\n"
_MPIRUN = "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.9'\n"
_CONTROL = (
    "Package: efa-stand-in\nVersion: 1\nArchitecture: all\nMaintainer: test\nDescription: x\n"
)


@dataclass(frozen=True)
class Archive:
    """Where it is, for a server to serve, with what pins it."""

    directory: Path
    sha256: str
    fingerprint: str


def _run(*argv: str, **env: str) -> str:
    result = process.run(make_command(*argv, **env))
    assert result.returncode == 0, result.last_line
    return result.stdout


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _package(tree: Path, version: str, target: Path) -> None:
    """The places of AWS's packages; the plugin's differ by version."""
    opt = tree / "opt/amazon"
    _program(opt / "efa/bin/fi_info", _FI_INFO)
    _program(opt / "openmpi/bin/mpirun", _MPIRUN)
    old = version < "1.44"
    plugin = "lib/x86_64-linux-gnu/libnccl-net.so" if old else "lib/libnccl-net-ofi.so"
    library = opt / "ofi-nccl" / plugin
    library.parent.mkdir(parents=True)
    shutil.copy(_some_plugin(), library)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(_CONTROL)
    target.mkdir(parents=True)
    _run("dpkg-deb", "--root-owner-group", "--build", str(tree), str(target))


def _some_plugin() -> Path:
    """Any library made to be opened by name, like NCCL's plugins: it states no name of its own."""
    extensions = Path(numpy.__file__).parent.rglob("*.so")
    return min(extensions, key=lambda path: path.stat().st_size)


def _sign(directory: Path, archive: Path) -> str:
    """Sign with a key made for this run; its public half is served like AWS's."""
    home = str(directory / "gnupg")
    Path(home).mkdir(mode=0o700)
    gpg = ("gpg", "--homedir", home, "--batch", "--quiet")
    _run(*gpg, "--passphrase", "", "--quick-generate-key", "stand-in@example.com", "rsa2048")
    _run(*gpg, "--detach-sign", "--output", f"{archive}.sig", str(archive))
    _run(*gpg, "--export", "--output", str(archive.with_name("aws-efa-installer.key")))
    listed = _run(*gpg, "--with-colons", "--fingerprint")
    _run("gpgconf", "--homedir", home, "--kill", "all")  # gpg leaves an agent behind
    return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))


def make(work: Path, version: str) -> Archive:
    served = work / "served"
    served.mkdir()
    top = work / "aws-efa-installer"
    _package(work / "tree", version, top / "DEBS/DEBIAN13/x86_64")
    _program(top / "efa_installer.sh", SCRIPT.read_text().replace("@VERSION@", version))
    archive = served / f"aws-efa-installer-{version}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(top, "aws-efa-installer")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return Archive(served, digest, _sign(work, archive))
