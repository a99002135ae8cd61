"""Command lines of hostile words: each ends with an exit code of ours and one line, never a
traceback.

They run in the sandbox of sandbox.py. To try more, or one again:

    python -m tests.fuzz.command_line --count 2000
    python -m tests.fuzz.command_line --seed 7 --count 1 --first 41
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpu_profile.cli.program import CLONE_ONLY
from gpu_profile.cli.table import VERBS
from gpu_profile.cli.verb import Option
from gpu_profile.settings.settings import KEYS
from tests.fork_server import Call, become_call, import_verbs
from tests.fuzz.sandbox import ROOT, run_inside

REPORT = ROOT / "tests/data/h200x4-ddp/rank0.sqlite.gz"
CODES = {0, 2, 3, 4, 5, 6, 7, 8, 130}
LIMIT_S = 120
HOSTILE = (
    *("", " ", "x", "-", "--", "-x", "--nope", "'", '"', "`id`", "$(id)", "${HOME}", "a b", "a#b"),
    *("\\", "é", "日本", "²", "٣", "\u2028", "\x1b[31m", "a\nb", "a\rb", "\t", "%s", "%(x)s", "*"),
    *("-1", "0", "1", "1.5", "1e3", "1e400", "nan", "inf", "5%", "-5%", "99999999999999999999"),
    *("true", "None", "{}", "[]", "[", "(a+)+$", "(", ",", "a,,b", "a=b", "=", "=x", "A=1"),
    *(
        "/nope",
        "/etc",
        "/etc/passwd",
        "/etc/passwd/x",
        "~nouser/x",
        "..",
        "../../etc",
        ".",
        "x" * 5000,
    ),
    *("a:b", "/a:/b", "/a:/b:zz", ":/b", "://", "docker://x", "slurm://1;id", "mpijob://a/b/c"),
    *("host:///nope", "ssh://-oProxyCommand=id:x", "s3://", "foo://x", "tcp://127.0.0.1:1"),
    *("-oProxyCommand=id", "h;id", "user@", "UPPER/x", "https://u:p@h/x", "0-99999999999", "5-1"),
    *("json", "csv", "docker", "host", "slurm", "mpijob", "latest", str(REPORT)),
)
SAFE = {"yes": (), "fix": ()}
"""Flags that are left out: they ask for what the sandbox refuses anyway."""


def make_words(choose: random.Random) -> list[str]:
    """A verb with some of its flags, each with a hostile value or one that it has a use for."""
    verb = choose.choice([verb for verb in VERBS if verb.name not in CLONE_ONLY])
    words = [verb.name if choose.random() < 0.97 else choose.choice(HOSTILE)]
    flags = [option for option in verb.options if option.name not in SAFE]
    for option in choose.sample(flags, min(len(flags), choose.choice((0, 1, 1, 2, 3, 5)))):
        words += list(_flag_words(option, choose))
    if any(option.name == "dry-run" for option in flags) and choose.random() < 0.7:
        words.append("--dry-run")
    if verb.name in {"stats", "diagnose", "html", "scrub"} and choose.random() < 0.5:
        words += ["--report", str(REPORT)]
    if choose.random() < 0.5:
        words += ["--", choose.choice(("ls", "true", "", "/", "nope", "日本"))]
    return [word.replace("\0", "") for word in words]


def _flag_words(option: Option, choose: random.Random) -> Iterator[str]:
    if isinstance(option.default, bool):
        yield f"--{option.name}"
    elif option.positional:
        yield choose.choice(HOSTILE)
    else:
        values = HOSTILE if choose.random() < 0.7 else (option.choices or HOSTILE)
        value = choose.choice(values)
        if option.name == "set":
            value = f"{choose.choice(KEYS).name}={value}"
        yield from choose.choice(((f"--{option.name}", value), (f"--{option.name}={value}",)))


def list_cases(seed: int, count: int, first: int = 0) -> Iterator[tuple[int, list[str]]]:
    """(number, words) of each case; a case depends on the seed and its number alone."""
    for number in range(first, first + count):
        yield number, make_words(random.Random(f"{seed}.{number}"))


def run_case(words: list[str], folder: Path) -> dict[str, object]:
    """Run the console command in a folder of its own; its code, seconds and last output."""
    folder.mkdir()
    streams = {name: folder / f".{name}" for name in ("out", "err")}
    started = time.monotonic()
    child = os.fork()
    if not child:
        _become_command(words, folder, streams)
    code = _wait(child)
    texts = {name: path.read_text(errors="replace")[-3000:] for name, path in streams.items()}
    return {"words": words, "code": code, "s": round(time.monotonic() - started, 1), **texts}


def _become_command(words: list[str], folder: Path, streams: Mapping[str, Path]) -> None:
    # A group of its own, so that a timeout ends what it has started, too.
    os.setpgid(0, 0)
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(streams[name], os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "HOME": str(folder)}
    command = ("-m", "gpu_profile", *words)
    become_call(Call(words=command, directory=str(folder), environ=env, umask=0o22))


def _wait(child: int) -> int | str:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def describe_defect(result: Mapping[str, object]) -> str:
    """What is wrong with a result; "" if nothing is."""
    code, err = result["code"], str(result["err"])
    if "Traceback" in err or "Traceback" in str(result["out"]):
        return "traceback"
    if code not in CODES:
        return f"exit code {code}"
    if code and not err.strip():
        return f"exit code {code} without a line"
    return "a control character on stderr" if "\x1b" in err else ""


def run_cases(seed: int, count: int, first: int = 0) -> int:
    """Run the cases in this process' sandbox; a line of JSON for each on stdout.

    A case runs in a fork, which has imported the verbs: a new Python takes 0.3 s of CPU more.
    """
    import_verbs()
    for number, words in list_cases(seed, count, first):
        result = run_case(words, Path(f"/tmp/work/{number}"))
        line = {"number": number, "defect": describe_defect(result), **result}
        print(json.dumps(line), flush=True)  # a fork would write what is not flushed, too
    return 0


def run(seed: int, count: int, first: int = 0) -> tuple[Counter[str], list[dict[str, object]]]:
    """(how many ended with each exit code, the defects); raises where no sandbox can be had."""
    words = ("--inside", "--seed", str(seed), "--count", str(count), "--first", str(first))
    argv = (sys.executable, "-m", "tests.fuzz.command_line", *words)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return Counter(str(r["code"]) for r in results), [r for r in results if r["defect"]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    numbers = (options.seed, options.count, options.first)
    if options.inside:
        sys.exit(run_inside(lambda: run_cases(*numbers)))
    tally, defects = run(*numbers)
    for defect in defects:
        print(json.dumps(defect, indent=1, ensure_ascii=False))
    print(f"seed {options.seed}: {dict(sorted(tally.items()))}, {len(defects)} defects")
    sys.exit(bool(defects))


if __name__ == "__main__":
    main()
