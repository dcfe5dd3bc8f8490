"""Does what its path says."""
import os
import sys
import threading
import time
from wsgiref.validate import validator

TEXT = [("Content-Type", "text/plain")]
HERE = os.path.dirname(__file__)
together = threading.Barrier(4)
lock = threading.Lock()
count = 0


def exists(name):
    return os.path.exists(os.path.join(HERE, name))


def note(name):
    open(os.path.join(HERE, name), "w").close()


def wait_for(name):
    while not exists(name):
        time.sleep(0.005)


class Watched:
    """A response in pieces that notes when it is closed."""

    def __init__(self, pieces):
        self.pieces = pieces

    def __iter__(self):
        return self.pieces

    def close(self):
        note("closed")


def counted(environ):
    global count
    with lock:
        count += 1
        return ["%d %d" % (os.getpid(), count)]


def met(environ):
    together.wait(20)
    return counted(environ)


def first_then(name, problem=None):
    yield b"first"
    wait_for(name)
    if problem:
        raise problem
    yield b"second"


def endless():
    while True:
        yield b"x" * 10000


def summed(environ):
    """The length and the sum of the body, read in some way."""
    body, way = environ["wsgi.input"], environ["QUERY_STRING"]
    ways = {"all": lambda: [body.read()], "lines": lambda: list(body), "list": body.readlines,
            "pieces": lambda: iter(lambda: body.read(4096), b""), "line": lambda: iter(body.readline, b""),
            "short": lambda: iter(lambda: body.readline(100), b"")}
    length = total = 0
    for piece in ways[way]():
        length += len(piece)
        total += sum(piece)
    return ["%d %d" % (length, total)]


def slept(environ):
    time.sleep(60)
    return []


def killed(environ):
    os.kill(os.getpid(), 9)


def said(environ):
    print("to standard output")
    print("to standard error", file=sys.stderr)
    print("to the errors", file=environ["wsgi.errors"])
    return []


def valid(environ, start_response):
    environ["wsgi.input"].read(2)
    environ["wsgi.errors"].write("valid\n")
    environ["wsgi.errors"].flush()
    start_response("200 OK", TEXT)
    return [b"valid"]


ACTIONS = {"/count": counted, "/meet": met, "/sum": summed, "/sleep": slept, "/kill": killed, "/say": said}


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/valid":
        return validator(valid)(environ, start_response)
    if path == "/early":
        raise ValueError("before the head")
    start_response("200 OK", TEXT)
    if path == "/stream":
        return Watched(first_then("go"))
    if path == "/late":
        return Watched(first_then("go", ValueError("after the head")))
    if path == "/endless":
        return Watched(endless())
    if path == "/file":
        return environ["wsgi.file_wrapper"](open(os.path.join(HERE, "large"), "rb"))
    return [text.encode() for text in ACTIONS[path](environ)]
