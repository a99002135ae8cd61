"""The image's components: a file each, and the table of all."""
