"""The parts that hostile requests are made of: what has broken HTTP servers before. Data only."""

from collections.abc import Mapping

METHODS = (
    *b"GET HEAD PUT DELETE OPTIONS CONNECT TRACE PATCH PRI M-SEARCH post POSTPOST".split(),
    *(b"", b"\x00", b"P OST", b"\xff", b"A" * 5_000),
)
TARGETS = (
    *b"/ // * /v1/models/%00 /v1/models/%zz /v1/models/%2e%2e /v1/models/ /metrics".split(),
    *b"http://a/v1/models a:1 /v1/chat/completions/ /v1/chat/completions?x=%00#f".split(),
    *b"http://[::1 http://a:b@c:99999/ /.%2e/.%2e/ /%f0%9f%99%82 \\ /v1/../v1/models".split(),
    *(b"", b"/\x00", b"/\xff\xfe", b"/a b", b"/v1/models\t", b"/" + b"a" * 70_000),
)
VERSIONS = (
    *b"HTTP/1.0 HTTP/0.9 HTTP/1.2 HTTP/2.0 HTTP/11 HTTP/1.1.1 http/1.1 HTTP/ ICY".split(),
    *(b"", b"HTTP/1.1 ", b"HTTP/1.\x00", b"HTTP/9999999999.1"),
)
LINE_ENDS = (b"\n", b"\r", b"\r\r\n", b"\r\n ")

_FRAMING_VALUES: Mapping[bytes, tuple[bytes, ...]] = {
    b"content-length": (
        *b"0 1 +5 -1 0x10 1_0 5,6 4\t4 \xb2".split(b" "),
        *(b"", b"5, 5", b"4 4", b"9" * 30),
    ),
    b"transfer-encoding": (
        *b'chunked CHUNKED identity xchunked "chunked" , chunked;q=1'.split(),
        *(b"chunked, chunked", b"gzip, chunked", b"chunked, identity"),
        *(b"\x0bchunked", b"chunked\x00", b"\r\n chunked"),
    ),
    b"transfer-encoding ": (b"chunked",),
    b" transfer-encoding": (b"chunked",),
    b"transfer-encoding\r\n": (b"chunked",),
    b"transfer_encoding": (b"chunked",),
    b"x: a\ncontent-length": (b"0",),
    b"x: a\rtransfer-encoding": (b"chunked",),
}
_OTHER_VALUES: Mapping[bytes, tuple[bytes, ...]] = {
    b"upgrade": (b"h2c", b"websocket", b"", b"h2c, HTTP/1.0", b"\xff"),
    b"connection": (b"close", b"keep-alive, x", b"upgrade", b"\x00"),
    b"expect": (b"100-continue", b"200-ok", b""),
    b"host": (b"", b"a b", b"a:99999999", b"\xff"),
    b"authorization": (b"", b"Bearer", b"Basic e", b"Bearer \xff", b"a" * 9_000),
    b"x-api-key": (b"", b"\xff", b"a" * 9_000),
    b"x-pacing": (b"smooth", b"off", b"private", b"", b"\xff"),
    b"x-request-id": (b"", b"a b", b"a\tb", b"\xff", b"a" * 300),
    b"accept": (b"\xe4", b"*/*", b"text/event-stream", b"a\x01"),
    b"traceparent": (b"00-", b"\xff", b"00-%b-%b-01" % (b"0" * 32, b"0" * 16)),
    b"content-encoding": (b"gzip", b"identity", b"\xff"),
    b"content-type": (b"", b"text/plain", b"multipart/form-data"),
    b"a": (b"\x00", b"b\rc", b"b\r\n c", b"\x7f", b"\xe2\x82\xac", b" " * 5_000),
    b"": (b"no name",),
    b"a b": (b"c",),
    b"a\x00": (b"b",),
    b"\xff": (b"a",),
    b"(a)": (b"b",),
    b"x" * 300: (b"a",),
    b"origin": (b"null",),
    b"te": (b"trailers",),
    b"range": (b"bytes=0-",),
    b"http2-settings": (b"a",),
    b"proxy-connection": (b"a",),
}


def _lines(values: Mapping[bytes, tuple[bytes, ...]]) -> tuple[bytes, ...]:
    return tuple(name + b": " + value for name, some in values.items() for value in some)


FRAMINGS = _lines(_FRAMING_VALUES)
"""Headers that say, or pretend to say, where a body ends."""
LINES = (*FRAMINGS, *_lines(_OTHER_VALUES), b"no colon")

CHUNK_SIZES = (
    *b"%(size)x %(size)X 0000%(size)x 0x%(size)x -%(size)x +%(size)x %(size)d 1".split(),
    *b"%(size)xg %(size)x;a %(size)x;a=b;c 7fffffffffffffff fffffffffffffffff".split(),
    *(b"", b"%(size)x ", b" %(size)x", b"%(size)x\t", b"%(size)x\x00", b"%(size)x;a=\x00"),
    *(b"%(size)x;a=\n", b'%(size)x;a="\r\n', b"%(size)x;" + b"a" * 20_000),
)
LAST_CHUNKS = (b"0", b"00", b"0;a", b"-0", b"0 ", b"")
TRAILERS = (b"", b"content-length: 5\r\n", b"host: b\r\n", b"x: \x00\r\n", b"x\r\n")

BODIES = (
    *(b"", b"[]", b"null", b"1", b'"', b"{", b"{}", b"\x00", b"{'a':1}"),
    *(b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b'{"a":"\xed\xa0\x80"}', b'{"a":"\\ud800"}'),
    *(b"[" * 100_000, b'{"a":' * 50_000, b" " * 9_000 + b"{}"),
    *(b'{"model":1e999,"messages":[]}', b'{"messages":[],"messages":1}'),
    *(b'{"messages":[],"a":NaN}', b'{"messages":[],"a":%b}' % (b"9" * 5_000)),
)
FIELDS = (
    *("model", "messages", "prompt", "stream", "stream_options", "n", "user", "fake"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens"),
    *("prediction", "speculation", "pacing", "vllm_xargs", "cache_salt"),
)
"""What the gateway and the fake worker read."""
VALUES = (
    *b'null true false 0 -1 1.5 1e400 -0 1e-5 [] {} [[]] [1,"a"] {"":{}} "" "a"'.split(),
    *(b'"\\u0000"', b'"\\ud800"', b'"\xf0\x9f\x99\x82"', b'"' + b"a" * 9_000 + b'"'),
    *(b"9" * 400, b"-" + b"9" * 30, b"[" * 900 + b"]" * 900, b"NaN", b"{,}", b"tru", b'{"a":1'),
    *(b'{"include_usage":1}', b'{"mode":[]}', b'{"mode":"\\n"}', b'{"max_draft_tokens":1e3}'),
    *(b'{"type":"content","content":"aaaa"}', b'{"type":"content","content":"\\ud83d"}'),
    *(b'{"type":"content","content":[{"type":"text"}]}',),
    *(b'{"specgate_tenant":"a","specgate_mode":{}}',),
)
TOKENS = (
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\x00", b" ", b"\t", b":", b"\xff", b"%00"),
    *(b"0\r\n\r\n", b"content-length: 3\r\n", b"transfer-encoding: chunked\r\n"),
    *(b"upgrade: h2c\r\n", b"Connection: close\r\n", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.0"),
    *(b'"', b"{", b"}", b"9" * 25, b"a" * 3_000),
)
"""What a mutation puts into a valid request."""
