"""What host, ssh and slurm share: jobs that Container-Root/agent/job.py runs on a machine."""
