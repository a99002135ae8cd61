"""Verbs that read no report start without numpy, which takes 0.1 s."""

from gpu_profile.settings.places import ROOT
from tests.forked import start_python

CODE = """
import sys
from gpu_profile.verbs.image import build, describe, lock, registry
from gpu_profile.verbs.jobs import control, fetch, profile, reports, test
from gpu_profile.verbs.machine import host, kubernetes, quickstart, settings
print(sorted({"boto3", "docker", "msgspec", "numpy"} & set(sys.modules)))
"""


def test_verbs_of_jobs_images_and_machines_import_no_numpy() -> None:
    done = start_python(("-c", CODE), ROOT, {})
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
