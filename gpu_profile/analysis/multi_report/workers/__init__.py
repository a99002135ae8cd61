"""The processes that read reports: their server, their number and their memory."""
