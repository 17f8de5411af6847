"""Cases of a driver: each prints "ok NAME", or "FAILED NAME: reason" and the trace on standard error."""
import os
import sys
import traceback

URL = os.environ["AWS_ENDPOINT_URL"]
failed = []


def case(function):
    """Runs the function at once; its name is the name of the case."""
    name = function.__name__.replace("_", " ")
    try:
        function()
        print(f"ok {name}", flush=True)
    except Exception as error:
        traceback.print_exc()
        failed.append(name)
        print(f"FAILED {name}: {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
    return function


def same(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r}, wanted {wanted!r}")


def refused(kind, call, *args, **kwargs):
    """Returns the exception of this class that the call raises."""
    try:
        got = call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}; the call returned {got!r}")


def finish():
    sys.exit(1 if failed else 0)
