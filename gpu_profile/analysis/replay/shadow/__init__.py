"""The program without the profiler: what it takes of the host, and the step that is left."""
