"""Verbs for this machine: doctor, counters, quickstart, config, check, k8s.*."""
