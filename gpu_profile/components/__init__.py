"""The components of the image, one file each, and the table of all."""
