"""Answers to questions of packages."""

import os

import salt.utils.files
from record_calls import Said

CASES = []
LIST = "\n".join([
    "# Should a password be asked for?", "openssh-server\topenssh-server/permit-root\tboolean\tfalse",
    "openssh-server openssh-server/password   string   two words ", "tzdata\ttzdata/Areas\tselect\tEurope",
    "empty\tempty/one\tstring\t", "broken\tbroken/type\tstring", "x y z v", "xy\tq\tstring\t\t  v"])


def patch(module, root):
    def mkstemp(prefix, close_fd):
        path = "/tmp/{any}"
        os.makedirs("/tmp", exist_ok=True)
        return os.open("/dev/null", os.O_WRONLY), path

    salt.utils.files.mkstemp = mkstemp
    module.os = type("os", (), {"write": os.write, "close": os.close, "unlink": staticmethod(lambda path: None)})


def add(fun, *args, **more):
    CASES.append({"fun": "debconf." + fun, "module": "debconfmod", "args": list(args), "patch": patch, "judged": "set-selections", **more})


SAYS = [("get-selections", Said(LIST))]
add("get_selections", says=SAYS)
add("get_selections", False, says=SAYS)
add("get_selections", says=[("", Said(""))])
for name in ("openssh-server", "tzdata", "empty", "none", "broken"):
    add("show", name, says=SAYS)
for value in (["a"], ["a", "b", "c"], [True], ["true"], [3]):
    add("set", "pkg", "pkg/question", "string", *value) if not (len(value) > 1 and not all(isinstance(v, str) for v in value)) else None
for cached in ("/cache/file", False, ""):
    for kwargs in ({}, {"saltenv": "dev"}, {"other": 1}):
        add("set_file", "salt://x/answers", kwargs=kwargs, answers={"cp.cache_file": cached})
