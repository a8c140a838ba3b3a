"""Users and groups."""

from record_calls import Each, Raise

CASES = []
GROUPS = {"root": 0, "users": 100, "wheel": 10, "admin": 10, "extra": 300, "alice": 1000, "bin": 2}
ALICE = {"name": "alice", "uid": 1000, "gid": 1000, "groups": ["alice", "users"], "home": "/tmp", "shell": "/bin/sh",
         "passwd": "x", "fullname": "Alice", "roomnumber": "", "workphone": "", "homephone": "", "other": ""}
SHADOW = {"name": "alice", "passwd": "$6$old", "lstchg": 19000, "min": 0, "max": 99999, "warn": 7, "inact": -1, "expire": -1}


def fakes(users, shadows=SHADOW, **more):
    answers = {
        "user.info": users if isinstance(users, Each) else Each([users]),
        "shadow.info": shadows if isinstance(shadows, Each) else Each([shadows]),
        "shadow.default_hash": "!", "shadow.gen_password": "$6$made",
        "group.info": lambda name, **kw: {"name": name, "gid": GROUPS[name], "members": [], "passwd": "x"} if name in GROUPS else {},
        "file.group_to_gid": lambda name: name if isinstance(name, int) else GROUPS.get(name, ""),
        "file.gid_to_group": lambda gid: gid if isinstance(gid, str) else next((n for n, g in GROUPS.items() if g == gid), ""),
        "file.mkdir": True, "user.add": True, "user.delete": True, "user.chgroups": True, "test.ping": True,
    }
    for name in ("uid", "gid", "home", "shell", "fullname", "roomnumber", "workphone", "homephone", "other"):
        answers["user.ch" + name] = True
    for name in ("set_password", "del_password", "lock_password", "unlock_password", "set_date", "set_mindays", "set_maxdays",
                 "set_inactdays", "set_warndays", "set_expire"):
        answers["shadow." + name] = True
    for name, answer in more.items():
        name = name.replace("__", ".", 1)
        if answer is None:
            answers.pop(name, None)
        else:
            answers[name] = answer
    return answers


def add(state, make, name="alice", **kwargs):
    for test in (False, True):
        CASES.append({"state": state, "answers": make(), "args": [name], "kwargs": kwargs, "test": test})


def to(**changes):
    """The account before, twice, and then as it becomes."""
    after = {**ALICE, **changes}
    return Each([dict(ALICE), dict(ALICE), dict(after)])


def secrets(**changes):
    after = {**SHADOW, **changes}
    return Each([dict(SHADOW), dict(SHADOW), dict(after)])


same = lambda: fakes(dict(ALICE))
P = "user.present"
add(P, same)
add(P, same, uid=1000, gid=1000, shell="/bin/sh", home="/tmp", fullname="Alice", groups=["users"])
add(P, lambda: fakes(to(shell="/bin/bash")), shell="/bin/bash")
add(P, lambda: fakes(to(shell="/bin/bash", uid=1001)), shell="/bin/bash", uid=1001, allow_uid_change=True)
add(P, same, shell="/bin/bash")
add(P, same, uid=1001)
add(P, same, gid=100)
add(P, same, uid=1001, gid=100)
add(P, lambda: fakes(to(gid=100, groups=["users"])), gid=100, allow_gid_change=True)
add(P, lambda: fakes(to(gid=100, groups=["users"])), gid="users", allow_gid_change=True)
add(P, lambda: fakes(to(groups=["alice", "users", "extra"])), groups=["users", "extra"])
add(P, lambda: fakes(to(groups=["alice", "extra"])), groups=["extra"])
add(P, lambda: fakes(to(groups=["alice", "users", "extra"])), groups=["extra"], remove_groups=False)
add(P, same, groups=["users"], remove_groups=False)
add(P, same, groups=[])
add(P, same, groups=["missing", "users"])
add(P, lambda: fakes({}), groups=["missing"])
add(P, lambda: fakes(to(groups=["alice", "users", "extra"])), groups=["users"], optional_groups=["extra", "missing"])
add(P, same, optional_groups=["missing"])
add(P, lambda: fakes({**ALICE, "groups": ["alice", "wheel", "admin"]}), groups=["wheel"])
add(P, lambda: fakes({**ALICE, "gid": 10, "groups": ["wheel", "admin", "users"]}), groups=["users"])
add(P, lambda: fakes(to(home="/home/a b")), home="/home/a b")
add(P, lambda: fakes(to(home="/nonexistent/alice")), home="/nonexistent/alice", persist_home=True)
add(P, lambda: fakes(to(home="/usr")), home="/usr")
add(P, lambda: fakes({**ALICE, "home": "/nonexistent/alice"}))
add(P, lambda: fakes({**ALICE, "home": "/nonexistent/alice"}), createhome=False)
add(P, lambda: fakes(to(fullname="A. L.", roomnumber="12", workphone="1", homephone="2", other="o")), fullname="A. L.", roomnumber=12, workphone="1", homephone=2, other="o")
add(P, same, fullname="A, L")
add(P, same, roomnumber="1,2")
add(P, lambda: fakes(dict(ALICE), secrets(passwd="$6$new")), password="$6$new")
add(P, lambda: fakes(dict(ALICE), secrets(passwd="$6$new")), password="$6$old")
add(P, lambda: fakes(dict(ALICE)), password="$6$new", enforce_password=False)
add(P, lambda: fakes(dict(ALICE), {**SHADOW, "passwd": "!"}), password="$6$new", enforce_password=False)
add(P, lambda: fakes(dict(ALICE)), password="clear", hash_password=True)
add(P, lambda: fakes(dict(ALICE), {**SHADOW, "passwd": "$6$salt$hash"}), password="clear", hash_password=True)
add(P, lambda: fakes(dict(ALICE), secrets(passwd="")), empty_password=True)
add(P, lambda: fakes(dict(ALICE), secrets(passwd="")), empty_password=True, password="$6$new")
add(P, lambda: fakes(dict(ALICE), secrets(passwd="!$6$old")), password_lock=True)
add(P, lambda: fakes(dict(ALICE)), password_lock=False)
add(P, lambda: fakes(dict(ALICE), {**SHADOW, "passwd": "!$6$old"}), password_lock=False)
add(P, lambda: fakes(dict(ALICE), secrets(max=90, min=1, warn=14, inact=5, expire=20000, lstchg=19500)), date=19500, mindays=1, maxdays=90, inactdays=5, warndays=14, expire=20000)
add(P, lambda: fakes(dict(ALICE), secrets(max=90)), maxdays=90)
add(P, lambda: fakes(dict(ALICE)), mindays=0, maxdays=99999)
add(P, lambda: fakes(dict(ALICE), shadow__info=None, shadow__default_hash=None), password="$6$new", maxdays=90)
add(P, lambda: fakes(to(shell="/bin/bash"), shadow__info=None), shell="/bin/bash")
add(P, lambda: fakes(to(shell="/bin/bash")), shell="/bin/bash", local=True)
add(P, same, usergroup=True)
add(P, same, usergroup=True, gid=100)
new = lambda **more: fakes(Each([{}, dict(ALICE)]), Each([{}, dict(SHADOW)]), **more)
add(P, new)
add(P, new, uid=1000, gid=1000, groups=["users"], home="/tmp", shell="/bin/sh", fullname="Alice", system=True, unique=False, local=True, usergroup=True)
add(P, new, createhome=False)
add(P, new, groups=["users"], optional_groups=["extra", "missing"])
add(P, new, optional_groups=["extra"])
add(P, new, password="$6$old")
add(P, new, password="$6$other")
add(P, new, empty_password=True)
add(P, lambda: fakes(Each([{}, dict(ALICE)]), Each([{}, {**SHADOW, "passwd": ""}])), empty_password=True)
add(P, new, date=19000, mindays=0, maxdays=99999, inactdays=1, warndays=7, expire=3)
add(P, lambda: new(user__add=False))
add(P, lambda: new(user__add="useradd: no space"))
add(P, lambda: new(shadow__info=None), password="$6$old")
A = "user.absent"
add(A, lambda: fakes({}))
add(A, lambda: fakes(dict(ALICE)), name="nobody-here")
add(A, lambda: fakes(dict(ALICE)), name="root", purge=True, force=True, local=True)
add(A, lambda: fakes(dict(ALICE), group__info=lambda name, **kw: {}), name="root")
add(A, lambda: fakes(dict(ALICE), user__delete=False), name="root")

