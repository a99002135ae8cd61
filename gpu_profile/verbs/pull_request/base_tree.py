"""The code of the base: a git worktree of a commit, beside the change and removed again."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_profile import files, process
from gpu_profile.command import Command, Result, make_command
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.progress import Progress

_ENVIRONMENTS = (".venv", "venv")


@dataclass(frozen=True, kw_only=True)
class BaseTree:
    """Where the base's code is, and where the change's is, which it stands for.

    `title` is what readers see: "main (1a2b3c4)". `commit`: what a worktree in `root` holds while
    open_tree runs; "" for a directory of --base-dir.
    """

    root: Path
    change: Path
    title: str
    commit: str = ""

    def move_path(self, path_text: str) -> str:
        """Return a path in the change as the same one in the base; any other as it is."""
        path = Path(path_text).expanduser().resolve()
        if not path.is_relative_to(self.change) or path.is_relative_to(self.root):
            return path_text
        return str(self.root / path.relative_to(self.change))

    def holds(self, moved: str) -> bool:
        """Return whether the base has what move_path named; a worktree need not be there yet."""
        if not self.commit:
            return Path(moved).exists()
        name = Path(moved).relative_to(self.root).as_posix()
        path = f"{self.commit}:{'' if name == '.' else name}"
        return not _ask("-C", str(self.change), "cat-file", "-e", path).returncode

    @property
    def add(self) -> tuple[Command, ...]:
        """The commands that make the worktree, with the virtual environments, which no commit
        holds.
        """
        # The repository's own hooks might build, or fetch from elsewhere.
        quiet = ("-c", "core.hooksPath=/dev/null")
        words = ("worktree", "add", "--quiet", "--detach", str(self.root), self.commit)
        links = (
            make_command("ln", "-s", str(self.change / name), str(self.root / name))
            for name in _ENVIRONMENTS
            if (self.change / name / "pyvenv.cfg").is_file()
            and not self.holds(str(self.root / name))
        )
        return make_command("git", *quiet, "-C", str(self.change), *words), *links

    @property
    def remove(self) -> Command:
        words = ("worktree", "remove", "--force", str(self.root))
        return make_command("git", "-C", str(self.change), *words)


def name_tree(directory: str) -> BaseTree:
    """Return the tree of --base-dir."""
    root = Path(directory).expanduser().resolve()
    if not root.is_dir():
        raise SettingsError(f"--base-dir {directory!r}: there is no such directory", "Make it")
    here = _ask("rev-parse", "--show-toplevel")
    change = Path.cwd() if here.returncode else Path(here.stdout.strip())
    return BaseTree(root=root, change=change.resolve(), title=root.name)


def find_tree(ref: str) -> BaseTree:
    """Return the tree of the commit in which the change left the base; without history, of the
    base's latest. It is made by open_tree, below the repository's .git.
    """
    top = _ask("rev-parse", "--show-toplevel")
    if top.returncode:
        hint = "Run it in one, or name the base's code by --base-dir"
        raise SettingsError(f"--base {ref}: this is not a git repository: {top.last_line}", hint)
    latest = _find_commit(ref)
    shared = _ask("merge-base", latest, "HEAD")
    commit = latest if shared.returncode else shared.stdout.strip()
    git = Path(_check(_ask("rev-parse", "--git-common-dir"), "asking git").stdout.strip())
    root = git.resolve() / "gpu-profile" / f"base-{commit[:12]}-{os.getpid()}"
    change = Path(top.stdout.strip()).resolve()
    return BaseTree(root=root, change=change, title=f"{ref} ({commit[:7]})", commit=commit)


def _find_commit(ref: str) -> str:
    """Return the commit of a branch, a tag or a commit, here or at origin."""
    for name in (ref, f"origin/{ref}"):
        # --end-of-options: a --base that begins with `-` is a name and no option of git.
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        commit = _ask(*words)
        if not commit.returncode:
            return commit.stdout.strip()
    hint = f"`git fetch origin {ref}` brings a branch; a checkout in CI needs fetch-depth: 0"
    raise SettingsError(f"--base {ref}: git knows no such commit", hint)


@contextlib.contextmanager
def open_tree(tree: BaseTree) -> Iterator[None]:
    """Check the base of find_tree out for the body, and remove those of killed processes.

    Raises ToolError where something is there.
    """
    sweep_trees(tree)
    if tree.root.exists():  # of a container with the same number of the process
        hint = f"`git worktree remove --force {tree.root}` removes what no process uses"
        raise ToolError(f"{tree.root} is there already", hint)
    lock = None
    try:
        for command in tree.add:
            _check(process.run(command), f"making a worktree of {tree.title}")
            lock = lock or files.lock_directory(tree.root)
        Progress().say(f"the base is {tree.title}, in {tree.root} while this runs")
        yield
    finally:
        _remove_tree(tree)
        os.close(lock) if lock else None


def sweep_trees(tree: BaseTree) -> None:
    """Remove the worktrees beside this one that a killed process left.

    A process holds the lock of its worktree. Where the file system has no locks, or between the
    making and the lock, the number of the process in the name tells that it lives.
    """
    for root in sorted(tree.root.parent.glob("base-*-*")):
        number = root.name.rpartition("-")[2]
        if number.isdecimal() and not Path("/proc", number).exists() and _is_free(root):
            _remove_tree(replace(tree, root=root))
            Progress().say(f"note: removed {root}, the base of a ci that was killed")


def _is_free(root: Path) -> bool:
    with contextlib.suppress(OSError):
        lock = files.lock_directory(root)
        os.close(lock) if lock else None
        return lock is not None
    return False


def _remove_tree(tree: BaseTree) -> None:
    removed = process.run(tree.remove) if tree.root.exists() else None
    if removed and removed.returncode:
        Progress().say(
            f"note: {tree.root} is left: {removed.last_line}; `{tree.remove}` removes it"
        )
    with contextlib.suppress(OSError):  # another call may have its base there
        tree.root.parent.rmdir()


def _ask(*words: str) -> Result:
    return process.run(make_command("git", *words))


def _check(result: Result, what: str) -> Result:
    if result.returncode:
        raise ToolError(
            f"{what} failed: {result.last_line}", "--base-dir names a directory instead"
        )
    return result
