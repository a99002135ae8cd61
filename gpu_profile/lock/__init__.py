"""gpu-profile.lock: exact versions, checksums and commits of an image's downloads."""
