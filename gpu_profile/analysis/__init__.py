"""Reading reports: databases in, tables out. Importing this package alone costs nothing."""
