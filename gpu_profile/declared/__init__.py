"""What components, launchers and settings declare: frozen values without behaviour of their own."""
