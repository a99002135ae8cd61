"""The file for --python-functions-trace: its text, and what is refused before it is written."""

import json
import os
import sys
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.nsys.python_functions import Attributes, Target, make_trace_file, render_functions

PLAIN = Attributes()


def made(*words: str, attributes: Attributes = PLAIN) -> str:
    return process.drive(make_trace_file(words, attributes, python=sys.executable))


def test_one_entry_a_module_in_the_order_given() -> None:
    look = Attributes(domain="mine", category="io", color="#76b900")
    words = ("json:dumps", "os.path:join", "json:JSONEncoder.encode", "json:dumps")
    assert json.loads(made(*words, attributes=look)) == [
        {
            "module": "json",
            "domain": "mine",
            "category": "io",
            "color": "0x76B900",
            "functions": ["dumps", "JSONEncoder.encode"],
        },
        {
            "module": "os.path",
            "domain": "mine",
            "category": "io",
            "color": "0x76B900",
            "functions": ["join"],
        },
    ]


def test_nothing_that_was_not_given() -> None:
    text = render_functions([Target("a.b", "c")], PLAIN)
    assert text == (
        '[\n    {\n        "module": "a.b",\n        "functions": [\n            "c"\n        ]\n'
        "    }\n]\n"
    )


def test_a_module_of_the_users_directory_that_talks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talking.py").write_text("print('[1, 2]')\ndef step(): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert json.loads(made("talking:step"))[0]["module"] == "talking"


REFUSALS = {
    "functions of __main__ cannot be traced: nsys marks": ("__main__:main", PLAIN),
    "'json.dumps' is not a function. Use package.module:function": ("json.dumps", PLAIN),
    "'a b:c' is not a function": ("a b:c", PLAIN),
    "'-c:os' is not a function": ("-c:os", PLAIN),
    "'json:' is not a function": ("json:", PLAIN),
    "no_such_module cannot be imported: ModuleNotFoundError": ("no_such_module:f", PLAIN),
    "json has no dumsp. The nearest it has: dump, dumps": ("json:dumsp", PLAIN),
    "json has no JSONEncoder.encod. The nearest it has: encode": ("json:JSONEncoder.encod", PLAIN),
    "json:__name__ is not a function. Check the name": ("json:__name__", PLAIN),
    "'green' is not a colour. Use 0xRRGGBB": ("json:dumps", Attributes(color="green")),
}


@pytest.mark.parametrize(("line", "case"), REFUSALS.items(), ids=REFUSALS)
def test_refused(line: str, case: tuple[str, Attributes]) -> None:
    word, attributes = case
    with pytest.raises(SettingsError) as refused:
        made(word, attributes=attributes)
    assert str(refused.value).startswith(line)


def test_no_word_and_no_interpreter() -> None:
    with pytest.raises(SettingsError, match="no function to trace"):
        made()
    with pytest.raises(GpuProfileError):
        process.drive(make_trace_file(["json:dumps"], PLAIN, python=f"{os.devnull}/python"))
