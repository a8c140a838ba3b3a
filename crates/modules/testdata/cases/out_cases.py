"""Data as the outputters print them."""

import salt.config

CASES = []
DATA = {"text": "two\nlines", "list": [1, [2, None], {"a": 1.5}], "map": {"x": {"y": "<b> & é"}}, "no": False}
ROWS = [{"name": "eth0", "addr_v4": "192.0.2.1"}, {"name": "lo", "addr_v4": ""}]
STATES = {"web1": {
    "file_|-motd_|-/etc/motd_|-managed": {
        "comment": "File /etc/motd updated", "name": "/etc/motd", "start_time": "10:00:00.000001", "result": True,
        "duration": 12.5, "__run_num__": 0, "__sls__": "motd", "__id__": "motd", "changes": {"diff": "-a\n+b"}},
    "test_|-no_|-no_|-fail_without_changes": {
        "comment": "Failure!", "name": "no", "start_time": "10:00:01.000001", "result": False, "duration": 1.0,
        "__run_num__": 1, "__sls__": "motd", "__id__": "no", "changes": {}}}}


def complete(module, _root):
    defaults = dict(salt.config.DEFAULT_MINION_OPTS, extension_modules="/nowhere", optimization_order=[0])
    module.__opts__ = {**defaults, **module.__opts__}


def case(fun, *args, opts=None, **kwargs):
    CASES.append({"fun": "out." + fun, "args": list(args), "kwargs": kwargs, "opts": {"color": False, **(opts or {})},
                  "patch": complete})


for name in ("nested", "json", "yaml", "txt", "text", "raw", "pprint", "grains", "unknown"):
    case("out_format", DATA, name)
    case("string_format", DATA, out=name, opts={"color": True})
    case("html_format", DATA, out=name, opts={"color": True})
for data in (DATA, "a\x1b[31mb", "a\x1b[ b", [], {}, None, 7, "", [1, 2]):
    case("out_format", data)
    case("out_format", data, opts={"color": True})
    # What looks like a sequence and is no colour: ours shows the escape character as "?", Salt drops both.
    if data != "a\x1b[ b":
        case("string_format", data, opts={"color": True, "strip_colors": False})
    case("html_format", data)
for options in ({}, {"state_output": "terse"}, {"state_output": "mixed", "state_verbose": False}, {"color": True}):
    case("out_format", STATES, "highstate", opts=options)
    case("string_format", STATES, "highstate", opts=options)
case("out_format", STATES, "highstate", indent_level=2)
case("html_format", STATES, out="highstate", indent_level=3)
case("out_format", DATA, nested_indent=4)
case("out_format", DATA, nested_indent=0, opts={"nested_indent": 2})
case("out_format", DATA, nested_indent=3, opts={"nested_indent": 2})
case("out_format", DATA, _retcode=1, opts={"color": True})
case("out_format", DATA, opts={"output": "json"})
case("out_format", DATA, "yaml", opts={"output": "json"})
case("out_format", DATA, "yaml", opts={"output": "highstate"})
case("out_format", DATA, "json", opts={"output_indent": "pretty"})
case("out_format", {"minions": ["b", "a"], "minions_pre": []}, "key")
case("out_format", {"web1": ROWS}, "table")
case("out_format", {"web1": ROWS}, "table", opts={"color": True})
case("out_format", {"web1": ROWS}, "table", nested_indent=3)
case("out_format", {"web1": ROWS}, "table", delim=" ; ", justify="left", separate_rows=True, prefix="[ ", suffix=" ]")
case("out_format", {"web1": ROWS}, "table", width=4, row_delimiter="=", justify="right")
case("out_format", {"web1": ROWS}, "table", has_header=False, opts={"out.table.has_header": True})
case("out_format", {"web1": {"rows": ROWS, "other": 1}}, "table", rows_key="rows")
case("out_format", {"web1": {"rows": ROWS, "other": 1}}, "table", rows_key="rows", title="Interfaces")
case("out_format", {"web1": ROWS}, "table", title="Interfaces")
case("string_format", {"web1": ROWS}, "table", opts={"out.table.justify": "left", "out.table.title": "x"})
