"""What the flags of verbs make: a job, its recording, its nsys options."""
