"""Keys of users and hosts, names of addresses."""

from record_calls import Each, Raise

CASES = []


def add(state, make, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": state, "answers": make(), "args": list(args), "kwargs": kwargs, "test": test})


def keys(said="new", check="add", file=None, url="/cached", there=None):
    return lambda: {"ssh.set_auth_key": said, "ssh.set_auth_key_from_file": said, "ssh.check_key": check,
                    "ssh.check_key_file": file or {}, "cp.get_url": url, "test.ping": True, "ssh.rm_auth_key": said,
                    "ssh.rm_auth_key_from_file": said, "ssh.auth_keys": there or {}}


KEY = "AAAAB3NzaC1yc2EAAAADAQABAAAAgQ=="
NAMES = [KEY, f"{KEY} me@host", f"{KEY} me at host", f"ssh-rsa {KEY}", f"ssh-ed25519 {KEY} me@host", f"ssh-ed25519 {KEY} me at host",
         f"no-pty,from=\"a b\" ssh-rsa {KEY} me", f"sk-ssh-ed25519@openssh.com {KEY} me", f"ecdsa-sha2-nistp256 {KEY}"]
for name in NAMES:
    add("ssh_auth.present", keys(), name, "root")
    add("ssh_auth.absent", keys("Key removed", "exists"), name, "root")
add("ssh_auth.present", keys(), KEY, "root", enc="ed25519", comment="why", options=["no-pty"], config="%h/keys", fingerprint_hash_type="md5")
for said in ("replace", "no change", "new", "fail", "invalid", "Invalid public key", "odd"):
    add("ssh_auth.present", keys(said), KEY, "root")
    add("ssh_auth.present", keys(said), "file", "root", source="salt://keys", options=["x"])
add("ssh_auth.present", keys(url=""), "file", "root", source="salt://keys")
add("ssh_auth.present", keys(file={"A": "add", "B": "exists", "C": "update"}), "file", "root", source="salt://keys")
add("ssh_auth.present", keys(file={"B": "exists"}), "file", "root", source="salt://keys")
for check in ("update", "add", "exists", "odd"):
    add("ssh_auth.present", keys(check=check), KEY, "root", comment="why")
    add("ssh_auth.absent", keys("Key not present", check), KEY, "root")
for said in ("Key removed", "Key not removed", "Key not present", "User authorized keys file not present"):
    add("ssh_auth.absent", keys(said), KEY, "root", config="x", fingerprint_hash_type="md5")
    add("ssh_auth.absent", keys(said, file={"A": "add", "B": "exists"}), "file", "root", source="salt://keys")
add("ssh_auth.absent", keys(file={"A": "add"}), "file", "root", source="salt://keys")
add("ssh_auth.manage", keys(there={"OLD": {}}), "x", [f"ssh-rsa {KEY} me"], "root")
add("ssh_auth.manage", keys("no change", "exists", there={KEY: {}}), "x", [f"ssh-rsa {KEY} me", f"ssh-rsa {KEY}x you"], "root")
add("ssh_auth.manage", keys("fail", there={KEY: {}}), "x", [f"ssh-rsa {KEY}"], "root")
add("ssh_auth.manage", keys("Key removed", there={"OLD": {}}), "x", [], "root")

ENTRY = [{"hostname": "h", "key": "K", "enc": "ssh-rsa", "fingerprint": "aa:bb"}]


def known(check="add", result=None, entries=None, removed=None):
    return lambda: {"ssh.check_known_host": check, "ssh.set_known_host": result or {"status": "updated", "old": None, "new": ENTRY},
                    "ssh.get_known_host_entries": entries, "ssh.rm_known_host": removed or {"status": "removed", "comment": "done"}}


P, A = "ssh_known_hosts.present", "ssh_known_hosts.absent"
for kwargs in ({}, {"user": "root"}, {"user": "root", "config": "x"}, {"config": "x"}, {"config": "/x"}, {"key": "K", "enc": "ssh-rsa"},
               {"key": "K"}, {"key": "K", "fingerprint": "aa"}, {"fingerprint": "aa:bb"}, {"enc": "ssh-rsa"},
               {"port": 2222, "hash_known_hosts": False, "timeout": 1, "fingerprint_hash_type": "md5"}):
    add(P, known(), "h", **kwargs)
for check in ("exists", "update", {"status": "error", "error": "no user"}, Raise("ssh-keygen", kind="notfound")):
    add(P, known(check), "h", user="root")
add(P, known(result={"status": "exists", "keys": []}), "h")
add(P, known(result={"status": "error", "error": "cannot"}), "h")
for kwargs in ({}, {"user": "root"}, {"config": "x"}):
    add(A, known(), "h", **kwargs)
    add(A, known(entries=ENTRY), "h", **kwargs)
add(A, known(entries=ENTRY, removed={"status": "error", "error": "cannot"}), "h")

HOSTS = {"127.0.0.1": {"aliases": ["localhost"]}, "10.0.0.1": {"aliases": ["a", "b"], "comment": "old"}, "10.0.0.2": {"aliases": ["q"]},
         "comment-1": ["# x"], "odd": {"aliases": ["z"]}}


def hosts(done=True, pair=True, alias=("a", "b")):
    return lambda: {"hosts.list_hosts": HOSTS, "hosts.add_host": done, "hosts.set_comment": done, "hosts.rm_host": done,
                    "hosts.has_pair": pair, "hosts.get_alias": list(alias), "hosts.set_host": done}


for done in (True, False):
    for ip in ("10.0.0.1", "10.0.0.9", ["10.0.0.1", "10.0.0.2"], "127.0.0.1", ["odd"]):
        for kwargs in ({}, {"clean": True}):
            add("host.present", hosts(done), "a", ip, **kwargs)
    add("host.present", hosts(done), "a", "10.0.0.1", comment="old", clean=True)
    add("host.present", hosts(done), "a", "10.0.0.1", comment="new", clean=True)
    add("host.present", hosts(done), "c", "10.0.0.9", comment="new")
    add("host.absent", hosts(done), "a", ["10.0.0.1", "10.0.0.2"])
    add("host.absent", hosts(done, False), "a", "10.0.0.1")
    add("host.only", hosts(done), "10.0.0.1", ["b", "a "])
    add("host.only", hosts(done), "10.0.0.1", "a b")
    add("host.only", hosts(done, alias=["x"]), "10.0.0.1", "x")
