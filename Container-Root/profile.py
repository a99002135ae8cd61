#!/usr/bin/env python3
"""`/profile.py` of the image: runs profile_ranks.py, whose help has the words.

Manifests and people name this path. It hides the standard library's `profile` from programs in
`/`, so nothing else is kept here.
"""

import runpy
import sys

AGENT = "/opt/gpu-profile/agent"

if __name__ == "__main__":
    sys.path[0] = AGENT
    runpy.run_path(f"{AGENT}/profile_ranks.py", run_name="__main__")
