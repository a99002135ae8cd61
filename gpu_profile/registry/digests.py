"""Record the digests of pushed tags in .gpu-profile/images.json. Launchers run the digest."""

import json
from dataclasses import replace
from pathlib import Path

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import RegistryError
from gpu_profile.files import write_atomically


def with_digest(ref: ImageRef, digest: str) -> ImageRef:
    return replace(ref, digest=digest)


def save_digest(path: Path, ref: ImageRef) -> None:
    """Record the digest of this tag, atomically."""
    digests = _read_digests(path)
    digests[f"{ref.repository}:{ref.tag}"] = ref.digest
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(digests, indent=2, sort_keys=True) + "\n")


def apply_digest(path: Path, ref: ImageRef) -> ImageRef:
    """Return `ref` with the digest recorded for its tag, or unchanged."""
    digest = _read_digests(path).get(f"{ref.repository}:{ref.tag}", "")
    return with_digest(ref, digest) if digest else ref


def _read_digests(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # also in a home that this user may not enter: nothing was pushed from there
    except ValueError as error:
        raise RegistryError(f"{path} is damaged: {error}", "Remove it and push again") from error
    return {str(tag): str(digest) for tag, digest in document.items()}
