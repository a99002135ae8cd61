"""The start of the console command and of `./inv`: handlers of signals first, then Invoke.

./inv calls `python -m gpu_profile.cli.start VERB`. It runs Invoke's own program, which finds the
clone's tasks.py.
"""

import runpy

from gpu_profile.cli.early_signals import install_early_handlers


def main() -> None:
    """Run the console command `gpu-profile`."""
    install_early_handlers()
    from gpu_profile.cli import tasks  # imports Invoke and the table of verbs

    tasks.main()


if __name__ == "__main__":
    install_early_handlers()
    runpy.run_module("invoke", run_name="__main__", alter_sys=True)
