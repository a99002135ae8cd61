"""The steps of a rank: by marks, by ranges, or by what repeats; and those that all ranks have."""
