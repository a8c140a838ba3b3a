"""SELinux."""

from record_calls import Each

CASES = []


def add(fun, answers, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": "selinux." + fun, "answers": dict(answers), "args": list(args), "kwargs": kwargs, "test": test})


for name in ("enforcing", "Permissive", "disabled", 1, 0, "on", "off", "odd", True):
    for mode in ("Enforcing", "Permissive", "Disabled"):
        for config in ("Enforcing", "Disabled", None):
            for done in ("Enforcing", "Permissive"):
                add("mode", {"selinux.getenforce": mode, "selinux.getconfig": config, "selinux.setenforce": done}, name)
BOOLEANS = {"a": {"State": "on", "Default": "on"}, "b": {"State": "off", "Default": "on"}, "c": {"State": "on", "Default": "off"}}
for done in (True, False):
    answers = {"selinux.list_sebool": BOOLEANS, "selinux.setsebools": done}
    for persist in ({}, {"persist": True}):
        for name in ("a", "b", "c", "none"):
            for value in (True, "off", 0, "odd", None):
                add("boolean", answers, name, value, **persist)
        for booleans in (["a", "b"], {"a": True, "c": "off"}, ["b", {"a": False}, "c"], ["a", "none"], []):
            for value in (True, None):
                add("boolean", answers, "a", value, booleans, **persist)
MODULES = {"nagios": {"Enabled": True, "Version": None}, "mysql": {"Enabled": False, "Version": "1"}}
for done in (True, False):
    answers = {"selinux.list_semod": MODULES, "selinux.setsemod": done, "selinux.install_semod": done, "selinux.remove_semod": done}
    for name in ("nagios", "mysql", "none"):
        for state in ("Enabled", "disabled", True, "off"):
            add("module", answers, name, state)
            add("module", answers, name, state, "1")
        for more in ({"install": True}, {"install": True, "source": "salt://x.pp"}, {"remove": True}, {"install": True, "remove": True}):
            add("module", answers, name, **more)
        add("module_remove", answers, name)
    add("module_install", answers, "/tmp/x.pp")
POLICY = {"filespec": "/srv", "filetype": "all files", "sel_user": "u", "sel_role": "r", "sel_type": "t", "sel_level": "s0"}
for policy in (POLICY, None):
    for code in (0, 1):
        said = {"pid": 1, "retcode": code, "stdout": "", "stderr": "it's odd" if code else ""}
        answers = {"selinux.filetype_id_to_string": "all files", "selinux.fcontext_get_policy": policy, "selinux.fcontext_add_policy": said,
                   "selinux.fcontext_delete_policy": said}
        for kind in ("t", "other"):
            add("fcontext_policy_present", answers, "/srv", kind)
            add("fcontext_policy_present", answers, "/srv", kind, "d", "u", "s0")
            add("fcontext_policy_absent", answers, "/srv", sel_type=kind)
        add("fcontext_policy_absent", answers, "/srv", "d", sel_user="u")
for differing in ("", "Would relabel /srv"):
    for said in ({"retcode": 0, "changes": {"/srv": {"old": {}, "new": {}}}}, {"retcode": 1, "stderr": "no"}):
        for recursive in (True, False):
            add("fcontext_policy_applied", {"selinux.fcontext_policy_is_applied": differing, "selinux.fcontext_apply_policy": said}, "/srv",
                recursive)
PORT = {"sel_type": "http_port_t", "protocol": "tcp", "port": "80"}
for policy in (PORT, None, Each([None, PORT]), Each([None, None, PORT]), Each([PORT, None])):
    for code in (0, 1):
        said = {"pid": 1, "retcode": code, "stdout": "", "stderr": "no"}
        answers = {"selinux.port_get_policy": policy, "selinux.port_add_policy": said, "selinux.port_modify_policy": said,
                   "selinux.port_delete_policy": said}
        add("port_policy_present", answers, "tcp/80", "http_port_t")
        add("port_policy_present", answers, "web", "http_port_t", "tcp", 80, "s0")
        add("port_policy_absent", answers, "tcp/80")
        add("port_policy_absent", answers, "web", "http_port_t", "tcp", 80)
