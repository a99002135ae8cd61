"""The flags of the verbs: those of `gpu_profile/verbs/jobs/*.py` are in `jobs.py`."""
