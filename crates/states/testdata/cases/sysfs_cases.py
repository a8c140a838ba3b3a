"""Attributes of the kernel's objects."""

CASES = []
HUGE = "kernel/mm/transparent_hugepage/enabled"

for now in (False, {"a": 1}, "always [madvise] never", "never", "", 5, 0.5, 1):
    for value in ("never", "madvise", 5, 0.5, True, "5"):
        for done in (True, False):
            for test in (False, True):
                CASES.append({"state": "sysfs.present", "answers": {"sysfs.read": now, "sysfs.write": done}, "args": [HUGE, value], "test": test})
CASES.append({"state": "sysfs.present", "answers": {"sysfs.read": 5, "sysfs.write": True}, "args": [HUGE, 6], "kwargs": {"config": "x"}})
