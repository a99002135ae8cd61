"""Image registries, Amazon ECR above all: log in, push, pull."""
