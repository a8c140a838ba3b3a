"""Services with scripts on Debian and CentOS 6."""

import glob
import os
import types

from record_programs import Machine

CASES = []
SCRIPT = "#!/bin/sh\n"
DEBIAN = {f"/etc/init.d/{name}": SCRIPT for name in ("ssh", "cron", "networking", "nginx", "README")}
DEBIAN.update({"/etc/rc2.d/S01ssh": "", "/etc/rc2.d/S02cron": "", "/etc/rc2.d/K01nginx": "", "/etc/rcS.d/S10networking": "", "/etc/rc3.d/S01nginx": ""})
SIX = {f"/etc/init.d/{name}": SCRIPT for name in ("sshd", "crond", "httpd", "own")}
SIX.update({"/etc/init.d/functions": "no\n", "/etc/rc.d/rc3.d/S99own": "", "/etc/rc.d/rc3.d/K15httpd": ""})
CHKCONFIG = """crond          \t0:off\t1:off\t2:on\t3:on\t4:on\t5:on\t6:off
httpd          \t0:off\t1:off\t2:off\t3:off\t4:off\t5:off\t6:off
own            \t0:off\t1:off\t2:off\t3:off\t4:off\t5:off\t6:off
sshd           \t0:off\t1:off\t2:on\t3:on\t4:on\t5:on\t6:off
gone           \t0:off\t1:off\t2:on\t3:on\t4:on\t5:on\t6:off

xinetd based services:
\trsync:         \toff
"""


class Scripts(Machine):
    level = "N 2\n"
    fails = None

    def __init__(self, **more):
        self.__dict__.update(more)

    def changing(self, words):
        if "runlevel" in words[0] or "--list" in words:
            return False
        return words[-1] != "status"

    def answer(self, words, stage):
        if "runlevel" in words[0]:
            return self.level
        if words == ["chkconfig", "--list"]:
            return CHKCONFIG
        if "--list" in words:
            lines = [line for line in CHKCONFIG.splitlines() if line.split()[:1] == words[-1:]]
            return "\n".join(lines) if lines else ("", f"error reading information on service {words[-1]}: No such file or directory", 1)
        if words[-1] == "status":
            return "running" if words[1] in ("ssh", "cron", "sshd") else ("stopped", "", 3)
        return ("", "failed", 1) if self.fails and self.fails in words else ""


def add(provider, fun, *args, machine=None, files=None, **kwargs):
    def patch(module, root):
        module.glob = types.SimpleNamespace(glob=lambda pattern: glob.glob(root + pattern))
        if provider == "rh_service":
            module.HAS_UPSTART = False
            module._service_is_sysv = lambda name: os.access(f"{root}/etc/init.d/{name}", os.X_OK)

    CASES.append({
        "provider": provider, "fun": "service." + fun, "python": {"reload": "reload_"}.get(fun, fun), "args": list(args), "kwargs": kwargs,
        "machine": machine or Scripts(), "grains": {"os": "Debian"}, "files": files or {}, "patch": patch,
    })


for provider, files, machine, names in (
    ("debian_service", DEBIAN, Scripts(), ("ssh", "nginx", "networking", "nope")),
    ("debian_service", DEBIAN, Scripts(level="unknown\n"), ("ssh", "nginx", "nope")),
    ("debian_service", DEBIAN, Scripts(level="2 3\n"), ("ssh", "nginx")),
    ("rh_service", SIX, Scripts(level="N 3\n"), ("sshd", "httpd", "own", "gone", "nope")),
    ("rh_service", SIX, Scripts(level="unknown\n"), ("sshd", "own", "nope")),
):
    for fun in ("get_all", "get_enabled", "get_disabled"):
        add(provider, fun, machine=machine, files=files)
    for name in names:
        for fun in ("available", "missing", "enabled", "disabled", "status", "start", "stop", "restart", "reload", "enable", "disable"):
            add(provider, fun, name, machine=machine, files=files)
        if provider == "rh_service":
            add(provider, "delete", name, machine=machine, files=files)
            add(provider, "available", name, limit="sysvinit", machine=machine, files=files)
            add(provider, "missing", name, limit="upstart", machine=machine, files=files)
        else:
            add(provider, "force_reload", name, machine=machine, files=files)
    add(provider, "status", "*d", machine=machine, files=files)
    add(provider, "status", "[sc]*", machine=machine, files=files)
for fails in ("start", "insserv", "update-rc.d"):
    add("debian_service", "start", "ssh", machine=Scripts(fails=fails), files=DEBIAN)
    add("debian_service", "enable", "ssh", machine=Scripts(fails=fails), files=DEBIAN)
for fails in ("start", "--add", "on", "--del"):
    for name in ("sshd", "nope"):
        for fun in ("start", "enable", "delete"):
            add("rh_service", fun, name, machine=Scripts(fails=fails), files=SIX)
for limit in ("upstart", "sysvinit"):
    for fun in ("get_all", "get_enabled", "get_disabled"):
        add("rh_service", fun, limit=limit, machine=Scripts(level="N 3\n"), files=SIX)
