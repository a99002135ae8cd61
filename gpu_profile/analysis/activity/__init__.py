"""The activity of one rank: operations, calls, ranges, steps, idle time, states."""
