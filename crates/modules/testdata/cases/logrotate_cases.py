"""How logs are rotated."""

CASES = []
CONF = """# see "man logrotate"
weekly
rotate 4
create 0664 root utmp
include {dir}/d
dateext

/var/log/wtmp {
    monthly
    rotate 1
    create 0664 root utmp
    missingok
}
/var/log/a
"/var/log/b c"
/var/log/*.log
{
    size 5M
    prerotate
        # a script
        test -x /bin/x && /bin/x {

    endscript
    postrotate
        invoke-rc.d x rotate
    endscript
}
compress
/var/log/last
"""
INCLUDED = "/var/log/apt/term.log {\n  rotate 12\n  compress\n}\nnotifempty\n"


def add(fun, *args, answer=True, **kwargs):
    def patch(module, root):
        # The directory is known only now.
        path = root + "/conf"
        with open(path, encoding="utf-8") as text:
            whole = text.read()
        with open(path, "w", encoding="utf-8") as out:
            out.write(whole.replace("{dir}", root))

    CASES.append({"fun": "logrotate." + fun, "args": list(args), "kwargs": {**kwargs, "conf_file": "{dir}/conf"}, "patch": patch,
                  "files": {"conf": CONF, "d/apt": INCLUDED}, "answers": {"file.replace": answer}})


add("show_conf")
for key in ("rotate", "weekly", "create", "/var/log/wtmp", "notifempty", "none", "compress", "/var/log/*.log"):
    add("get", key)
for key, value in (("/var/log/wtmp", "rotate"), ("/var/log/wtmp", "none"), ("none", "rotate"), ("/var/log/apt/term.log", "compress"), ("rotate", "x")):
    add("get", key, value)
for key, value in (("rotate", 4), ("rotate", 2), ("weekly", True), ("weekly", False), ("daily", True), ("none", False), ("create", "0600 root"),
                   ("/var/log/wtmp", 5), ("notifempty", False)):
    add("set", key, value)
    add("set", key, value, answer=False)
for key, value, setting in (("/var/log/wtmp", "rotate", 1), ("/var/log/wtmp", "rotate", 2), ("/var/log/wtmp", "missingok", False),
                            ("/var/log/wtmp", "compress", True), ("/var/log/new", "rotate", 3), ("/var/log/*.log", "size", "1M"),
                            ("/var/log/apt/term.log", "rotate", 5), ("rotate", "x", 3)):
    add("set", key, value, setting)
