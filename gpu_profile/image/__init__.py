"""The container image: from settings to a Dockerfile, a build, and the list of its contents."""
