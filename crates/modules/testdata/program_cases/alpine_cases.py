"""apk and OpenRC, as Salt 3007 calls them."""

from record_programs import Machine

CASES = []
SERVICES = """                acpid | default
            bootmisc | boot
                crond |                                       
                devfs | sysinit
             networking | default boot
                sshd |         default
           savecache | shutdown
                 ntpd |
"""
SIMULATED = """(1/2) Upgrading busybox (1.36.1-r4 -> 1.36.1-r5)
(2/2) Upgrading ssl_client (1.36.1-r4 -> 1.36.1-r5)
OK: 8 MiB in 15 packages
"""


class Alpine(Machine):
    fails = None

    def __init__(self, **more):
        self.__dict__.update(more)

    def changing(self, words):
        if words[0] == "apk":
            return words[1] in ("add", "del", "update") or words == ["apk", "upgrade"]
        return words[-1] != "status" and words[:2] != ["rc-update", "-v"]

    def answer(self, words, stage):
        if self.fails and self.fails in words:
            return ("(1/1) Installing x\n", "ERROR: unable to select packages", 1)
        if words[0] != "apk":
            if words[:2] == ["rc-update", "-v"]:
                return SERVICES
            return ("", "", 3) if words[-1] == "status" and "sshd" not in words[0] else ""
        if words[1:] == ["info", "-v"]:
            found = ["musl-1.2.4-r2", "busybox-1.36.1-r4", "ssl_client-1.36.1-r4", "alpine-baselayout-data-3.4.3-r1"]
            if stage > 0:
                found = ["musl-1.2.4-r2", "busybox-1.36.1-r5", "nginx-1.24.0-r7"]
            return "\n".join(found) + "\n"
        if words[1:] == ["upgrade", "-s"]:
            return SIMULATED
        if words[1] == "search":
            return {"nginx": "nginx-1.24.0-r7\nnginx-doc-1.24.0-r7\n", "musl": "musl-1.2.4-r2\nmusl-dev-1.2.4-r2\n"}.get(words[2], "")
        if words[1:3] == ["info", "-L"]:
            return "" if words[3] == "nope" else f"{words[3]}-1.0-r0 contains:\nusr/bin/{words[3]}\netc/{words[3]}.conf\n\n"
        if words[1:3] == ["info", "-W"]:
            return {"/bin/sh": "/bin/sh is owned by busybox-1.36.1-r5", "/none": "ERROR: /none: Could not find owner package"}.get(words[3], "")
        return "OK: 9 MiB in 16 packages\n"


def add(fun, *args, machine=None, crash=False, **kwargs):
    service = fun.startswith("service.")
    name = fun.split(".")[1]
    CASES.append({
        "provider": "gentoo_service" if service else "apkpkg", "fun": fun, "python": {"reload": "reload_"}.get(name, name),
        "args": list(args), "kwargs": kwargs, "machine": machine or Alpine(), "grains": {"os": "Alpine", "os_family": "Alpine"}, "crash": crash,
    })


for fun in ("get_all", "get_enabled", "get_disabled"):
    add("service." + fun)
for name in ("sshd", "crond", "networking", "nope"):
    for fun in ("available", "missing", "enabled", "disabled", "start", "stop", "restart", "reload", "zap", "status", "enable", "disable"):
        add("service." + fun, name)
    for levels in ("default", ["boot", "default"], ["boot"], ["sysinit"]):
        for fun in ("enable", "disable", "enabled"):
            add("service." + fun, name, runlevels=levels)
add("service.status", "*d")
add("service.status", "s[sa]*")
for fails in ("start", "add", "delete"):
    for fun in ("start", "enable", "disable"):
        add("service." + fun, "sshd", machine=Alpine(fails=fails))
    add("service.enable", "networking", runlevels=["sysinit"], machine=Alpine(fails=fails))
P = "pkg."
add(P + "list_pkgs")
add(P + "list_pkgs", versions_as_list=True)
add(P + "list_pkgs", purge_desired=True)
add(P + "version", "musl")
add(P + "version", "musl", "nope")
add(P + "refresh_db")
add(P + "refresh_db", machine=Alpine(fails="update"))
for names in (("busybox",), ("nginx",), ("musl",), ("nope",), ("busybox", "nginx", "musl", "nope"), ()):
    add(P + "latest_version", *names, refresh=False)
add(P + "latest_version", "musl")
add(P + "list_upgrades")
add(P + "list_upgrades", refresh=False)
add(P + "list_upgrades", refresh=False, machine=Alpine(fails="-s"))
add(P + "install", "nginx")
add(P + "install", "nginx,busybox")
add(P + "install", "nginx", refresh=True)
add(P + "install", "nginx", machine=Alpine(fails="add"))
add(P + "install", pkgs=[{"nginx": None}, {"busybox": "1"}])
add(P + "install")
add(P + "remove", "busybox")
add(P + "remove", "busybox,musl", purge=True)
add(P + "remove", pkgs=["busybox", "ssl_client"])
add(P + "remove", "busybox", machine=Alpine(fails="del"))
add(P + "remove")
add(P + "purge", "busybox")
add(P + "upgrade")
add(P + "upgrade", "busybox,musl", refresh=False)
add(P + "upgrade", pkgs=["busybox"], refresh=False)
add(P + "upgrade", refresh=False, machine=Alpine(fails="upgrade"))
add(P + "file_dict", "nginx", "nope")
add(P + "file_list", "nginx")
add(P + "file_list")
add(P + "owner", "/bin/sh", "/none", "/empty")
add(P + "owner", "/bin/sh")
add(P + "owner")
