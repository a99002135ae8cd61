"""Write an image's manifest as SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3).

For engines whose builder attaches no SBOM. The same image gives the same bytes: the time that SPDX
asks for is a constant.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_profile import __version__
from gpu_profile.errors import ReportError

_EPOCH = "1970-01-01T00:00:00Z"


def render_spdx(manifest: str, image: str, identity: str) -> str:
    """Return the SPDX document of an image as JSON. `identity` is the engine's id or a digest.

    Raises ReportError if `manifest` is not one of our manifests.
    """
    try:
        packages = list(_list_packages(json.loads(manifest)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{image} has no manifest: {error!r}", "Build it anew") from error
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": image,
        "documentNamespace": f"urn:gpu-profile:{identity}",
        "creationInfo": {"created": _EPOCH, "creators": [f"Tool: gpu-profile-{__version__}"]},
        "packages": packages,
        "relationships": [_describe_identifier(package["SPDXID"]) for package in packages],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _describe_identifier(identifier: str) -> dict[str, str]:
    return {
        "spdxElementId": "SPDXRef-DOCUMENT",
        "relationshipType": "DESCRIBES",
        "relatedSpdxElement": identifier,
    }


def _list_packages(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    distribution = str(manifest["system"]).partition(" ")[0]
    kinds = {
        "component": (manifest["components"], "pkg:generic"),
        "deb": (manifest["packages"], f"pkg:deb/{distribution}"),
        "python": (manifest["python_packages"], "pkg:pypi"),
    }
    for kind, (versions, place) in kinds.items():
        for name, version in sorted(versions.items()):
            yield _describe_package(kind, name, version, place)


def _describe_package(kind: str, name: str, version: str, place: str) -> dict[str, Any]:
    """Return an SPDX package with a purl (https://github.com/package-url/purl-spec)."""
    plain, _, architecture = name.partition(":")
    qualifier = f"?arch={architecture}" if architecture else ""
    escaped = version.replace("+", "%2B").replace(":", "%3A")
    purl = f"{place}/{plain.lower().replace('+', '%2B')}@{escaped}{qualifier}"
    return {
        "SPDXID": f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}",
        "name": plain,
        "versionInfo": version,
        # SPDX's word for what is not known: dpkg keeps no address.
        "downloadLocation": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }
        ],
    }
