"""What pacing does to streams, what it costs, and what it hides from who watches the line."""
