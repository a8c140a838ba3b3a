"""Commands that run later."""

from record_calls import Said

CASES = []
QUEUE = "5\tThu Dec 11 19:48:47 2014 a root\n12\tMon Jan  5 03:05:00 2026 b alice"
RED_QUEUE = "5\t2014-12-11 19:48:00 a root\n12\t2026-01-05 03:05:00 b alice"
FIVE = "#!/bin/sh\n### SALT: nightly\n/bin/x"
TOLD = "warning: commands will be executed using /bin/sh\njob 12 at Mon Jan  5 03:05:00 2026"


def add(fun, *args, told=Said(TOLD), empty=False, **kwargs):
    for os_family in ("Debian", "RedHat"):
        queue = Said("" if empty else QUEUE if os_family == "Debian" else RED_QUEUE)
        says = [("atq$", queue), ("at -l$", queue), ("-c 5", Said(FIVE)), ("-c 12", Said("echo")), ("-c", Said("", 1)), ("-d", Said("")), ("", told)]
        CASES.append({"fun": "at." + fun, "args": list(args), "kwargs": kwargs, "says": says, "grains": {"os_family": os_family}})


for tag in ((), ("nightly",), (12,), ("none",)):
    add("atq", *tag)
add("atq", empty=True)
add("atrm")
add("atrm", 5)
add("atrm", "12")
add("atrm", "all", "nightly")
add("at", "12:05am", "/sbin/reboot")
add("at", "12:05am", "echo", "a", "3", tag="nightly", runas="jim")
add("at", "12:05am")
add("at", "odd", "x", told=Said("at: Garbled time", 1))
add("at", "now", "x", told=Said("commands will be executed in the future\njob 5 at x"))
add("at", "now", "x", told=Said("job 5 at x"))
for job in (5, "12", 99):
    add("atc", job)
add("jobcheck")
for asked in ({"runas": "root"}, {"tag": "nightly"}, {"hour": 3}, {"minute": "48", "hour": "19"}, {"day": 11, "month": 12}, {"year": "14"},
              {"year": "2026"}, {"runas": "root", "day": 5}, {"tag": "none"}):
    add("jobcheck", **asked)
add("jobcheck", runas="root", empty=True)