TEAM = {"name": "team", "gid": 200, "passwd": "x", "members": ["a", "b"]}


def groups(info, **more):
    info = info if isinstance(info, Each) else Each([info])
    answers = {"group.getent": [TEAM, {"name": "users", "gid": 100, "members": []}], "group.add": True, "group.delete": True,
               "group.chgid": True, "group.adduser": True, "group.deluser": True, "group.members": True, "test.ping": True}
    looks = [0]

    def look(name, **kwargs):
        looks[0] += 1
        return dict(info[min(looks[0], len(info)) - 1])

    answers["group.info "] = look
    answers.update(more)
    answers["group.info"] = answers.pop("group.info ")
    return answers


def team(info, state="group.present", name="team", **kwargs):
    for test in (False, True):
        CASES.append({"state": state, "answers": groups(info), "args": [name], "kwargs": kwargs, "test": test, "ordered": True})


def becomes(**changes):
    return Each([dict(TEAM), {**TEAM, **changes}])


for info in (TEAM,):
    team(info)
    team(info, gid=200)
    team(info, gid="200")
    team(info, gid=201)
    team(info, gid="x")
    team(info, members=["b", "a"])
    team(info, members=["a", "c"])
    team(info, addusers=["c", "a"])
    team(info, delusers=["a", "z"])
    team(info, addusers=["c"], delusers=["a"])
    team(info, addusers=["a"], delusers=["a"])
    team(info, members=["a"], addusers=["b"])
    team(info, local=True)
team(becomes(gid=201), gid=201, non_unique=True)
team(becomes(members=["a", "c"]), members=["a", "c"])
team(becomes(members=["a", "b", "c"]), addusers=["c"])
team(becomes(members=["b"]), delusers=["a"])
team(Each([{**TEAM, "members": ["a"]}, {**TEAM, "members": []}]), members=[])
team({**TEAM, "members": ["a"]}, members=[])
fresh = lambda: Each([{}, dict(TEAM)])
team(fresh())
team(fresh(), gid=200, non_unique=True, system=True)
team(fresh(), gid=100)
team(fresh(), gid=200)
team(fresh(), gid=300)
team(fresh(), members=["a", "b"])
team(fresh(), addusers=["a", "b"], local=True)
team(fresh(), addusers=["q"])
for test in (False, True):
    CASES.append({"state": "group.present", "answers": groups({}, **{"group.add": False}), "args": ["team"], "test": test, "ordered": True})
    CASES.append({"state": "group.absent", "answers": groups(TEAM, **{"group.delete": False}), "args": ["team"], "test": test, "ordered": True})
team({}, "group.absent")
team(TEAM, "group.absent")
team(TEAM, "group.absent", local=True)
