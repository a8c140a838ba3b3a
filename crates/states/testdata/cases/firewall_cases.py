"""Ports that can be reached."""

CASES = []
for result, comment in ((True, "Successfully connected to x (192.0.2.1) on tcp port 80"), (False, "Unable to connect to x")):
    for kwargs in ({}, {"port": 80}, {"port": 53, "proto": "udp", "timeout": 3, "family": "ipv4"}):
        for test in (False, True):
            CASES.append({"state": "firewall.check", "answers": {"network.connect": {"result": result, "comment": comment}}, "args": ["x"],
                          "kwargs": kwargs, "test": test})
