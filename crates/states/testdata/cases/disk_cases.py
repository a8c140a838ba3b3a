"""Block devices, and how full file systems are. /dev/null is there everywhere, /usr is a directory."""

import salt.utils.path
from record_calls import Each

CASES = []


def patch(module):
    salt.utils.path.which = lambda name: "/sbin/" + name


def add(state, answers, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": state, "answers": dict(answers), "args": list(args), "kwargs": kwargs, "test": test, "patch": patch})


OLD = {"getra": "256", "getfra": "256", "getro": "0"}
for new in (OLD, {"getra": "512", "getfra": "1", "getro": "1"}, {}):
    for device in (True, False):
        for kwargs in ({"read-ahead": 512}, {"read-only": True}, {"read-write": True}, {"filesystem-read-ahead": "1", "read-write": "True"}, {}):
            if new or not kwargs:
                add("blockdev.tuned", {"file.is_blkdev": device, "disk.dump": OLD, "disk.tune": new}, "/dev/x", **kwargs)
for found in ("ext4", Each(["", "ext4"]), Each(["xfs", "ext4"]), "xfs"):
    for kwargs in ({}, {"force": True, "inode_size": 512}):
        add("blockdev.formatted", {"cmd.run": found, "disk.format": True}, "/dev/null", "ext4", **kwargs)
add("blockdev.formatted", {"cmd.run": "", "disk.format": True}, "/no/such", "ext4")
USAGE = {"/": {"filesystem": "/dev/a", "1K-blocks": "1000", "used": "900", "available": "100", "capacity": "90%"}}
PATHS = ({"/usr": {"total": 3000, "available": 1000}}, {"/usr": {"total": 0, "available": 0}})
for path in PATHS:
    for name in ("/", "/usr", "/no/such"):
        for bounds in ({}, {"maximum": 95}, {"maximum": "80%"}, {"minimum": 50}, {"minimum": "95 %", "maximum": 99}, {"maximum": 101},
                       {"minimum": 50, "maximum": 40}, {"maximum": "x"}, {"minimum": -1}, {"maximum": 66.9}, {"minimum": 66}):
            for free in (False, True):
                add("disk.status", {"disk.usage": USAGE, "status.diskusage": path}, name, free=free, **bounds)
        for bounds in ({"maximum": "950 KB"}, {"minimum": "100KB"}, {"maximum": 50}, {"minimum": 1500, "maximum": 2500}, {"minimum": "odd"}):
            for free in (False, True):
                add("disk.status", {"disk.usage": USAGE, "status.diskusage": path}, name, absolute=True, free=free, **bounds)
