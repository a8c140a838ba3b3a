"""How logs are rotated."""

CASES = []
for done in (True, False):
    for current in (False, True, 2, "weekly", {"rotate": 2}):
        for value in (2, "2", True, False, "weekly", "x y"):
            for setting in ({}, {"setting": 2}, {"setting": "3"}, {"setting": True}, {"setting": False}):
                for test in (False, True):
                    CASES.append({"state": "logrotate.set", "called": "set_", "answers": {"logrotate.get": current, "logrotate.set": done},
                                  "args": ["x", "/var/log/wtmp", value], "kwargs": {**setting, "conf_file": "/etc/l.conf"}, "test": test})
