"""Make a copy of a report without secrets, paths, users and hosts, to be given away."""
