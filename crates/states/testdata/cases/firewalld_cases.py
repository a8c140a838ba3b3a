"""Zones and services of the firewall daemon."""

from record_calls import Raise

CASES = []


class Ordered(list):
    """A set that keeps its order, so that recordings are the same each time."""

    def __init__(self, items=()):
        super().__init__()
        for item in items:
            if item not in self:
                self.append(item)

    def __sub__(self, other):
        return Ordered(item for item in self if item not in other)

    def __or__(self, other):
        return Ordered([*self, *other])


def patch(module):
    module.set = Ordered


def add(fun, answers, *args, tests=(False, True), **kwargs):
    for test in tests:
        CASES.append({"state": "firewalld." + fun, "answers": dict(answers), "args": list(args), "kwargs": kwargs, "test": test, "patch": patch})


FORWARDS = [{"Source port": "80", "Destination port": "8080", "Protocol": "tcp", "Destination address": ""},
            {"Source port": "22", "Destination port": "2222", "Protocol": "tcp", "Destination address": "10.0.0.2"}]


def zone(masquerade=False, **more):
    answers = {"get_zones": ["public", "dmz"], "new_zone": "success", "list_icmp_block": ["echo-reply"], "get_icmp_types": ["echo-reply", "echo-request"],
               "block_icmp": "success", "allow_icmp": "success", "default_zone": "public", "set_default_zone": "success",
               "get_masquerade": masquerade, "add_masquerade": "success", "remove_masquerade": "success", "list_ports": ["80/tcp", "22/tcp"],
               "add_port": "success", "remove_port": "success", "list_port_fwd": FORWARDS, "add_port_fwd": "success", "remove_port_fwd": "success",
               "list_services": ["ssh"], "add_service": "success", "remove_service": "success", "get_interfaces": ["eth0"],
               "add_interface": "success", "remove_interface": "success", "get_sources": [], "add_source": "success", "remove_source": "success",
               "get_rich_rules": ['rule family="ipv4" accept'], "add_rich_rule": "success", "remove_rich_rule": "success", "reload_rules": "success",
               **more}
    return {"firewalld." + name: answer for name, answer in answers.items()}


for name in ("public", "fresh"):
    add("present", zone(), name)
    for masquerade in (True, False):
        for wanted in (True, False):
            add("present", zone(masquerade), name, masquerade=wanted, default=wanted)
    for prune in (False, True):
        add("present", zone(), name, block_icmp=["echo-request", "echo-reply"], prune_block_icmp=prune)
        add("present", zone(), name, block_icmp=["echo-request", "odd"], prune_block_icmp=prune)
        add("present", zone(), name, ports=["443/tcp", "80/tcp"], prune_ports=prune)
        add("present", zone(), name, ports=["80/tcp"], prune_ports=prune)
        add("present", zone(), name, port_fwd=["22:2222:tcp:10.0.0.2", "443:8443:udp"], prune_port_fwd=prune)
        add("present", zone(), name, services=["ssh", "http", "https"], prune_services=prune)
        add("present", zone(), name, services=["http"], prune_services=prune)
        add("present", zone(), name, interfaces=["eth1"], prune_interfaces=prune)
        add("present", zone(), name, sources=["10.0.0.0/8", "10.0.0.0/8"], prune_sources=prune)
        add("present", zone(), name, rich_rules=["rule family=ipv4 accept", "rule family='ipv6' source address=\"::1\" drop"], prune_rich_rules=prune)
    add("present", zone(), name, default=True, masquerade=True, ports=["1/udp"], services=["dns"], prune_services=True, interfaces=["eth0"],
        sources=["10.0.0.1"], rich_rules=["rule accept"], prune_block_icmp=True, prune_port_fwd=True)
FAILED = Raise("firewall-cmd failed: Error: no")
for broken in ("get_zones", "new_zone", "list_icmp_block", "get_icmp_types", "block_icmp", "allow_icmp", "default_zone", "set_default_zone",
               "get_masquerade", "add_masquerade", "list_ports", "add_port", "remove_port", "list_port_fwd", "add_port_fwd", "remove_port_fwd",
               "list_services", "add_service", "remove_service", "get_interfaces", "add_interface", "remove_interface", "get_sources", "add_source",
               "get_rich_rules", "add_rich_rule", "remove_rich_rule"):
    for name in ("public", "fresh"):
        more = {} if name == "public" else {"default": True, "masquerade": True}
        add("present", zone(**{broken: FAILED}), name, block_icmp=["echo-request"], prune_block_icmp=True, ports=["1/udp"], prune_ports=True,
            port_fwd=["1:2:tcp"], prune_port_fwd=True, services=["dns"], prune_services=True, interfaces=["eth1"], prune_interfaces=True,
            sources=["10.0.0.1"], rich_rules=["rule accept"], prune_rich_rules=True, tests=(False,), **more)


def service(**more):
    answers = {"get_services": ["ssh", "web"], "new_service": "success", "get_service_ports": ["80/tcp"], "add_service_port": "success",
               "remove_service_port": "success", "get_service_protocols": ["igmp"], "add_service_protocol": "success",
               "remove_service_protocol": "success", "reload_rules": "success", **more}
    return {"firewalld." + name: answer for name, answer in answers.items()}


add("service", service(), "web", ports=["80/tcp"], protocols=["igmp"])
# In a test Salt makes services and lets settings take effect.
for name in ("web", "fresh"):
    for kwargs in ({"ports": ["80/tcp", "443/tcp"]}, {"ports": ["8080/tcp"], "protocols": ["ah"]}, {}):
        add("service", service(), name, tests=(False,), **kwargs)
    for broken in ("get_service_ports", "add_service_port", "remove_service_port", "get_service_protocols", "add_service_protocol",
                   "remove_service_protocol"):
        add("service", service(**{broken: FAILED}), name, ["443/tcp"], ["ah"], tests=(False,))
