"""Read the GPU operations, calls and ranges of a report, and make an Activity of each rank."""
