"""nccl-tests: run, read, judged."""
