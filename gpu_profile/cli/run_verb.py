"""Import and call the function of a verb."""

import contextlib
import importlib

from gpu_profile.cli.check_flags import check_flags
from gpu_profile.cli.table import find_verb
from gpu_profile.cli.verb import VerbOptions
from gpu_profile.process import one_math_thread


def run_verb(name: str, options: VerbOptions) -> None:
    """Check the flags, import the verb's module and call its function.

    Only the verb that runs is imported. Verbs that read reports start no job, so numpy may be
    limited to one thread by variables of the environment.
    """
    verb = find_verb(name)
    check_flags(options)
    reads = verb.module.startswith("reading.")
    with one_math_thread() if reads else contextlib.nullcontext():
        module = importlib.import_module(f"gpu_profile.verbs.{verb.module}")
        getattr(module, verb.function)(options)
