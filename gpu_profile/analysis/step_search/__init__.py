"""Where the launches of a rank repeat: its steps, found without a mark of the program."""
