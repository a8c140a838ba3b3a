"""Answers to questions of packages."""

CASES = []


def add(fun, answers, *args, tests=(False, True), **kwargs):
    for test in tests:
        CASES.append({"state": "debconf." + fun, "module": "debconfmod", "answers": dict(answers), "args": list(args), "kwargs": kwargs,
                      "test": test})


for done in (True, False):
    files = {"debconf.set_file": done, "debconf.set_template": done}
    add("set_file", files, "x", "salt://x/answers")
    add("set_file", files, "x", "salt://x/answers", saltenv="dev")
    add("set_file", files, "x", "salt://x/answers", "jinja")
    add("set_file", files, "x", "salt://x/answers", "jinja", {"a": 1}, {"b": 2}, saltenv="dev")
    add("set_file", files, "x", "salt://x/answers", context="odd")
    add("set_file", files, "x", "salt://x/answers", defaults=["odd"])
KNOWN = [["pkg/mode", "select", "fast"], ["pkg/on", "boolean", "true"], ["pkg/count", "string", "3"], ["pkg/secret", "password", "x"]]
for known in (KNOWN, None):
    for done in (True, False):
        answers = {"debconf.show": known, "debconf.set": done}
        for data in ({"pkg/mode": {"type": "select", "value": "fast"}}, {"pkg/mode": {"type": "select", "value": "slow"}},
                     {"pkg/on": {"type": "boolean", "value": True}, "pkg/off": {"type": "boolean", "value": False}},
                     {"pkg/count": {"type": "string", "value": 3}, "pkg/mode": {"type": "select", "value": "fast"}},
                     {"pkg/on": {"type": "boolean", "value": "yes"}, "pkg/count": {"type": "string", "value": 4}}, {}):
            add("set", answers, "pkg", data)
        # A test shows the password.
        add("set", answers, "pkg", {"pkg/secret": {"type": "password", "value": "y"}}, tests=(False,))
