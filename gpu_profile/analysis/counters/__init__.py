"""GPU hardware metrics and GPU memory that nsys recorded."""
