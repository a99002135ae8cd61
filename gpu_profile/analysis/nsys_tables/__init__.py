"""The tables of `nsys stats`, equal to the byte."""
