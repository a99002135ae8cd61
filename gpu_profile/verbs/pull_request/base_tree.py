"""The code of the base: a git worktree of a commit, beside the change and removed again."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_profile import process
from gpu_profile.command import Command, Result, make_command
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.progress import Progress

_ENVIRONMENTS = (".venv", "venv")


@dataclass(frozen=True, kw_only=True)
class BaseTree:
    """Where the base's code is, and where the change's is, which it stands for.

    `title` is what readers see: "main (1a2b3c4)".
    """

    root: Path
    change: Path
    title: str

    def move_path(self, path_text: str) -> str:
        """Return a path in the change as the same one in the base; any other as it is."""
        path = Path(path_text).expanduser().resolve()
        if not path.is_relative_to(self.change) or path.is_relative_to(self.root):
            return path_text
        return str(self.root / path.relative_to(self.change))


@dataclass(frozen=True, kw_only=True)
class _Commit:
    root: Path
    place: Path
    commit: str
    title: str

    @property
    def add(self) -> Command:
        # The repository's own hooks might build, or fetch from elsewhere.
        quiet = ("-c", "core.hooksPath=/dev/null")
        words = ("worktree", "add", "--quiet", "--detach", str(self.place), self.commit)
        return make_command("git", *quiet, "-C", str(self.root), *words)

    @property
    def remove(self) -> Command:
        words = ("worktree", "remove", "--force", str(self.place))
        return make_command("git", "-C", str(self.root), *words)


def name_tree(directory: str) -> BaseTree:
    """Return the tree of --base-dir."""
    root = Path(directory).expanduser().resolve()
    if not root.is_dir():
        raise SettingsError(f"--base-dir {directory!r}: there is no such directory", "Make it")
    here = _ask("rev-parse", "--show-toplevel")
    change = Path.cwd() if here.returncode else Path(here.stdout.strip())
    return BaseTree(root=root, change=change.resolve(), title=root.name)


def plan_tree(ref: str) -> tuple[BaseTree, tuple[Command, ...]]:
    """Return the tree that open_tree(ref) would give, and its commands, for --dry-run."""
    found = _find_commit(ref)
    tree = BaseTree(root=found.place, change=found.root, title=found.title)
    return tree, (found.add, found.remove)


@contextlib.contextmanager
def open_tree(ref: str) -> Iterator[None]:
    """Check the base out where plan_tree(ref) says, below the repository's .git, for the body."""
    found = _find_commit(ref)
    found.place.parent.mkdir(parents=True, exist_ok=True)
    _check(process.run(found.add), f"making a worktree of {found.title}")
    try:
        _link_environments(found)
        Progress().say(f"the base is {found.title}, in {found.place} while this runs")
        yield
    finally:
        process.run(found.remove)
        with contextlib.suppress(OSError):  # another call may have its base there
            found.place.parent.rmdir()


def _find_commit(ref: str) -> _Commit:
    """Return the commit in which the change left the base; without history, the base's latest."""
    top = _ask("rev-parse", "--show-toplevel")
    if top.returncode:
        hint = "Run it in one, or name the base's code by --base-dir"
        raise SettingsError(f"--base {ref}: here is no git repository: {top.said}", hint)
    named = (
        _ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        for name in (ref, f"origin/{ref}")
    )
    latest = next((found.stdout.strip() for found in named if not found.returncode), "")
    if not latest:
        hint = f"`git fetch origin {ref}` brings a branch; a checkout in CI needs fetch-depth: 0"
        raise SettingsError(f"--base {ref}: git knows no such commit", hint)
    shared = _ask("merge-base", latest, "HEAD")
    commit = latest if shared.returncode else shared.stdout.strip()
    git = Path(_check(_ask("rev-parse", "--git-common-dir"), "asking git").stdout.strip())
    place = git.resolve() / "gpu-profile" / f"base-{commit[:12]}-{os.getpid()}"
    root = Path(top.stdout.strip()).resolve()
    return _Commit(root=root, place=place, commit=commit, title=f"{ref} ({commit[:7]})")


def _link_environments(found: _Commit) -> None:
    """Let the base use the change's virtual environment, which no commit holds."""
    for name in _ENVIRONMENTS:
        source, link = found.root / name, found.place / name
        if (source / "pyvenv.cfg").is_file() and not link.exists():
            link.symlink_to(source)


def _ask(*words: str) -> Result:
    return process.run(make_command("git", *words))


def _check(result: Result, what: str) -> Result:
    if result.returncode:
        raise ToolError(f"{what} failed: {result.said}", "--base-dir names a directory instead")
    return result
