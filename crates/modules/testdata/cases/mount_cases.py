"""Mounting, swap spaces, the table of mounts."""

from record_calls import Each, Said

CASES = []
TABLE = """# /etc/fstab
UUID=11-22 / ext4 errors=remount-ro,noatime 0 1
/dev/sda2\tnone\tswap\tsw\t0\t0
/dev/sdb1 /data xfs defaults 0 2
srv:/export  /nfs nfs ro,hard
tmpfs /tmp tmpfs size=1g 0 0

broken line
//srv/my\\040share /mnt/share cifs user=x 0 0
"""
ACTIVE = {"/mnt/a": {"device": "/dev/sdz1", "fstype": "ext4", "opts": ["rw"]}}
ON = {"/dev/s1": {"type": "partition", "size": "1", "used": "0", "priority": "-2"}}


def add(fun, *args, **more):
    def patch(module, root):
        module.active = lambda extended=False: module.__salt__["mount.active"]()
        module.swaps = lambda: module.__salt__["mount.swaps"]()

    more.setdefault("answers", {"mount.active": ACTIVE, "file.mkdir": True})
    CASES.append({"fun": "mount." + fun, "args": list(args), "patch": patch, **more})


FILES = {"fstab": TABLE}
for args in (["/data", "/dev/sdb1", "xfs"], ["/data", "/dev/sdb1", "xfs", "defaults", 0, 2], ["/new", "/dev/sdc1", "ext4"],
             ["/new", "/dev/sdc1", "ext4", ["ro", "noexec"], 1, 2], ["/", "UUID=11-22", "ext4", "noatime,errors=remount-ro", 0, 1],
             ["/tmp", "tmpfs", "tmpfs", "size=2g"], ["/tmp2", "tmpfs", "tmpfs", "size=1g"], ["/nfs", "srv:/export", "nfs", "ro,hard"],
             ["/nfs", "other:/export", "nfs", "ro"], ["/mnt/share", "//srv/my\\ share", "cifs", "user=x"],
             ["none", "/dev/sda2", "swap", ["sw"], 0, 0], ["none", "/dev/sda3", "swap", ["defaults"], 0, 0]):
    for kwargs in ({}, {"test": True}, {"match_on": "name"}, {"match_on": ["name", "device"]}, {"not_change": True}):
        add("set_fstab", *args, kwargs={**kwargs, "config": "{dir}/fstab"}, files=FILES)
add("set_fstab", "/a", "/dev/a", "ext4", kwargs={"config": "{dir}/none"})
add("set_fstab", "/a", "/dev/a", "ext4", kwargs={"config": "{dir}/fstab", "match_on": 3}, files=FILES)
add("set_fstab", "/a", "/dev/a", "ext4", kwargs={"config": "{dir}/fstab"}, files={"fstab": ""})
for name, device in (("/data", "/dev/sdb1"), ("/data", None), ("/data", "/dev/x"), ("/none", None), ("/tmp", "tmpfs")):
    add("rm_fstab", name, device, "{dir}/fstab", files=FILES)
add("fstab", "{dir}/fstab", files=FILES)
add("fstab", "{dir}/none")

FAILS = [("mount", Said("", 32, "mount: no such device"))]
for says in ([], FAILS):
    add("mount", "/mnt/a", says=says)
    add("mount", "/mnt/a", "/dev/sdz1", says=says)
    add("mount", "/mnt/a", "/dev/sdz1", True, "ext4", "ro,noexec", "alice", says=says)
    add("mount", "{dir}/here", "/dev/sdz1", True, "ext4", ["ro", "noexec"], says=says)
    add("mount", "{dir}/here/deep", "/dev/sdz1", kwargs={"mkmnt": True, "user": "bob"}, says=says)
    add("mount", "/mnt/a", "/dev/sdz1", kwargs={"util": "other"}, says=says)
    for name in ("/mnt/a", "/mnt/b"):
        add("remount", name, "/dev/sdz1", says=says)
        add("remount", name, "/dev/sdz1", False, "ext4", "ro,remount", "alice", says=says)
        add("remount", name, "/dev/sdz1", fstype_ := False, "xfs", ["ro"], says=says)
        add("umount", name, says=says)
        add("umount", name, "/dev/sdz1", "alice", says=says)
        add("umount", name, kwargs={"lazy": True}, says=says)
for name in ("/dev/s1", "/dev/s2"):
    for on in (ON, Each([ON, {}]), Each([{}, {name: ON["/dev/s1"]}])):
        for priority in (None, 5):
            add("swapon", name, priority, answers={"mount.swaps": on})
        add("swapoff", name, answers={"mount.swaps": on})
add("is_fuse_exec", "sshfs", says=[("ldd", Said("libfuse3.so.3 => /lib/libfuse3.so.3"))])
add("is_fuse_exec", "ls", says=[("ldd", Said("libc.so.6"))])
add("is_fuse_exec", "gone", missing=["gone"])
add("is_fuse_exec", "sshfs", missing=["ldd"])

CACHE = """mounts:
  /mnt/a:
    device: /dev/sdz1
    fstype: ext4
    mkmnt: false
    opts:
    - defaults
"""
for files in ({}, {"mounts": CACHE}, {"mounts": "{}\n"}, {"mounts": "other: 1\n"}):
    for name in ("/mnt/a", "/mnt/b"):
        more = {"opts": {"cachedir": "{dir}"}, "files": files}
        add("read_mount_cache", name, **more)
        add("delete_mount_cache", name, **more)
        add("write_mount_cache", name, "/dev/x", True, "xfs", ["ro", "x=y"], **more)
