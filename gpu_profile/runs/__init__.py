"""One run: submitted, followed, fetched, validated, recorded."""
