"""The bill of materials of the image, judged by the SPDX project's own validator."""

import json
from pathlib import Path

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from tests.invoked import invoke

pytestmark = [pytest.mark.image, pytest.mark.docker]


@pytest.fixture(scope="module")
def document(image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sbom")
    name, _, version = image.rpartition(":")
    printed = invoke("sbom", f"--set=IMAGE={name}", f"--set=VERSION={version}", directory=directory)
    assert printed.returncode == 0, printed.stderr
    path = directory / "image.spdx.json"
    path.write_text(printed.stdout)
    return path


def test_spdx_tools_accepts_it(document: Path) -> None:
    messages = validate_full_spdx_document(parse_file(str(document)))
    assert [message.validation_message for message in messages] == []


def test_it_has_what_is_installed(document: Path) -> None:
    packages = {package["name"] for package in json.loads(document.read_text())["packages"]}
    assert {"nsys", "nvtx", "tini"} <= packages


def test_the_validator_sees_a_bad_one(document: Path) -> None:
    text = json.loads(document.read_text())
    text["packages"][0]["externalRefs"][0]["referenceLocator"] = "not a purl"
    bad = document.with_name("bad.spdx.json")
    bad.write_text(json.dumps(text))
    assert validate_full_spdx_document(parse_file(str(bad)))
