"""The tables of `nsys stats`, to the byte."""
