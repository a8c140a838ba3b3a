"""Block devices."""

from record_calls import Said

CASES = []
FACTS = "\n".join(str(number) for number in range(12)) + "\n"


def add(fun, *args, says=None, **kwargs):
    for code in (0, 1):
        told = says or [("getro", Said(FACTS if not code else "", code)), ("", Said("", code, "refused" if code else ""))]
        CASES.append({"fun": "disk." + fun, "args": list(args), "kwargs": kwargs, "says": told})


add("dump", "/dev/x")
add("dump", "/dev/x", ["getra", "getro"])
for settings in ({"read-ahead": 1024}, {"filesystem-read-ahead": "8", "read-only": True}, {"read-write": "True"}, {"read-write": False}, {"odd": 1},
                 {"read-ahead": 5, "odd": 1, "read-only": "yes"}, {}):
    add("tune", "/dev/x", **settings)
    add("tune", "/dev/x", says=[("getro", Said(FACTS)), ("", Said(""))], **settings)
add("wipe", "/dev/x")
add("resize2fs", "/dev/x")
for fs_type in ("ext4", "xfs", "vfat", "btrfs"):
    add("format", "/dev/x", fs_type)
    add("format", "/dev/x", fs_type, inode_size=512, lazy_itable_init=1, fat=16, force=True)
    add("format", "/dev/x", fs_type, fat=3)
add("format", "/dev/x", says=[("sync", Said("", 1))])
