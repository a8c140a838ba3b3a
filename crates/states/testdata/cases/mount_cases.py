"""File systems, swap spaces and the table of mounts. /usr is a directory everywhere, /no/such none."""

from record_calls import Each, Raise

CASES = []


def add(fun, answers, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": "mount." + fun, "answers": dict(answers), "args": list(args), "kwargs": kwargs, "test": test})


def entry(device="/dev/sdz1", opts=("rw", "relatime"), superopts=("rw", "errors=remount-ro"), fstype="ext4", **more):
    return {"device": device, "alt_device": device, "fstype": fstype, "opts": list(opts), "superopts": list(superopts),
            "device_uuid": None, "device_label": None, **more}


ROOT = {"/": entry("/dev/sda1")}


def machine(active=None, after=None, table="present", mount=True, umount=True, remount=True, cache=None, lazy=None):
    before = {**ROOT, **(active or {})}
    after = before if after is None else {**ROOT, **after}
    gone = umount if lazy is None else (lambda name, device=None, user=None, lazy=False, given=lazy: given if lazy else umount)
    return {"mount.active": Each([before, after]), "mount.set_fstab": table, "mount.mount": mount, "mount.umount": gone,
            "mount.remount": remount, "mount.read_mount_cache": cache or {}, "mount.write_mount_cache": True,
            "mount.delete_mount_cache": True, "file.mkdir": True, "user.info": {"uid": 1000}, "group.info": {},
            "cmd.run_all": lambda line: {"retcode": 0 if "good" in line else 2, "stdout": '/dev/sdz1: LABEL="good"', "stderr": ""}}


M = machine
ON = {"/usr": entry()}
for table in ("present", "new", "change", "bad config", "odd"):
    add("mounted", M(table=table, after=ON), "/usr", "/dev/sdz1", "ext4")
    add("mounted", M(ON, table=table), "/usr/", "/dev/sdz1", "ext4")
    add("mounted", M(table=table), "/usr", "/dev/sdz1", "ext4", mount=False)
for place in ("/usr", "/no/such"):
    for mkmnt in (False, True):
        add("mounted", M(after={place: entry()}), place, "/dev/sdz1", "ext4", mkmnt=mkmnt, persist=False)
        add("mounted", M(), place, "/dev/sdz1", "ext4", mkmnt, "ro,noexec", 1, 2, "/etc/tab", user="alice")
        add("mounted", M(mount="no such device"), place, "/dev/sdz1", "ext4", mkmnt)
        add("mounted", M(), place, "/dev/sdz1", "ext4", mkmnt, mount=False, match_on=["name"])
for missing in (["", "/dev/x", "ext4"], ["/usr", "", "ext4"], ["/usr", "/dev/x", ""]):
    add("mounted", M(), *missing)
for opts in ("defaults", "rw", "ro", ["rw", "relatime", "errors=remount-ro"], "noexec,nosuid", "_netdev,users,password=x", "uid=1000",
             "uid=alice", "gid=users,uid=5", "tcp", "udp,vers=4", "size=2g", "size=10%", "comment=x,credentials=/f", "user=me", "remount,ro"):
    for fstype in ("ext4", "nfs", "cifs", "fuse.sshfs", "ramfs"):
        add("mounted", M({"/usr": entry(superopts=["rw", "uid=1000", "proto=tcp", "username=me"])}), "/usr", "/dev/sdz1", fstype, opts=opts)
add("mounted", M({"/usr": entry("tmpfs", superopts=["rw", "size=1024k", "mode=700"], fstype="tmpfs")}), "/usr", "tmpfs", "tmpfs", opts="size=2m,noexec")
add("mounted", M({"/usr": entry("tmpfs", superopts=["rw", "size=1m"], fstype="tmpfs")}), "/usr", "tmpfs", "tmpfs", opts="noexec")
add("mounted", M({"/usr": entry("tmpfs", superopts=["rw"], fstype="tmpfs")}), "/usr", "tmpfs", "tmpfs", opts="size=3g,rw")
for more in ({"extra_mount_invisible_options": ["odd"]}, {"extra_mount_invisible_keys": ["key"]}, {"hidden_opts": "odd,key=1"},
             {"hidden_opts": ["odd"]}, {"extra_mount_ignore_fs_keys": {"ext4": ["key"]}}, {"extra_mount_translate_options": {"odd": "rw", "key=1": "x"}}):
    add("mounted", M(ON), "/usr", "/dev/sdz1", "ext4", opts="odd,key=1", **more)
for lazy in (True, "busy"):
    for fstype in ("nfs", "cvfs"):
        add("mounted", M({"/usr": entry("srv:/x")}, umount="busy", lazy=lazy), "/usr", "srv:/x", fstype, opts="ro")
        add("mounted", M({"/usr": entry("srv:/x")}, umount="busy", lazy=lazy, cache={"opts": ["rw", "hard"]}), "/usr", "srv:/x", fstype, opts="rw")
for remembered in (["rw"], ["rw", "secure=1"], []):
    for fstype in ("ext4", "nfs"):
        add("mounted", M(ON, cache={"opts": remembered, "device": "x"}), "/usr", "/dev/sdz1", fstype, opts=["rw"], table_="ignored")
for other in ("/dev/sdy1", "UUID=AB-12", 'UUID="ab-13"', "LABEL=good", "LABEL=bad", "sshfs#me@host:/x", "srv:/x", "/dev/vg/lv"):
    for after in ({}, None):
        add("mounted", M({"/usr": entry(device_uuid="ab-12", device_label="data", alt_device="me@host:/x")}, after), "/usr", other, "ext4")
        if "LABEL" not in other:
            add("mounted", M({"/usr": entry()}, after), "/usr", other, "ext4", user="bob", device_name_regex=["/dev/(sda|sdz)1"])
            add("mounted", M({"/usr": entry()}, after), "/usr", other, "ext4", device_name_regex="x")
for copy in ({}, {"bind_mount_copy_active_opts": False}):
    for source in ("/", "/home", "/home/my dir/x"):
        active = {"/usr": entry("/dev/sda1", ["rw", "noatime"]), "/home": entry("/dev/sdb1", ["rw", "nosuid"], ["rw", "inode64"])}
        add("mounted", M(active), "/usr", source, "none", opts="bind", **copy)
        add("mounted", M(active), "/usr", source, "none", opts=["bind", "ro"], **copy)
        remote = {"/usr": entry("srv:/x", ["rw"]), "/home": entry("srv:/x", ["rw", "hard"], [])}
        add("mounted", M(remote), "/usr", source, "none", opts="bind", **copy)

TABLE = {"/": {"device": "/dev/sda1", "fstype": "ext4"}, "none": {"device": "/dev/odd", "fstype": "x"}, "/usr": {"device": "/dev/sdz1", "fstype": "ext4"},
         "none_": {"device": "/dev/s1", "fstype": "swap"}}
STATS = {"type": "partition", "size": "10", "used": "0", "priority": "-2"}
for link in (False, "/dev/real", "../dm-0"):
    for real in ("/dev/s1", "/dev/s2", "/dev/odd"):
        target = {False: real, "/dev/real": "/dev/real", "../dm-0": "/dev/dm-0"}[link]
        for on in ({target: STATS}, Each([{}, {target: STATS}]), {}):
            for said in ("present", "new", "change") if not link else ("new",):
                add("swap", {"mount.swaps": on, "file.is_link": bool(link), "file.readlink": link, "mount.swapon": {}, "mount.fstab": TABLE,
                             "mount.set_fstab": said}, real)
            add("swap", {"mount.swaps": on, "file.is_link": bool(link), "file.readlink": link, "mount.swapon": {}}, real, persist=False)

for active in ({}, ON):
    for said in (True, "busy", None):
        base = {**M(active, umount=said), "mount.fstab": TABLE}
        add("unmounted", base, "/usr")
        add("unmounted", base, "/usr", "/dev/sdz1", user="alice")
        for purged in (True, False):
            for device in (None, "/dev/sdz1", "/dev/other"):
                add("unmounted", {**base, "mount.rm_fstab": purged}, "/usr", device, persist=True)
        add("unmounted", base, "/not/there", persist=True, config="/etc/tab")
add("unmounted", M(), "")
add("mod_watch", M(), "/usr", sfun="mounted", device="/dev/sdz1", fstype="ext4", opts="ro", user="bob")
add("mod_watch", M(), "/usr", sfun="swap")

KNOWN = {"/dev/sdz1": {"UUID": "ab-12", "LABEL": "data", "TYPE": "ext4", "PARTUUID": "p-1"}}
for by in (None, "device", "label", "uuid", "partuuid"):
    for name in ("/dev/sdz1", "UUID=ab-12", "LABEL=data"):
        for known in (KNOWN, {}):
            base = {"disk.blkid": known, "mount.fstab": TABLE, "mount.rm_fstab": True, "mount.set_fstab": "new", "mount.mount": True}
            add("fstab_present", base, name, "/usr/", "ext4", mount_by=by)
            add("fstab_absent", base, name, "/usr/", mount_by=by)
for said in ("present", "new", "change", "odd"):
    for mounted in (True, "mount: /usr: no such device: gone"):
        for mount in (True, False):
            add("fstab_present", {"mount.set_fstab": said, "mount.mount": mounted}, "/dev/sdz1", "/", "ext4", "ro", 1, 2, config="/etc/tab",
                mount=mount, match_on="name", not_change=True)
for purged in (True, False):
    for place in ("/usr", "/gone"):
        add("fstab_absent", {"mount.fstab": TABLE, "mount.rm_fstab": purged}, "/dev/sdz1", place)
