"""What one rank did: operations, calls, ranges, steps, idle time, states."""
