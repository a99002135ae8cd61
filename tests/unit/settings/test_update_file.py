"""config --write: .env gets our order and comments, and keeps the user's lines."""

import os
import random
from pathlib import Path

import pytest

from gpu_profile.components.torch import COMPONENT as TORCH
from gpu_profile.errors import SettingsError
from gpu_profile.settings.envfile import parse_entries
from gpu_profile.settings.settings import KEYS
from gpu_profile.settings.template import render_template
from gpu_profile.settings.update_file import update_file, update_text
from tests.invoked import invoke
from tests.seeds import list_seeds

HERE = Path(".env")
LAST = TORCH.keys[-1].name
"""The last setting of a section in the middle of the file."""


def entries_of(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse_entries(HERE, text)}


def without(text: str, *names: str) -> str:
    """The file's text as an older version wrote it: without these settings and their comments."""
    lines = text.splitlines(keepends=True)
    for name in names:
        place = next(place for place, line in enumerate(lines) if line.startswith(f"{name}="))
        del lines[place - 1 : place + 1]
    return "".join(lines)


def test_the_shipped_file_stays_as_it_is() -> None:
    update = update_text(render_template(), {})
    assert (update.text, update.added_keys, update.changed_keys) == (render_template(), (), ())


def test_a_new_setting_comes_last_in_its_section_with_its_comment() -> None:
    old = without(render_template(), LAST).replace("IMAGE=gpu-profile", "IMAGE=mine # !")
    update = update_text(old, {})
    assert update.added_keys == (LAST,)
    assert update.text == render_template().replace("IMAGE=gpu-profile", "IMAGE=mine # !")


def test_a_new_setting_comes_after_its_neighbour() -> None:
    old = without(render_template(), "VERSION", "INSTALL_TORCH", "KUBE_WAIT")
    assert update_text(old, {}).text == render_template()


def test_order_sections_and_comments_are_renewed() -> None:
    blocks = render_template().replace("slurm, mpijob", "slurm, toy, mpijob").split("\n\n")
    shuffled = [blocks[0], *reversed(blocks[1:])]
    old = "\n\n".join(shuffled).replace("# --- PyTorch, and the nvtx", "# --- PyTorch and the nvtx")
    old = without(old, "REGISTRY") + "\nREGISTRY=\n"
    update = update_text(old, {})
    assert update.text == render_template()
    assert (update.added_keys, update.changed_keys, update.is_renewed) == ((), (), True)


def test_comments_of_the_user_stay_above_their_setting() -> None:
    doc = f"# {next(key.doc for key in KEYS if key.name == 'SLURM_ACCOUNT')}"
    theirs = f"# until March\n{doc}: ask Ann\n# SLURM_ACCOUNT=old\nSLURM_ACCOUNT=new"
    old = render_template().replace(f"{doc}\nSLURM_ACCOUNT=", theirs)
    assert update_text(old, {}).text == old
    for comment in ("# the account of us", f"{doc.lower()}s"):
        small = f"{comment}\nSLURM_ACCOUNT=new\n"
        assert f"{doc}\n{small}" in update_text(small, {}).text


def test_a_file_without_sections_becomes_the_shipped_one() -> None:
    text = "# our cluster\n\n# mine\nIMAGE=mine\n# the end\n"
    update = update_text(text, {})
    head, _, sections = render_template().partition("\n")
    sections = sections.replace("IMAGE=gpu-profile", "# mine\nIMAGE=mine")
    assert update.text == f"{head}\n# our cluster\n{sections}\n# the end\n"
    assert entries_of(update.text).keys() == {key.name for key in KEYS}
    assert update_text(update.text, {}).text == update.text


def test_values_are_replaced_and_their_comments_stay() -> None:
    text = "IMAGE='a b'   # the team's\nVERSION=1 # two\nNSYS_ARGS=\"--x 'y'\"\n"
    update = update_text(text, {"IMAGE": "mine", "VERSION": "it's 2", "REGISTRY": "host:5000"})
    assert "\nIMAGE=mine   # the team's\n" in update.text
    assert "\nVERSION='it\\'s 2' # two\n" in update.text
    assert update.text.endswith("\n\nNSYS_ARGS=\"--x 'y'\"\n")
    values = entries_of(update.text)
    assert (values["VERSION"], values["REGISTRY"]) == ("it's 2", "host:5000")
    assert update.changed_keys == ("IMAGE", "VERSION")


def test_unknown_settings_are_kept_last_and_named() -> None:
    update = update_text("# of the site\nDJANGO_DEBUG=on\nIMAGE=mine\n", {})
    assert update.unknown == ("DJANGO_DEBUG",)
    assert update.text.endswith("\n\n# of the site\nDJANGO_DEBUG=on\n")
    assert update_text(update.text, {}).text == update.text


