"""Read all reports of a run in parallel, with their ranks on one clock."""
