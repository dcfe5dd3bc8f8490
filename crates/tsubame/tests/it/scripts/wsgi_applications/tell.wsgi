"""Answers as its query says, or tells what it has been given."""
import io
import sys

TEXT = ("Content-Type", "text/plain")
SHOWN = "mod_wsgi.process_group mod_wsgi.application_group mod_wsgi.callable_object mod_wsgi.request_handler " \
    "mod_wsgi.handler_script mod_wsgi.script_reloading mod_wsgi.enable_sendfile mod_wsgi.ignore_activity " \
    "mod_wsgi.listener_host mod_wsgi.listener_port mod_wsgi.script_name mod_wsgi.path_info mod_wsgi.version".split()
DIFFERENT = "REMOTE_PORT SERVER_SOFTWARE SERVER_SIGNATURE UNIQUE_ID wsgi.errors wsgi.input wsgi.file_wrapper " \
    "wsgi.multithread apache.version".split()


class Pieces:
    def __init__(self, *pieces):
        self.pieces = list(pieces)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.pieces:
            raise StopIteration
        piece = self.pieces.pop(0)
        if isinstance(piece, Exception):
            raise piece
        return piece


def late(start):
    start("201 Created", [TEXT])
    yield b"late"


def written(start, fields, *pieces):
    write = start("200 OK", fields)
    for piece in pieces:
        write(piece)
    return [b"rest"]


def failed(start, first):
    write = start("200 OK", [TEXT])
    if first:
        write(first)
    try:
        raise KeyError("k")
    except KeyError:
        start("500 Oops", [TEXT], sys.exc_info())
        return [b"oops"]


def read(environ):
    body = environ["wsgi.input"]
    return [body.read(3), body.readline(), body.readline(4), body.readlines(5), body.readline(0), body.read(0),
            next(iter(body)), list(body), body.read(), body.read(4), body.readline(), body.readlines()]


def opened(offset):
    file = open(__file__, "rb")
    file.seek(offset)
    return file


def respond(status, fields, result):
    return lambda environ, start: (start(status, fields), result)[1]


def raising(problem):
    raise problem


ANSWERS = {
    "raise": lambda e, s: raising(ValueError("boom")),
    "exit": lambda e, s: sys.exit(3),
    "nostart": lambda e, s: [b"x"],
    "none": respond("200 OK", [TEXT], None),
    "text": respond("200 OK", [TEXT], ["text"]),
    "empty": respond("200 OK", [TEXT], []),
    "hollow": respond("200 OK", [TEXT], [b"", b""]),
    "one": respond("200 OK", [TEXT], [b"one"]),
    "several": respond("200 OK", [TEXT], [b"one", b"two", b"three"]),
    "tuple": respond("200 OK", [TEXT], (b"one", b"two")),
    "generator": lambda e, s: (s("200 OK", [TEXT]), (piece for piece in [b"one", b"", b"two"]))[1],
    "late": lambda e, s: late(s),
    "object": lambda e, s: (s("200 OK", [TEXT]), Pieces(b"one", b"two"))[1],
    "before": lambda e, s: (s("200 OK", [TEXT]), Pieces(ValueError("first")))[1],
    "write": lambda e, s: written(s, [TEXT], b"w1", b"", b"w2"),
    "writelong": lambda e, s: written(s, [TEXT, ("Content-Length", "4")], b"abcdef"),
    "long": respond("200 OK", [TEXT, ("Content-Length", "2")], [b"abc", b"def"]),
    "exact": respond("200 OK", [TEXT, ("Content-Length", "6")], [b"abc", b"def"]),
    "twice": lambda e, s: (s("200 OK", [TEXT]), s("201 Created", [TEXT]), [b"x"])[2],
    "excinfo": lambda e, s: failed(s, b""),
    "badstatus": respond("200", [TEXT], [b"x"]),
    "nostatus": respond("OK", [TEXT], [b"x"]),
    "numberstatus": respond(200, [TEXT], [b"x"]),
    "numberfield": respond("200 OK", [("A", 1)], [b"x"]),
    "linebreak": respond("200 OK", [("A", "b\nc: d")], [b"x"]),
    "widefield": respond("200 OK", [("A", "\u20ac")], [b"x"]),
    "notype": respond("200 OK", [], [b"x"]),
    "latin": respond("200 OK", [TEXT, ("X-L", "caf\xe9")], [b"x"]),
    "cookies": respond("200 OK", [TEXT, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("ETag", '"e"')], [b"x"]),
    "moved": respond("302 Found", [("Location", "http://h.example/")], [b"moved"]),
    "movedhere": respond("302 Found", [("Location", "/other")], [b"moved"]),
    "redirect": respond("200 OK", [TEXT, ("Location", "/app/again")], [b"moved"]),
    "401": respond("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="x"')], [b"who"]),
    "404": respond("404 Gone Fishing", [TEXT], [b"mine"]),
    "500": respond("500 Mine", [TEXT], [b"mine"]),
    "503": respond("503 Mine", [TEXT], []),
    "204": respond("204 No Content", [], []),
    "304": respond("304 Not Modified", [("ETag", '"e"')], []),
    "299": respond("299 Odd", [TEXT], [b"x"]),
    "file": lambda e, s: (s("200 OK", [TEXT]), e["wsgi.file_wrapper"](opened(7)))[1],
    "filepart": lambda e, s: (s("200 OK", [TEXT, ("Content-Length", "5")]), e["wsgi.file_wrapper"](opened(0), 100))[1],
    "memory": lambda e, s: (s("200 OK", [TEXT]), e["wsgi.file_wrapper"](io.BytesIO(b"from memory"), 4))[1],
    "input": lambda e, s: (s("200 OK", [TEXT]), [repr(read(e)).encode()])[1],
    "streams": lambda e, s: (s("200 OK", [TEXT]), [repr([sys.stdin.read(), sys.argv, sys.path[:2]]).encode()])[1],
}


def application(environ, start_response):
    answer = ANSWERS.get(environ["QUERY_STRING"])
    if answer:
        return answer(environ, start_response)
    shown = [(name, value) for name, value in sorted(environ.items()) if name not in DIFFERENT
             and (name in SHOWN or not name.startswith(("mod_wsgi", "REDIRECT_")))]
    text = "".join("%s=%r\n" % field for field in shown) + repr(environ["wsgi.input"].read())
    start_response("200 OK", [TEXT])
    return [text.encode()]


def other(environ, start_response):
    start_response("200 OK", [TEXT])
    return [b"the other one"]
