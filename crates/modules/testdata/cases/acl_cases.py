"""Access control lists of files."""

from record_calls import Raise, Said

CASES = []
PLAIN = "# file: /srv/a\n# owner: root\n# group: wheel\nuser::rw-\ngroup::r--\nother::---\n"
FULL = """# file: /srv/d
# owner: root
# group: wheel
# flags: s-t
user::rwx
user:alice:rw-
user:bob:rwx\t\t\t#effective:r-x
group::r-x
group:staff:--x
mask::r-x
other::--x
default:user::rwx
default:user:alice:r--
default:group::r-x
default:mask::r-x
default:other::---
"""
FLAGS = "# file: /srv/f\n# owner: 1001\n# group: 1002\n# flags: -s-\nuser::---\ngroup::-w-\nother::rwx\n"
NONE = "getfacl: /srv/none: No such file or directory"


def add(fun, *args, says="", **kwargs):
    CASES.append({"fun": "acl." + fun, "module": "linux_acl", "args": list(args), "kwargs": kwargs, "says": [("", says)]})


add("version", says="getfacl 2.3.1")
for text in (PLAIN, FULL, FLAGS, PLAIN + "\n" + FULL, FULL + "\n" + FLAGS, NONE, NONE + "\n" + PLAIN, ""):
    add("getfacl", "/srv/a", says=text)
    add("getfacl", "/srv/a", "/srv/the d", says=text, recursive=True)
add("getfacl", "/srv/a", says=PLAIN, recursive=False)
for fun in ("getfacl", "wipefacls"):
    add(fun)
    add(fun, recursive=True)
add("wipefacls", "/srv/a")
add("wipefacls", "/srv/a", "/srv/b c", recursive=True)
KINDS = ["user", "u", "group", "g", "mask", "m", "other", "o", "default:user", "d:u", "default:group", "d:group", "d:mask", "default:other"]
for kind in KINDS:
    add("modfacl", kind, "alice", "rwx", "/srv/a")
    add("modfacl", kind, "", 5, "/srv/a", "/srv/b", recursive=True)
    add("delfacl", kind, "alice", "/srv/a")
    add("delfacl", kind, "", "/srv/a", "/srv/b c", recursive=True)
add("modfacl", "user", "alice", "rwx")
add("modfacl", "user", "alice")
add("modfacl", "user")
add("delfacl", "user", "alice")
add("delfacl", "user")
for strict in (True, False):
    add("modfacl", "user", "nobody9", "r", "/srv/a", raise_err=strict)
add("modfacl", "user", "nobody9", "r", "/srv/a", raise_err=True, says=Raise("Command 'setfacl' failed with return code: 2"))
