"""The manifest as SPDX: every package once, by a package URL, and the same bytes each time."""

import json
from pathlib import Path

import pytest

from gpu_profile.errors import ReportError
from gpu_profile.image.sbom import render_spdx

MANIFEST = {
    "system": "debian 13",
    "python": "3.13.5",
    "components": {"nsys": "2023.4.4.54-234433681190v0"},
    "packages": {"libstdc++6:amd64": "14.2.0-19", "adduser": "3.152", "bsdutils": "1:2.41.5-0"},
    "python_packages": {"MarkupSafe": "2.1.5"},
}


def _document() -> dict[str, object]:
    document: dict[str, object] = json.loads(
        render_spdx(json.dumps(MANIFEST), "gpu-profile:v1", "sha256:1")
    )
    return document


def test_every_package_once_by_its_url() -> None:
    packages = _document()["packages"]
    assert isinstance(packages, list)
    assert [package["externalRefs"][0]["referenceLocator"] for package in packages] == [
        "pkg:generic/nsys@2023.4.4.54-234433681190v0",
        "pkg:deb/debian/adduser@3.152",
        "pkg:deb/debian/bsdutils@1%3A2.41.5-0",
        "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64",
        "pkg:pypi/markupsafe@2.1.5",
    ]
    assert len({package["SPDXID"] for package in packages}) == 5


def test_the_document_describes_them_all() -> None:
    document = _document()
    assert (document["spdxVersion"], document["name"]) == ("SPDX-2.3", "gpu-profile:v1")
    relations = document["relationships"]
    assert isinstance(relations, list)
    assert {relation["relationshipType"] for relation in relations} == {"DESCRIBES"}
    assert len(relations) == 5


def test_spdx_tools_accepts_it(tmp_path: Path) -> None:
    # The imports take 0.3 s in each process that collects the tests.
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    path = tmp_path / "image.spdx.json"
    path.write_text(json.dumps(_document()))
    assert validate_full_spdx_document(parse_file(str(path))) == []


@pytest.mark.parametrize("text", ["", "[]", '{"system": "debian"}'])
def test_no_manifest(text: str) -> None:
    with pytest.raises(ReportError, match="has no manifest"):
        render_spdx(text, "gpu-profile:v1", "sha256:1")
