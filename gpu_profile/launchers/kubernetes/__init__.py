"""Launchers `mpijob`, `pytorchjob` and `trainjob`: jobs of a Kubernetes cluster."""
