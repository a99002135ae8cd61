"""Image registries, such as Amazon ECR: log in, push, pull."""
