"""What is turned on and off in Apache. The functions behind it went out of Salt with 3008, the states did not."""

from record_calls import Raise

CASES = []


def add(state, answers, *args):
    for test in (False, True):
        CASES.append({"state": state, "answers": dict(answers), "args": list(args), "test": test})


for kind, short in (("conf", "conf"), ("module", "mod"), ("site", "site")):
    for on in (True, False):
        for fun, wanted in (("enabled", "en"), ("disabled", "dis")):
            for status in ("Site name enabled", "Site name disabled", "Site name Not found", 2, 1):
                add(f"apache_{kind}.{fun}", {f"apache.check_{short}_enabled": on, f"apache.a2{wanted}{short}": {"Status": status}}, "name")
            add(f"apache_{kind}.{fun}", {f"apache.check_{short}_enabled": on, f"apache.a2{wanted}{short}": Raise("no such program")}, "name")
