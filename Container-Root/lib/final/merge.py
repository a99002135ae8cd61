"""Make one system of the components: merge their notes, drop what they removed, say what is in."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "/mnt/stage")

import fragments
import manifest


def remove(paths: list[str]) -> None:
    for path in map(Path, paths):
        if path.is_dir() and not path.is_symlink():
            continue  # another component may keep something in it
        path.unlink(missing_ok=True)


def announce(root: Path, names: list[str]) -> None:
    """sshd starts sessions with an empty environment: give it what the image's ENV has."""
    directory = root / "etc/ssh/sshd_config.d"
    if names and directory.is_dir():
        pairs = " ".join(f'"{name}={os.environ[name]}"' for name in names)
        (directory / "gpu-profile-env.conf").write_text(f"SetEnv {pairs}\n")


def name_python(root: Path) -> None:
    """People type `python`: Debian and Ubuntu have python3 only, unless asked for the other."""
    link = root / "usr/bin/python"
    if not link.is_symlink() and not link.exists():
        link.symlink_to("python3")


def parse_arguments() -> argparse.Namespace:
    """Names of the image's variables, and `--version nsys='nsys --version'` of each program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def main(names: list[str], versions: list[str]) -> None:
    root = Path("/")
    notes_dir = root / fragments.NOTES
    notes = sorted(notes_dir.iterdir()) if notes_dir.exists() else []
    fragments.merge(root, notes)
    for note in notes:
        remove((note / "removed").read_text().splitlines())
    shutil.rmtree(notes_dir, ignore_errors=True)
    name_python(root)
    subprocess.run(["ldconfig"], check=True)
    broken = subprocess.run(["dpkg", "--audit"], capture_output=True, text=True, check=True)
    if broken.stdout.strip():
        raise SystemExit(f"merge: the packages do not fit together:\n{broken.stdout}")
    announce(root, names)
    commands = dict(version.split("=", 1) for version in versions)
    manifest.write(root / "etc/gpu-profile/manifest.json", commands)


if __name__ == "__main__":
    arguments = parse_arguments()
    main(arguments.names, arguments.version)
