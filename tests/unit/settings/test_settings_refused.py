"""Every malformed .env: one line with file and line, what was found, what to do; exit code 2."""

from pathlib import Path

import pytest

from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.errors import SettingsError
from gpu_profile.settings import settings

ANCESTOR = """#!/bin/bash

source .fun

# Docker repository
export REGISTRY=
"""

MALFORMED = {
    "a word alone": ("INSTALL_EFA\n", "1: expected KEY=value, found 'INSTALL_EFA'"),
    "a word alone, later": ("\n# hello\n\nIMAGE\n", "4: expected KEY=value, found 'IMAGE'"),
    "no key": ("=value\n", "1: expected KEY=value"),
    "an open quote": ("IMAGE='gpu\n", "1: expected KEY=value"),
    "an open double quote": ('IMAGE="gpu\nVERSION=1\n', "1: expected KEY=value"),
    "a space in the key": ("MY KEY=1\n", "1: expected KEY=value"),
    "words": ("this is not a setting\n", "1: expected KEY=value"),
    "export": ("export IMAGE=x\n", "1: 'export IMAGE=x' is shell code. Settings are data"),
    "export alone": ("IMAGE=x\nexport IMAGE\n", "2: 'export IMAGE' is shell code"),
    "the ancestor's own": (ANCESTOR, "3: 'source .fun' is shell code"),
    "source by a dot": (". ./other.env\n", "1: '. ./other.env' is shell code"),
    "if": ("if true; then\nIMAGE=x\nfi\n", "1: 'if true; then' is shell code"),
    "fi": ("IMAGE=x\nfi\n", "2: 'fi' is shell code"),
    "a for loop": ("for x in 1 2; do\n", "1: 'for x in 1 2; do' is shell code"),
    "a test": ("[ -z x ] && IMAGE=x\n", "1: '[ -z x ] && IMAGE=x' is shell code"),
    "a command": ("VOL_MAP=$(pwd):/wd\n", "1: VOL_MAP uses the shell ('$(')"),
    "a command in quotes": ('VOL_MAP="$(pwd):/wd"\n', "1: VOL_MAP uses the shell ('$(')"),
    "backticks": ("VOL_MAP=`pwd`\n", "1: VOL_MAP uses the shell ('`')"),
    "a variable": ("IMAGE=$NAME\n", "1: IMAGE uses the shell ('$N')"),
    "a variable in braces": ("IMAGE=${NAME}\n", "1: IMAGE uses the shell ('${')"),
    "an unknown key": ("IMGE=x\n", "1: unknown key 'IMGE'. Did you mean IMAGE?"),
    "an unknown key, far off": ("XYZZY_42=x\n", "1: unknown key 'XYZZY_42'. `invoke config` lists"),
    "small letters": ("image=x\n", "1: unknown key 'image'. Did you mean IMAGE?"),
    "capital proxy": ("HTTP_PROXY=x\n", "1: unknown key 'HTTP_PROXY'"),
    "a duplicate": ("IMAGE=a\nVERSION=1\nIMAGE=b\n", "3: IMAGE was set before, on line 1"),
    "not a boolean": ("INSTALL_MPI=yep\n", "1: INSTALL_MPI is 'yep'. Use true or false"),
    "an empty boolean": ("INSTALL_MPI=\n", "1: INSTALL_MPI is ''. Use true or false"),
    "not a choice": ("LAUNCHER=k8s\n", f"1: LAUNCHER is 'k8s'. Use one of {', '.join(LAUNCHERS)}"),
    "not a component's choice": ("INSTALL_TORCH=gpu\n", "1: INSTALL_TORCH is 'gpu'. Use one of"),
    "a line break": ('RUN_OPTS="a\nb"\n', "1: RUN_OPTS holds a line break"),
    "JSON": ('{"IMAGE": "x"}\n', "1: expected KEY=value"),
    "YAML": ("IMAGE: x\n", "1: expected KEY=value"),
}


@pytest.mark.parametrize(("text", "said"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / ".env"
    path.write_text(text)
    with pytest.raises(SettingsError) as refused:
        settings.load_settings(path, {})
    message = str(refused.value)
    assert f"{path}:{said}" in message
    assert "\n" not in message
    assert refused.value.exit_code == 2


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load_settings(path, {})


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("IMAGE", "--set 'IMAGE' is not a setting"),
        ("IMGE=x", "--set: unknown key 'IMGE'"),
        (
            "REPORT_DIR=~nobody-has-this-name/x",
            "REPORT_DIR is '~nobody-has",
        ),
    ],
)
def test_a_malformed_flag_is_refused(tmp_path: Path, word: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings.load_settings(tmp_path / ".env", {}, [word])
