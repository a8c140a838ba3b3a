"""SELinux."""

from record_calls import Each, Said

CASES = []


def add(fun, *args, **more):
    CASES.append({"fun": "selinux." + fun, "args": list(args), **more})


BOOLEANS = """SELinux boolean                State  Default Description

virt_use_usb                   (on   ,   on)  Allow virt to use usb
squid_use_tproxy               (off  ,  off)  Allow squid to use tproxy
httpd_can_network              (on   ,  off)  Allow httpd to can network
"""
MODULES = "400 mysql        pp\n100 nagios       pp disabled\n\n100 apache       pp        \n"
for says in ([("boolean --list", Said(BOOLEANS)), ("list-modules", Said(MODULES))], []):
    add("list_sebool", says=says)
    add("list_semod", says=says)
    for name in ("virt_use_usb", "httpd_can_network", "none"):
        add("getsebool", name, says=says)
    for name in ("mysql", "nagios", "none"):
        add("getsemod", name, says=says)
for code in (0, 1):
    says = [("", Said("", code))]
    for value in ("on", False, 1):
        for persist in (False, True):
            add("setsebool", "virt_use_usb", value, persist, says=says)
            add("setsebools", {"virt_use_usb": value, "other": "off"}, persist, says=says)
    for state in ("Enabled", "disabled", "odd"):
        add("setsemod", "nagios", state, says=says)
    add("remove_semod", "nagios", says=says)
    add("install_semod", "/tmp/x.pp", says=says)
    add("install_semod", "salt://x.pp", says=says, answers={"cp.cache_file": "/cache/x.pp"})
for code in "afdcbslpz":
    add("filetype_id_to_string", code)
add("filetype_id_to_string")
NAME = "/srv/www(/.*)? #1"
FOUND = NAME + "                    all files          system_u:object_r:httpd_t:s0"
for text in (FOUND, "", "odd", NAME + "  directory   u:r:t:s0:c1", FOUND + "\n" + FOUND, NAME + " named pipe   u:r:t:s0 "):
    says = [("", Said(text, 0 if text else 1))]
    add("fcontext_get_policy", NAME, says=says)
    add("fcontext_get_policy", NAME, "d", "httpd_t", "system_u", "s0", says=says)
    add("fcontext_get_policy", NAME, "z", says=says)
    for filetype in (None, "a", "d", "z"):
        add("fcontext_add_policy", NAME, filetype, says=says)
        add("fcontext_delete_policy", NAME, filetype, "httpd_t", "system_u", "s0", says=says)
    add("fcontext_add_policy", NAME, "f", "httpd_t", "system_u", "s0", says=says)
WOULD = "Would relabel /srv/a from u:r:old_t:s0 to u:r:new_t:s0\nWould relabel /srv/b from a:r:t:s0 to u:r:t:s1"
RESET = "restorecon reset /srv/a context u:r:old_t:s0->u:r:new_t:s0\n"
for text in (WOULD, RESET, "", "odd", "Would relabel nothing", "Would relabel /x from a:b to c:d"):
    for recursive in (False, True):
        add("fcontext_policy_is_applied", NAME, recursive, says=[("", Said(text))])
        for code in (0, 1):
            add("fcontext_apply_policy", NAME, recursive, says=[(" -n ", Said(text)), ("", Said("", code, "failed" if code else ""))])
for name, kwargs in (("tcp/80", {}), ("udp/20-21", {"sel_type": "ftp_t"}), ("x", {"protocol": "tcp", "port": 8080}), ("x", {}), ("tcp/8", {}),
                     ("x", {"protocol": "sctp", "port": 80})):
    for text in ("http_port_t                    tcp      80, 81, 443", "", "odd output", "ftp_t  udp 20-21"):
        says = [("", Said(text, 0 if text else 1))]
        add("port_get_policy", name, kwargs=kwargs, says=says)
        more = {key: value for key, value in kwargs.items() if key != "sel_type"}
        add("port_delete_policy", name, kwargs=more, says=says)
        for sel_type in (None, "http_port_t"):
            add("port_add_policy", name, sel_type, kwargs=more, says=says)
            add("port_modify_policy", name, sel_type, kwargs={**more, "sel_range": "s0"}, says=says)
