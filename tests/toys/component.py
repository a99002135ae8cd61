"""Toy: a component of one file."""

from gpu_profile.components.component import (
    Component,
    InstalledVersion,
    Requirement,
    list_source_keys,
    select_values,
)
from gpu_profile.declared.key import make_switch_key, make_text_key
from gpu_profile.declared.rule import Facts, Rule
from gpu_profile.pins.pin_source import make_tree_sources


def _too_old(facts: Facts) -> str:
    return "Toy 1.0 does not run on Debian 9" if facts.base_image == "debian:9" else ""


COMPONENT = Component(
    number=65,
    name="toy",
    doc="Toy, which plays",
    is_enabled=lambda values: bool(values["INSTALL_TOY"]),
    toggle="INSTALL_TOY",
    keys=(
        make_switch_key("INSTALL_TOY", "the toy", default=False),
        make_text_key("TOY_VERSION", "v1.0", "tag of the toy"),
        make_text_key("TOY_URL", "https://example.org/toy", "the toy's repository or an archive"),
        make_text_key("TOY_COMMIT", "", "commit of that tag"),
        make_text_key("TOY_SHA256", "", "sha256, where TOY_URL is an archive"),
    ),
    args=lambda values: select_values(values, *list_source_keys("TOY")),
    requires=(Requirement(any_of=("INSTALL_MPI",), reason="INSTALL_TOY needs INSTALL_MPI"),),
    env=lambda _: {"TOY_HOME": "/opt/toy"},
    sources=make_tree_sources("TOY"),
    installed_versions=(
        InstalledVersion(name="toy", command="cat /opt/toy/version", setting="TOY_VERSION"),
    ),
    rules=(
        Rule(
            name="Toy on Debian 9",
            find_fault=_too_old,
            reason="its library is too new",
            source="example.org/toy",
            hint="Take a BASE_IMAGE of Debian 12",
        ),
    ),
)
