"""Access control lists of files."""

from record_calls import Raise

CASES = []


def entry(name, octal):
    return {name: {"permissions": {"read": octal & 4 > 0, "write": octal & 2 > 0, "execute": octal & 1 > 0}, "octal": octal}}


def file(path, user=(), group=(), defaults=None):
    found = {"comment": {"file": path, "owner": "root", "group": "wheel"}, "user": [entry("root", 7), *(entry(*u) for u in user)],
             "group": [entry("wheel", 5), *(entry(*g) for g in group)], "mask": [entry("", 7)], "other": [entry("", 0)]}
    if defaults is not None:
        found["defaults"] = {"user": [entry("root", 7), *(entry(*u) for u in defaults)], "group": [entry("wheel", 5)], "other": [entry("", 0)]}
    return {path: found}


def without_perms(module):
    """Salt hands the permissions to delfacl as if they were a file."""
    real = module.__salt__["acl.delfacl"]
    module.__salt__["acl.delfacl"] = lambda kind, name, perms, *files, **kwargs: real(kind, name, *files, **kwargs)


def add(fun, files, *args, done=True, **kwargs):
    answers = {"acl.getfacl": files, "acl.modfacl": done, "acl.wipefacls": True, "acl.delfacl": True}
    for test in (False, True):
        spec = {"state": "acl." + fun, "module": "linux_acl", "answers": answers, "args": list(args), "kwargs": kwargs, "test": test}
        if fun == "absent":
            spec["patch"] = without_perms
        CASES.append(spec)


ETC = "/etc"
ALICE = file(ETC, user=[("alice", 6)], group=[("staff", 1)], defaults=[("alice", 4)])
TREE = {**file(ETC, user=[("alice", 7)], defaults=[("alice", 7)]), **file("/etc/passwd", user=[("alice", 6)])}
SAME = {**file(ETC, user=[("alice", 6)], defaults=[("alice", 6)]), **file("/etc/passwd", user=[("alice", 6)])}
PLAIN = {**file(ETC, user=[("alice", 6)]), **file("/etc/passwd")}
for kind, name in (("user", "alice"), ("user", "bob"), ("group", "staff"), ("group", ""), ("mask", ""), ("other", ""), ("default:user", "alice"),
                   ("d:user", "bob"), ("d:group", ""), ("odd", "x"), ("default:odd", "x")):
    for perms in ("rw", "rwx", "r-x", "---", "rwX"):
        add("present", ALICE, ETC, kind, name, perms)
    add("present", file(ETC), ETC, kind, name, "rw", force=True)
    add("absent", ALICE, ETC, kind, name)
    if not kind.startswith("d"):
        add("absent", TREE, ETC, kind, name, "rwx", recurse=True)
for files in (TREE, SAME, PLAIN):
    for kind in ("user", "default:user", "d:user"):
        for perms in ("rw", "rwx", "rwX", "rX"):
            add("present", files, ETC, kind, "alice", perms, recurse=True)
add("present", {}, "/nonexistent/x", "user", "alice", "r")
add("present", ALICE, ETC, "user", "bob", "r", done=Raise("no such user"), force=True)
add("present", ALICE, ETC, "user", "alice", "r", done=Raise("no such user"))
add("absent", {}, "/nonexistent/x", "user", "alice")
TWO = file(ETC, user=[("alice", 6), ("bob", 6)], defaults=[("alice", 6)])
for kind in ("user", "default:user", "d:user", "group"):
    for perms in ("rw", "rwx", "-"):
        for names in (["alice"], ["bob"], ["cleo"], ["cleo", "dora"], ["alice", "bob"]):
            # Salt sets all entries once for each that differs; ours sets them once.
            if kind != "group" and names == ["alice", "bob"] and perms != "rw":
                continue
            add("list_present", TWO, ETC, kind, names, perms)
            add("list_absent", TWO, ETC, kind, names)
            add("list_absent", TWO, ETC, kind, names, recurse=True)
add("list_present", file(ETC), ETC, "default:user", ["alice"], "rw")
add("list_present", TWO, ETC, "user", ["cleo", "dora"], "rw", recurse=True, force=True)
add("list_present", TWO, ETC, "user", ["alice"], "r", done=Raise("no such user"))
add("list_present", TWO, ETC, "user", ["cleo"], "r", done=Raise("no such user"))
add("list_present", {}, "/nonexistent/x", "user", ["alice"], "r")
add("list_absent", TWO, ETC, "odd", ["alice"])
add("list_absent", {}, "/nonexistent/x", "user", ["alice"])
