"""What name servers say, through the program dig."""

from record_calls import Each, Said

CASES = []
FAILED = Said("", 9)
SPF = '"v=spf1 ip4:192.0.2.0/24 include:a.test ~ip6:2001:db8::/32 mx ip4:nope -all"'


def add(fun, *args, says, **kwargs):
    CASES.append({"fun": "dig." + fun, "args": list(args), "kwargs": kwargs, "says": says})


for fun, out in (("A", "a.test.\n192.0.2.1\n192.0.2.2"), ("AAAA", "2001:db8::1"), ("PTR", "one.test.\ntwo.test."), ("CNAME", "a.test."),
                 ("TXT", '"v=spf1 -all"\n"x=y z"')):
    for name in (fun, fun.lower()):
        if name == "txt":
            continue
        add(name, "www.test", says=[("", out)])
        add(name, "www.test", "192.0.2.53", says=[("", out)])
        add(name, 5, says=[("", "")])
        add(name, "www.test", says=[("", FAILED)])
for name in ("NS", "ns"):
    servers = [(" NS", "ns1.test.\nns2.test."), ("ns1", "192.0.2.1\nx"), ("ns2", "192.0.2.2")]
    add(name, "test", says=servers)
    add(name, "test", False, "192.0.2.53", says=servers)
    add(name, "test", resolve=False, says=[("", "")])
    add(name, "test", says=[("", FAILED)])
for name in ("MX", "mx"):
    servers = [(" MX", "10 mx1.test.\n20 mx2.test."), ("mx1", "192.0.2.1\n192.0.2.3"), ("mx2", "192.0.2.2")]
    add(name, "test", says=servers)
    add(name, "test", True, nameserver="192.0.2.53", says=servers)
    add(name, "test", says=[("", "")])
    add(name, "test", says=[("", FAILED)])
for name in ("SPF", "spf"):
    add(name, "test", says=[("dig .short test SPF", SPF), ("a.test SPF", '"v=spf1 ip4:198.51.100.1 include:b.test ip4:198.51.100.2"'),
                            ("b.test TXT", '"v=spf1 redirect=c.test"'), ("c.test", '"v=spf1 ip4:203.0.113.1 -all"')])
    add(name, "test", "TXT", "192.0.2.53", says=[("", "x")])
    add(name, "test", says=[("", "")])
    add(name, "test", says=[("", FAILED)])
    add(name, "test", says=[("", Each(["", '"v=spf1 ip4:192.0.2.0/24"']))])
for text in ("127.0.0.1", "::1", "10.0.0.0/8", "10.0.0.0/33", "10.0.0.0/x", "fe80::/7", "", "x", 5, None, "1.2.3.4/ 8"):
    add("check_ip", text, says=[])
