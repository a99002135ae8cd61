"""The server of the workers starts before numpy is imported, so that both are loaded at once."""

import subprocess
import sys

_IMPORTED = """
import sys
import gpu_profile.verbs.reading.html
assert "gpu_profile.analysis.multi_report.worker_server" in sys.modules
print("numpy" in sys.modules)
"""


def test_html_can_start_the_server_before_numpy_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED], check=True, capture_output=True, text=True
    )
    assert done.stdout == "False\n"
