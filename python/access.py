"""Scripts that decide about access: each function of theirs is called as an application, whose status is the verdict."""

import tsubame_script as script

# What a function returns, and the status that says so to the server.
STATUSES = {True: "200 OK", False: "403 Forbidden", None: "404 Not Found"}
# The field that names the user otherwise than the client does.
USER = "Variable-WSGI_USER"


def application(handler):
    """The application that calls a function of a script for requests with these fields."""
    name, file = handler["handler"], handler["file"]

    def call(environ, start_response):
        # As in mod_wsgi, a changed script counts at once, whoever the old one has let in.
        function = getattr(script.current(file), name, None)
        if function is None:
            raise script.NotLoaded(500, "Target WSGI script '%s' does not provide '%s'." % (file, name))
        verdict, fields = CHECKS[name](function, environ, handler)
        if verdict is not None and type(verdict) is not bool:
            raise TypeError("%s() must return True, False or None, not %r" % (name, verdict))
        start_response(STATUSES[verdict], fields)
        return []

    return call


def allow_access(function, environ, handler):
    return function(environ, handler["host"]), []


def check_password(function, environ, handler):
    verdict = function(environ, handler["user"], handler["password"])
    return (True, [(USER, verdict)]) if isinstance(verdict, str) else (verdict, [])


def groups_for_user(function, environ, handler):
    wanted = handler["groups"].split("\n")
    return any(group in wanted for group in function(environ, handler["user"])), []


CHECKS = {check.__name__: check for check in (allow_access, check_password, groups_for_user)}
