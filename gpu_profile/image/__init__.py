"""From settings to a Dockerfile, a build and what is in the image."""
