"""What a table is made of: analyses, statistics, groups, names."""
