"""The firewall daemon."""

from record_calls import Said

CASES = []
ALL = """public (active)
  target: default
  interfaces: eth0 eth1
  services: ssh http
  masquerade: {}
  rich rules:
\trule family="ipv4" accept
\trule family="ipv6" drop

dmz
  target: default
  masquerade: no
"""
FWD = "port=80:proto=tcp:toport=443:toaddr=\nport=22:proto=udp:toport=:toaddr=10.0.0.2"


def add(fun, *args, says=None):
    masquerade = "no" if len(CASES) % 2 else "yes"
    told = [("list-all", Said(ALL.format(masquerade))), ("forward-ports", Said(FWD)), ("rich-rules", Said('rule family="ipv4" accept\nrule b')),
            ("--(get|list)-", Said("one two  three echo-reply")), ("", Said("success"))]
    CASES.append({"fun": "firewalld." + fun, "args": list(args), "says": says or told})


for permanent in ((), (True,), (False,)):
    for fun in ("list_zones", "get_zones", "get_services", "get_icmp_types"):
        add(fun, *permanent)
    for zone in (None, "dmz"):
        for fun in ("list_all", "list_services", "get_masquerade", "add_masquerade", "remove_masquerade"):
            add(fun, zone, *permanent)
        for fun in ("add_service", "remove_service"):
            add(fun, "ssh", zone, *permanent)
    for fun in ("list_ports", "list_port_fwd", "list_icmp_block", "get_interfaces", "get_sources", "get_rich_rules"):
        add(fun, "dmz", *permanent)
    for fun, args in (("add_port", ["80/tcp"]), ("remove_port", ["80/tcp"]), ("block_icmp", ["one"]), ("block_icmp", ["none"]), ("allow_icmp", ["one"]),
                      ("allow_icmp", ["none"]), ("add_interface", ["one"]), ("add_interface", ["eth9"]), ("remove_interface", ["one"]),
                      ("remove_interface", ["eth9"]), ("add_source", ["one"]), ("remove_source", ["10.0.0.0/8"]), ("add_rich_rule", ["rule x"]),
                      ("remove_rich_rule", ["rule x"]), ("add_port_fwd", [80, 443, "udp", "10.0.0.1"]), ("remove_port_fwd", ["80", "443", "tcp", ""])):
        add(fun, "dmz", *args, *permanent)
for fun in ("version", "reload_rules", "default_zone", "make_permanent"):
    add(fun)
for fun in ("new_zone", "delete_zone", "new_service", "delete_service"):
    for restart in ((), (False,)):
        add(fun, "mine", *restart)
        add(fun, "mine", *restart, says=[("", Said("odd"))])
        add(fun, "mine", *restart, says=[("", Said("", 26, "Error: NAME_CONFLICT"))])
add("set_default_zone", "dmz")
add("set_default_zone", "dmz", says=[("", Said("not running", 252))])
for fun in ("add_service_port", "remove_service_port", "add_service_protocol", "remove_service_protocol"):
    add(fun, "one", "80/tcp")
    add(fun, "none", "80/tcp")
add("get_service_ports", "one")
add("get_service_protocols", "one")
add("add_port_fwd", "dmz", 80, 443)
for flag in (True, False):
    for _ in range(2):
        add("add_port", "dmz", "80/tcp", False, flag)
        add("add_port", "dmz", "80/tcp", True, flag)
        add("add_port_fwd", "dmz", 80, 443, "tcp", "", True, flag)
