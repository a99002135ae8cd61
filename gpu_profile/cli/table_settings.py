"""The flags for settings, and the row of the verb init."""

from gpu_profile.cli.verb import Option, Verb

SET = (
    Option("set", (), "KEY=value: a setting of .env for this call; may be given again"),
    Option("env-file", "", "file to read settings from, in place of .env"),
)
SETTINGS = (
    *SET,
    Option("with-dependencies", False, "enable what the enabled components need"),
)
INIT = Verb(
    "init",
    "machine.init",
    "Write a settings file with every setting, its default and a comment.",
    (
        Option("user", False, "the user's own, for all directories; default: .env here"),
        Option("output", "", "file to write"),
    ),
)
