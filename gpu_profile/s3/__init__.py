"""Files in S3: parts of an upload, and the calls that take this machine's credentials."""
