"""What costs time, and what to try."""
