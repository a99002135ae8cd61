"""kubectl's calls, pods, operators and injectors, for the Kubernetes launchers and verbs."""
