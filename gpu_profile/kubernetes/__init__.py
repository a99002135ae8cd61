"""What the Kubernetes launchers share: kubectl's calls, pods' words, manifests as data."""
