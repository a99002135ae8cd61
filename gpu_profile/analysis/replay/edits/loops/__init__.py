"""Changes of loops over many small things: their passes are one."""
