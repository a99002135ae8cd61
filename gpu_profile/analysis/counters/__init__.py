"""What nsys sampled or counted of the GPU itself: its metrics, its memory."""
