"""An application of ASGI that does what its path says."""
import asyncio
import os

HERE = os.path.dirname(__file__)


def exists(name):
    return os.path.exists(os.path.join(HERE, name))


async def live(scope, receive, send):
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            if exists("broken"):
                await send({"type": "lifespan.startup.failed", "message": "no database"})
                return
            scope["state"]["born"] = os.getpid()
            await send({"type": "lifespan.startup.complete"})
        else:
            print("the room is closed")
            await send({"type": "lifespan.shutdown.complete"})
            return


async def talk(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    if scope["path"].endswith("/closed"):
        return await send({"type": "websocket.close"})
    if scope["path"].endswith("/busy"):
        await send({"type": "websocket.http.response.start", "status": 429, "headers": [(b"retry-after", b"7")]})
        return await send({"type": "websocket.http.response.body", "body": b"later"})
    if scope["path"].endswith("/forgets"):
        return
    await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[0], "headers": [(b"x-room", b"1")]})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            print("left with %d" % message["code"])
            return
        if message.get("text") == "bye":
            return await send({"type": "websocket.close", "code": 3001, "reason": "asked"})
        if message.get("text") == "die":
            raise ValueError("in the room")
        if message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


async def body_of(receive):
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise EOFError
        body, more = body + message["body"], message["more_body"]
    return body


async def answer(scope, receive, send):
    word = scope["path"].rpartition("/")[2]
    if word == "fails":
        raise ValueError("before the head")
    if word == "forgets":
        return
    if word == "cancels":
        raise asyncio.CancelledError
    if word == "large":
        # The head alone takes more than one piece.
        headers = [(b"x-%d" % number, b"x" * 1000) for number in range(20)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise ValueError("after a large head")
    if word == "listens":
        # Two tasks wait for the client's end.
        await body_of(receive)
        tasks = [asyncio.ensure_future(receive()) for _ in range(2)]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        for message in await asyncio.gather(*tasks):
            print("told %s" % message["type"])
        return
    body = await body_of(receive)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if word == "scope":
        names = ("type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path")
        fields = dict(scope["headers"])
        text = repr([scope[name] for name in names] + [fields[b"x-two-words"], fields.get(b"authorization"), scope["client"][0]])
        return await send({"type": "http.response.body", "body": text.encode()})
    if word == "born":
        return await send({"type": "http.response.body", "body": b"%d %d" % (scope["state"]["born"], os.getpid())})
    if word == "echo":
        for start in range(0, len(body), 100000):
            await send({"type": "http.response.body", "body": body[start:start + 100000], "more_body": True})
        return await send({"type": "http.response.body"})
    if word == "stream":
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        while not exists("go"):
            await asyncio.sleep(0.005)
        return await send({"type": "http.response.body", "body": b"second"})
    if word == "late":
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise ValueError("after the head")
    if word == "waits":
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        print("heard %s" % (await receive())["type"])
        return
    raise ValueError(word)


async def application(scope, receive, send):
    await {"lifespan": live, "websocket": talk, "http": answer}[scope["type"]](scope, receive, send)