def test_lines_of_windows_stay_so() -> None:
    old = without(render_template(), LAST).replace("\n", "\r\n")
    assert update_text(old, {}).text == render_template().replace("\n", "\r\n")


VALUES = ("", "a", "'a b'", '"a b"', "a#b", "'it\\'s'", "a  b", "'#'", "=", "''")
NEW_VALUES = ("new", "a b", "it's", "$x", "#", "")
DEFAULTS = entries_of(render_template())


def draw_lines(choose: random.Random) -> list[str]:
    """Draw 12 settings with odd values, and six comments or empty lines between them."""
    lines = [
        f"{key.name}{choose.choice(('=', ' = '))}{choose.choice(VALUES)}"
        f"{choose.choice(('', ' # why', '  '))}"
        for key in choose.sample(KEYS, 12)
    ]
    for _ in range(6):
        lines.insert(choose.randrange(len(lines)), choose.choice(("", "# --- x", "# why", " ")))
    return lines


@pytest.mark.drawn
def test_any_file_keeps_its_lines_and_values() -> None:
    for seed in list_seeds(range(12), nightly=500):
        choose = random.Random(seed)
        lines = draw_lines(choose)
        text = "\n".join(lines) + choose.choice(("", "\n", "\n\n"))
        values = {key.name: choose.choice(NEW_VALUES) for key in KEYS[:5]}
        update = update_text(text, values)
        entries = entries_of(update.text)
        assert entries == {**DEFAULTS, **entries_of(text), **values}, seed
        assert update_text(update.text, values).text == update.text, seed
        new_lines = ["", " ", *update.text.split("\n")]
        changed = [line for line in lines if line not in new_lines]
        assert len(changed) <= len(update.changed_keys), seed


def test_the_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("IMAGE=mine\n")
    path.chmod(0o640)
    update_file(path, {})
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir()] == [".env"]


@pytest.mark.parametrize("bad", ["export IMAGE=x\n", "IMAGE=$(id)\n", "IMAGE=a\nIMAGE=b\n"])
def test_a_file_that_is_no_settings_file_is_left_alone(tmp_path: Path, bad: str) -> None:
    path = tmp_path / ".env"
    path.write_text(bad)
    with pytest.raises(SettingsError, match=r"\.env:"):
        update_file(path, {})
    assert path.read_text() == bad


def make_link(path: Path) -> None:
    (path.parent / "target").write_text("IMAGE=mine\n")
    path.symlink_to(path.parent / "target")


@pytest.mark.parametrize("make", [make_link, os.mkfifo, Path.mkdir])
def test_links_and_devices_are_refused(tmp_path: Path, make: object) -> None:
    path = tmp_path / ".env"
    assert callable(make)
    make(path)
    with pytest.raises(SettingsError, match="cannot be updated"):
        update_file(path, {})
    assert sorted(file.name for file in tmp_path.iterdir()) in ([".env"], [".env", "target"])


def test_the_verb_says_what_it_did(tmp_path: Path) -> None:
    first = invoke("config", "--write", directory=tmp_path)
    assert first.stdout.startswith(".env: ")
    assert (tmp_path / ".env").read_text() == render_template()
    (tmp_path / ".env").write_text(without(render_template(), LAST) + "MINE=1\n")
    again = invoke("config", "--write", "--set", "IMAGE=team/x", directory=tmp_path)
    assert again.stdout == f".env: added {LAST}; changed IMAGE\n"
    assert again.stderr.strip() == "note: .env: MINE is not a setting, and kept"
    text = (tmp_path / ".env").read_text()
    assert "\nIMAGE=team/x\n" in text
    assert text.endswith("MINE=1\n")
    last = invoke("config", "--write", directory=tmp_path)
    assert last.stdout == ".env: has every setting, nothing to do\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--set", "IMAGE=Not An Image"), "IMAGE is 'Not An Image'"),
        (("--set", "IMAG=x"), "unknown key 'IMAG'"),
        (("--set", "IMAGE"), "is not a setting"),
        (("--format", "json"), "--write prints no json"),
        (("--env-file", "missing"), "no such file"),
        (("--env-file", "~nouser/x"), "is not understood"),
    ],
)
def test_refusals_write_nothing(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    (tmp_path / ".env").write_text("VERSION=1\n")
    refusal = invoke("config", "--write", *words, directory=tmp_path)
    assert (refusal.returncode, reason in refusal.last_line) == (2, True), refusal.last_line
    assert (tmp_path / ".env").read_text() == "VERSION=1\n"
