"""`make fuzz`: hostile clients and hostile workers against a real gateway process.

A generator writes cases (`requests`, `answers`), a runner plays them on raw sockets (`clients`,
`workers`), and a judge says what is wrong with how they ended.
"""
