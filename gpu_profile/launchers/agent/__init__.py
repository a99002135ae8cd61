"""Jobs that Container-Root/agent/job.py keeps on some machine."""
