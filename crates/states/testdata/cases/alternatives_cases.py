"""Alternatives. The state module went out of Salt with 3008: recorded with 3007.17."""

from record_calls import Each

CASES = []


def add(fun, answers, *args):
    for test in (False, True):
        CASES.append({"state": "alternatives." + fun, "answers": dict(answers), "args": list(args), "test": test})


for exists in (True, False, Each([False, True])):
    for installed in (True, False):
        add("install", {"alternatives.check_exists": exists, "alternatives.check_installed": installed, "alternatives.install": "odd"},
            "editor", "/usr/bin/editor", "/usr/bin/vim", 50)
    for current in ("/usr/bin/vim", False):
        add("remove", {"alternatives.check_exists": exists, "alternatives.remove": "", "alternatives.show_current": current}, "editor",
            "/usr/bin/vim")
for shown in ("editor - auto mode\n  link", "editor - manual mode\n  link", "no alternatives"):
    add("auto", {"alternatives.display": shown, "alternatives.auto": "using /bin/nano"}, "editor")
for shown in ("editor - auto mode\n/bin/nano - priority 1\n/usr/bin/vim - priority 2", "no alternatives"):
    for current in ("/usr/bin/vim", "/bin/nano", Each(["/bin/nano", "/usr/bin/vim"]), False):
        add("set", {"alternatives.display": shown, "alternatives.set": "", "alternatives.show_current": current}, "editor", "/usr/bin/vim")
# `set` has another name in the file.
for case in CASES:
    if case["state"] == "alternatives.set":
        case["called"] = "set_"
