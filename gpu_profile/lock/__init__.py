"""gpu-profile.lock: exact versions, checksums and commits."""
