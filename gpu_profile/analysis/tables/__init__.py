"""The building blocks of tables: analyses, statistics, groups, names."""
