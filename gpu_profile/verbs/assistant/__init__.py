"""The server for assistants: runs, findings, tables and events over the protocol MCP."""
