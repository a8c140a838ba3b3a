"""Time zone, modules and settings of the kernel, locales, crontabs."""

from record_calls import Each, Raise

CASES = []


def add(state, make, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": state, "answers": make(), "args": list(args), "kwargs": kwargs, "test": test})


def zone(same, clock="UTC", done=True):
    return lambda: {"timezone.zone_compare": same, "timezone.get_hwclock": clock, "timezone.set_zone": done,
                    "timezone.set_hwclock": done, "timezone.get_zone": "UTC"}


for same in (True, False):
    for clock in ("UTC", "localtime"):
        for done in (True, False):
            for utc in ({}, {"utc": False}):
                add("timezone.system", zone(same, clock, done), "Europe/Berlin", **utc)
add("timezone.system", zone(Raise("Zone does not exist")), "Mars/One")
add("timezone.system", zone(Raise("no such zone", kind="invocation")), "Mars/One")


def kernel(loaded=(), kept=(), load=None, remove=None, available=("a", "b", "c")):
    return lambda: {"kmod.mod_list": lambda only=False: list(kept if only else loaded), "kmod.available": list(available),
                    "kmod.load": load if load is not None else (lambda name, persist: [name]),
                    "kmod.remove": remove if remove is not None else (lambda name, persist, comment: [name])}


K = kernel
for persist in (False, True):
    add("kmod.present", K(), "a", persist=persist)
    add("kmod.present", K(["a"]), "a", persist=persist)
    add("kmod.present", K(["a"], ["a"]), "a", persist=persist)
    add("kmod.present", K(["a"], ["a"]), "x", mods=["a", "b"], persist=persist)
    add("kmod.absent", K(), "a", persist=persist)
    add("kmod.absent", K(["a"]), "a", persist=persist)
    add("kmod.absent", K([], ["a"]), "a", persist=persist, comment=False)
add("kmod.present", K(), "zz")
add("kmod.present", K(load=[]), "a")
add("kmod.present", K(load="modprobe: no"), "a")
add("kmod.present", K(load=["dep", "a"]), "a")
add("kmod.absent", K(["a"], remove=[]), "a")
add("kmod.absent", K(["a"], remove="in use"), "a")
add("kmod.absent", K(), "x", mods=["a", "b"])
add("kmod.absent", K(["a"]), "x", mods=["a", "b"])


def settings(shown, now, persist="Updated", config=True):
    answers = {"sysctl.show": shown, "sysctl.get": now, "sysctl.persist": persist}
    if config:
        answers["sysctl.default_config"] = "/etc/sysctl.d/99-salt.conf"
    return lambda: dict(answers)


for shown in (None, {}, {"net.x": "1"}):
    for now in ("1", "", "0", "1\t2", "1 2"):
        for value in (1, "1 2", "0"):
            add("sysctl.present", settings(shown, now), "net.x", value)
add("sysctl.present", settings({}, "1", config=False), "net.x", 1)
add("sysctl.present", settings({}, "1"), "net.x", 1, config="/etc/sysctl.d/my.conf")
add("sysctl.present", settings({}, "1", "Already set"), "net.x", 1)
add("sysctl.present", settings({}, "1", "odd"), "net.x", 1)
add("sysctl.present", settings({}, "1", Raise("sysctl -w failed: no such file")), "net.x", 1)


def locales(now="C", there=False, done=True):
    return lambda: {"locale.get_locale": now, "locale.set_locale": done, "locale.avail": there, "locale.gen_locale": done}


for done in (True, False):
    for there in (True, False):
        add("locale.present", locales(there=there, done=done), "de_DE.UTF-8")
    for now in ("C", "de_DE.UTF-8", Raise("no localectl")):
        add("locale.system", locales(now, done=done), "de_DE.UTF-8")
add("locale.system", locales(done=Raise("cannot write")), "de_DE.UTF-8")

JOB = {"minute": "1", "hour": "*", "daymonth": "*", "month": "*", "dayweek": "*", "identifier": "id", "cmd": "run me",
       "comment": "why", "commented": False}
PLAIN = {**JOB, "identifier": None, "cmd": "plain", "comment": None}
DAILY = {"spec": "@daily", "cmd": "daily", "identifier": "daily", "comment": None, "commented": False}
TAB = {"pre": ["# own"], "crons": [JOB, PLAIN], "special": [DAILY], "env": [{"name": "MAILTO", "value": "root"}, {"name": "E", "value": ""}]}


def cron(said="new"):
    return lambda: {"cron.list_tab": TAB, "cron.set_job": said, "cron.set_special": said, "cron.rm_job": said,
                    "cron.rm_special": said, "cron.set_env": said, "cron.rm_env": said, "cron.raw_cron": ""}


for said in ("new", "updated", "present", "cron refused"):
    add("cron.present", cron(said), " run me ")
    add("cron.present", cron(said), "daily", special="@daily")
    add("cron.env_present", cron(said), "MAILTO", "root")
for said in ("absent", "removed", "cron refused"):
    add("cron.absent", cron(said), "run me ")
    add("cron.absent", cron(said), "daily", special="@daily", user="alice")
    add("cron.env_absent", cron(said), " MAILTO ")
for kwargs in ({"minute": 1}, {"minute": "random"}, {"hour": "random"}, {"minute": 5, "hour": "*/2"}, {"comment": "why"},
               {"comment": "other"}, {"commented": True}, {"dayweek": "MON"}, {"user": "alice"}):
    add("cron.present", cron(), "run me", identifier="id", **{"minute": 1, **kwargs})
    add("cron.present", cron(), "changed", identifier="id", **kwargs)
    add("cron.present", cron(), "plain", **kwargs)
    add("cron.present", cron(), "plain", identifier=None, **kwargs)
    add("cron.present", cron(), "fresh", identifier="fresh", **kwargs)
for special in ("@daily", "@weekly"):
    for name in ("daily", "other"):
        for identifier in ({}, {"identifier": "daily"}, {"identifier": None}):
            add("cron.present", cron(), name, special=special, **identifier)
            add("cron.absent", cron("removed"), name, special=special, **identifier)
for identifier in ({}, {"identifier": "id"}, {"identifier": None}, {"identifier": "zzz"}):
    for name in ("run me", "plain", "nothing"):
        add("cron.absent", cron("removed"), name, **identifier)
for name in ("MAILTO", "E", "NEW"):
    for value in ("root", "x", "", None):
        add("cron.env_present", cron(), name, value)
    add("cron.env_absent", cron("removed"), name, user="alice")
