"""Traces of torch.profiler (Kineto's JSON), read as a report of nsys."""
