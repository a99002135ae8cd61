"""What findings know of one rank: the facts that many rules read, and sums that two rules share."""
