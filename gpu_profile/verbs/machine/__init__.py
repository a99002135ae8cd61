"""doctor, counters, quickstart, config, check, k8s.*."""
