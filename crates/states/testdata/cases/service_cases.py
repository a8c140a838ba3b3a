"""Services under systemd and under something that can do less."""

from record_calls import Each, Raise

CASES = []


def services(status=True, enabled=True, masked=False, **more):
    listed = lambda value: value if isinstance(value, (Each, Raise)) else Each([value])
    answers = {
        "service.available": True, "service.status": listed(status), **({} if enabled is None else {"service.enabled": listed(enabled)}),
        "service.disabled": Each([not value if not isinstance(value, Raise) else value for value in listed(enabled)]) if not isinstance(enabled, Raise) else enabled,
        "service.enable": True, "service.disable": True, "service.start": True, "service.stop": True, "service.restart": True,
        "service.reload": True, "service.force_reload": True, "service.masked": listed(masked), "service.mask": True,
        "service.unmask": True, "service.offline": False, "service.get_all": ["a", "b"],
    }
    for name, answer in more.items():
        if answer is None:
            answers.pop("service." + name, None)
        else:
            answers["service." + name] = answer
    return answers


def add(state, make, booted=True, name="web", **kwargs):
    for test in (False, True):
        CASES.append({"state": state, "answers": make(), "args": [name], "kwargs": kwargs, "test": test, "booted": booted})


S = services
UP, DOWN = Each([False, True]), Each([True, False])
for state, there, change in (("service.running", True, UP), ("service.dead", False, DOWN)):
    for enable in (None, True, False, "true", "no"):
        kwargs = {} if enable is None else {"enable": enable}
        for enabled in (True, False):
            add(state, lambda: S(there, enabled), **kwargs)
            add(state, lambda: S(Each(change), enabled), **kwargs)
        add(state, lambda: S(Each(change), Each([not enable, not enable, bool(enable)])), **kwargs)
        add(state, lambda: S(not there), **kwargs)
        add(state, lambda: S(Each(change), False, enable=False, disable=False), **kwargs)
        add(state, lambda: S(Each(change), True, enable=Raise("unit is masked"), disable=False), **kwargs)
        add(state, lambda: S(there, not enable, enable=Raise("unit is masked"), disable=False), **kwargs)
        add(state, lambda: S(there, not enable, enable=False, disable=False), **kwargs)
        add(state, lambda: S(not there, not enable, start=False, stop=False), **kwargs)
        add(state, lambda: S(Each(change), True, enable=None, disable=None), **kwargs)
        add(state, lambda: S(Each(change), None, disabled=None), **kwargs)
    add(state, lambda: S(available=False))
    add(state, lambda: S(available=Raise("systemd is not there")))
    add(state, lambda: S(Each(change), available=None), name="a")
    add(state, lambda: S(Each(change), available=None), name="c")
    add(state, lambda: S(Each(change), available=None, get_all=None), name="c")
    add(state, lambda: S(offline=True))
    add(state, lambda: S(offline=None))
    add(state, lambda: S(), enabled=True)
    add(state, lambda: S(Each(change)), sig="web -x")
    add(state, lambda: S(Each(change)), init_delay=0.01)
    add(state, lambda: S(Each(change)), no_block=True, unmask=True, unmask_runtime=True)
    add(state, lambda: S(Each(change), masked=Each([True, False])), no_block=True, unmask=True)
    add(state, lambda: S(there, masked=Each([True, False])), unmask=True)
    add(state, lambda: S(there, False, masked=Each([True, False])), unmask=True, enable=True)
    add(state, lambda: S(there, masked=False), unmask=True)
    add(state, lambda: S(there, masked=None), unmask=True)
    add(state, lambda: S(Each(change)), no_block=True, unmask=True, unmask_runtime=True, booted=False)
add("service.running", lambda: S(False, start=Raise("Job for web.service failed")))
add("service.running", lambda: S(False, start=Raise("Job for web.service failed")), enable=True)
for state in ("service.enabled", "service.disabled"):
    want = state.endswith("enabled")
    for kwargs in ({}, {"root": "/mnt"}):
        add(state, lambda: S(enabled=want), **kwargs)
        add(state, lambda: S(enabled=not want), **kwargs)
        add(state, lambda: S(enabled=Each([not want, want])), **kwargs)
        add(state, lambda: S(enabled=not want, enable=False, disable=False), **kwargs)
        add(state, lambda: S(enabled=not want, enable=Raise("no"), disable=False), **kwargs)
    add(state, lambda: S(available=False))
    add(state, lambda: S(available=Raise("broken")))
    add(state, lambda: S(enable=None, disable=None))
for state in ("service.masked", "service.unmasked"):
    for kwargs in ({}, {"runtime": True}):
        for masked in (True, False, Each([True, False]), Each([False, True]), Raise("not found")):
            add(state, lambda: S(masked=masked), **kwargs)
        add(state, lambda: S(masked=None), **kwargs)
        add(state, lambda: S(masked=Each([False, True]), mask=Raise("Failed to mask")), **kwargs)
for kwargs in ({}, {"reload": True}, {"reload": True, "force": True}, {"full_restart": True}, {"init_delay": 0.01}, {"sig": "x"}, {"no_block": True, "unmask": True}):
    for status in (True, False):
        add("service.mod_watch", lambda: S(status), sfun="running", **kwargs)
        add("service.mod_watch", lambda: S(status, full_restart=True, reload=None), sfun="running", **kwargs)
        add("service.mod_watch", lambda: S(status), sfun="dead", **kwargs)
add("service.mod_watch", lambda: S(True, restart=False), sfun="running")
add("service.mod_watch", lambda: S(True, restart=Raise("Job failed")), sfun="running")
add("service.mod_watch", lambda: S(False, stop=None), sfun="running")
add("service.mod_watch", lambda: S(True), sfun="running", no_block=True, booted=False)
add("service.mod_watch", lambda: S(True), sfun="enabled")
add("service.mod_watch", lambda: S(True))

# What is watched afterwards.
LISTS = {"beacons.list": {}, "beacons.add": {"result": True, "comment": "Would add."}}
for kwargs in ({"sfun": "running", "beacon": True}, {"sfun": "dead", "beacon": True, "beacon_data": {"delay": 5, "emitatstartup": True}},
               {"sfun": "running"}, {"sfun": "enabled", "beacon": True}):
    add("service.mod_beacon", lambda: dict(LISTS), **kwargs)
