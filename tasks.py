"""Invoke's way to the verbs in a clone: `invoke VERB`, or `./inv VERB`."""
# ruff: noqa: E402 - the later imports take 0.1 s, in which a signal would find no handler

import sys
from pathlib import Path

from gpu_profile.cli.early_signals import install_early_handlers

install_early_handlers()

from gpu_profile.cli.table import VERBS
from gpu_profile.cli.tasks import choose_verbs, make_collection, refuse_bad_command_line
from gpu_profile.settings.places import use_clone_places

_PROGRAM = Path(sys.argv[0])

use_clone_places()
namespace = make_collection(choose_verbs(VERBS, sys.argv))
if _PROGRAM.stem in {"invoke", "inv"} or _PROGRAM.parent.name == "invoke":
    refuse_bad_command_line(namespace, sys.argv)
