"""Loads the script of an application: a file of Python that need not have a name that can be imported."""

import hashlib
import sys
import threading
import traceback
import types

lock = threading.RLock()
loaded = {}


class NotLoaded(Exception):
    """There is no application: the status of the response, and what the log should say."""

    def __init__(self, status, text):
        Exception.__init__(self, text)
        self.status = status


def application(file, name):
    """The object of that name in a script, which is run if it has not been yet."""
    with lock:
        module = loaded.get(file)
        if module is None:
            module = loaded[file] = load(file)
    found = getattr(module, name, None)
    if found is None:
        raise NotLoaded(404, "Target WSGI script '%s' does not contain WSGI application '%s'." % (file, name))
    return found


def load(file):
    """Runs a script as a module."""
    module = types.ModuleType("_mod_wsgi_" + hashlib.md5(file.encode("utf-8", "surrogateescape")).hexdigest())
    module.__file__ = file
    sys.modules[module.__name__] = module
    try:
        with open(file, "rb") as script:
            code = compile(script.read(), file, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except BaseException as problem:
        del sys.modules[module.__name__]
        where = "Failed to exec Python script file '%s'.\n" % file
        if isinstance(problem, SystemExit):
            where += "SystemExit exception raised by the script was ignored.\n"
        raise NotLoaded(500, where + formatted(problem)) from None
    return module


def formatted(problem):
    """A traceback without the lines of this program."""
    trace = problem.__traceback__.tb_next if problem.__traceback__ else None
    return "".join(traceback.format_exception(type(problem), problem, trace))
