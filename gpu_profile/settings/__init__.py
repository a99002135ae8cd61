"""Settings: .env, environment and command line as one checked value."""
