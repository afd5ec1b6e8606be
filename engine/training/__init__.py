"""Recipe, data, loop, export of a head."""
