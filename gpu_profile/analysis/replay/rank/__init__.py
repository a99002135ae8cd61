"""What the replay needs of one rank, read where its report is."""
