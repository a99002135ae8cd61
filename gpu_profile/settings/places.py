"""The directories of this program: its own files, and later what it keeps for the user."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = _PACKAGE / "_files"

ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
"""The folder with Container-Root, k8s and tests/image: a clone, or the copy that a wheel holds.

pyproject.toml says what a wheel holds, in `force-include`.
"""
