"""The parts that hostile answers are made of. Data only."""

STATUSES = (
    *(b"HTTP/1.1 %d x" % status for status in (201, 202, 204, 205, 206, 301, 302, 304, 307, 308)),
    *(b"HTTP/1.1 %d x" % status for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 499)),
    *(b"HTTP/1.1 %d x" % status for status in (500, 501, 502, 503, 504, 507, 599, 600, 1000, 20)),
    *(b"", b"HTTP/1.0 200 OK", b"HTTP/0.9 200 OK", b"HTTP/2 200 OK", b"HTTP/1.1 200"),
    *(b"ICY 200 OK", b"HTTP/1.1 -1 x", b"HTTP/1.1 200 \xff\x00"),
)
INTERIM = (
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 500,
    b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: a\r\n\r\n",
    b"HTTP/1.1 199 x\r\ncontent-length: 5\r\n\r\nhello",
    b"\r\n\r\n",
)
"""Before the answer."""
LINES = (
    *(b"content-length: %b" % value for value in (b"0", b"5", b"-1", b"5, 6", b"9" * 20)),
    *(b"content-length: 1\r\ncontent-length: 2", b"transfer-encoding : chunked"),
    *(b"transfer-encoding: %b" % value for value in (b"chunked", b"identity", b"gzip, chunked")),
    *(b"content-type: %b" % value for value in (b"", b"text/html", b"text/event-stream")),
    *(b"content-encoding: gzip", b"connection: close", b"connection: upgrade", b"upgrade: h2c"),
    *(b"location: http://10.0.0.1/secret", b"retry-after: never", b"set-cookie: a=b"),
    *(b"x-request-id: theirs", b"date: now", b"keep-alive: timeout=0", b"trailer: x"),
    *(b"x: \x00", b"x: a\rb", b"x: a\r\n b", b"x: \xff\xfe", b"x: " + b"y" * 9_000),
    *(b"no colon", b": a", b"a b: c", b"\xff: a"),
)
CHUNK_SIZES = (
    *(b"%(size)b;a=b", b"0%(size)b", b"0x%(size)b", b"-%(size)b", b"%(size)bg", b"%(size)b0"),
    *(b"", b" %(size)b", b"%(size)b ", b"1", b"f" * 17, b"7fffffffffffffff"),
    *(b"%(size)b;" + b"a" * 20_000,),
)
ENDS = (b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"0\r\ncontent-length: 9\r\n\r\n", b"")
LINE_ENDS = (b"\r\n", b"\r")
EXTRA = (b"\r\n", b"x", b"\x00" * 40, b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n\r\n")
FRAMES = (
    *(b"data: {\n\n", b"data: [1]\n\n", b"data: null\n\n", b"data:\n\n", b"\n\n", b"data\n\n"),
    *(b": comment\n\n", b"id: 1\nretry: 5\n\n", b"data: {}\n" * 500 + b"\n", b"data: {}\r\n\r\n"),
    *(b"data: [DONE]\n\n", b"data: [DONE] \n\n", b"data:[DONE]\n\n", b"data: {}\r\r"),
    *(b"event: error\ndata: {}\n\n", b"event: response.failed\ndata: {}\n\n"),
    *(b"event: message_stop\ndata: {}\n\n", b"event: response.completed\ndata: {\n\n"),
    *(b'data: {"error":{"message":"a","code":400}}\n\n', b'data: {"error":1}\n\n'),
    *(b'data: {"error":null}\n\n', b'data: {"object":"error"}\n\n', b"\xef\xbb\xbfdata: {}\n\n"),
    *(b"data: \xff\xfe\n\n", b'data: {"a":"\xed\xa0\x80"}\n\n', b"data: " + b"9" * 5_000 + b"\n\n"),
    *(b"data: " + b"[" * 100_000 + b"\n\n", b"x" * 70_000 + b"\n\n"),
    *(b'data: {"choices":[],"usage":%b}\n\n' % usage for usage in (b"{}", b"1", b"null")),
    *(b'data: {"choices":[],"usage":{"prompt_tokens":%b}}\n\n' % n for n in (b'"a"', b"1e400")),
    *(b'data: {"choices":[{}],"usage":{"completion_tokens":%b}}\n\n' % n for n in (b"-1", b"9e9")),
)
BODIES = (
    *(b"", b"{", b"[]", b"null", b"1", b"\xff", b'{"a":NaN}', b"x" * (2**20 + 9)),
    *(b"[" * 100_000, b'{"a":' * 50_000, b'{"usage":1}', b'{"metrics":[]}'),
    *(b'{"usage":{"prompt_tokens":1e400}}', b'{"usage":{"completion_tokens":"a"}}'),
    b'{"metrics":{"speculative_decoding":{"per_step_drafted":["a"]}}}',
    b'{"metrics":{"speculative_decoding":{"per_step_drafted":[%b]}}}' % (b"9" * 40),
)
TOKENS = (
    *(b"\r\n", b"\n\n", b"\r\n\r\n", b"\x00", b"\xff", b'"', b"{", b"}", b"\\", b"data: "),
    *(b"[DONE]", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"event: error\n", b'"usage":{'),
    *(b"9" * 25, b"a" * 3_000),
)
"""What a mutation puts into a valid answer."""
