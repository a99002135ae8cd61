"""The exact version and checksum of each download of the image, and how they are looked up."""
