"""Write a docker-archive image of one static program.

image.py PROGRAM PATH_INSIDE NAME:TAG UID OUT.tar [LINK_INSIDE | PATH_INSIDE=SCRIPT]…
"""

import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

program, entry, name, user, out, *extras = sys.argv[1:]


def tar_bytes(files: Mapping[str, bytes], links: Sequence[str] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
        for path in links:
            member = tarfile.TarInfo(path.lstrip("/"))
            member.type, member.linkname = tarfile.SYMTYPE, entry
            tar.addfile(member)
    return buffer.getvalue()


scripts = dict(extra.split("=", 1) for extra in extras if "=" in extra)
layer = tar_bytes(
    {entry: Path(program).read_bytes()}
    | {path: Path(source).read_bytes() for path, source in scripts.items()},
    [extra for extra in extras if "=" not in extra],
)
config = {
    "architecture": "amd64",
    "os": "linux",
    "config": {"Entrypoint": [entry], "User": user, "Env": ["PATH=/bin"]},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}
manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
Path(out).write_bytes(
    tar_bytes(
        {
            "manifest.json": json.dumps(manifest).encode(),
            "config.json": json.dumps(config).encode(),
            "layer.tar": layer,
        }
    )
)
