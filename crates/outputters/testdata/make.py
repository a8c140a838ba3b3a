"""Records what Salt's own outputters print, for the table test of `cli::outputters`.

Run it with the Python of an installed Salt: `python make.py > recorded.json` (3008), and
`python make.py old > recorded-3006.json` for the outputters that 3008 no longer has.
"""

import base64
import copy
import datetime
import json
import logging
import sys

import salt.loader
import salt.output

logging.disable(logging.CRITICAL)


def tagged(value):
    """Writes values JSON has no form for as maps with one `$` key."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return {"$datetime": [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]}
    if isinstance(value, (list, tuple)):
        return [tagged(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: tagged(item) for key, item in value.items()}
        return {"$pairs": [[tagged(key), tagged(item)] for key, item in value.items()]}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return {"$int": str(value)}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"$float": repr(value)}
    return value


LONG = "the quick brown fox jumps over the lazy dog and runs away from it for many a mile, " * 3
VALUES = {
    "true": {"web1": True},
    "false": {"web1": False},
    "none": {"web1": None},
    "int": {"web1": 42},
    "big": {"web1": 2**70},
    "float": {"web1": 1.5e-7},
    "float_whole": {"web1": 3.0},
    "text": {"web1": "hello"},
    "empty_text": {"web1": ""},
    "lines": {"web1": "one\ntwo\r\nthree\n\nfive\n"},
    "odd_breaks": {"web1": "a\x0bb\x0cc\x1cd\x85e\u2028f"},
    "escape": {"web1": "\x1b[31mred\x1b[0m"},
    "unicode": {"wéb1": "zażółć 日本語 \U0001f600"},
    "control": {"web1": "nul\x00 bell\x07 tab\tdel\x7f"},
    "quotes": {"web1": "it's \"so\" \\ back"},
    "list": {"web1": ["a", 1, None, True, 2.5, "b\nc"]},
    "empty_list": {"web1": []},
    "nested_list": {"web1": [["a", "b"], ["c", ["d"]], {"k": "v", "l": ["x"]}, "end"]},
    "map": {"web1": {"b": 1, "a": {"z": None, "y": [1, 2]}, "c": "text\nmore"}},
    "empty_map": {"web1": {}},
    "int_keys": {"web1": {2: "two", 10: "ten", 1: "one"}},
    "mixed_keys": {"web1": {2: "two", "a": "letter", None: "none"}},
    "two": {"web2": "second", "web1": "first"},
    "bare_text": "just text\nof two lines",
    "bare_int": 7,
    "bare_list": ["a", "b"],
    "bare_none": None,
    "bare_empty": {},
    "bytes": {"web1": b"plain"},
    "numbers_in_text": {"web1": {"a": "1", "b": "true", "c": "null", "d": "1.5", "e": "~", "f": "0x1f", "g": "1e3", "h": "2001-01-01", "i": "12:30:45", "j": "no", "k": "=", "l": "-", "m": "- a", "n": "a: b", "o": "#c", "p": "a #c", "q": " lead", "r": "trail ", "s": "{x}", "t": "*s", "u": "&s", "v": "!s", "w": "%s", "x": "@s", "y": "`s", "z": "|", "A": ">", "B": "'", "C": '"', "D": "?", "E": "a?b", "F": ",", "G": "0777", "H": "0o7", "I": ".inf", "J": "1_000", "K": "<<"}},
    "long_text": {"web1": LONG},
    "long_word": {"web1": "x" * 200},
    "long_list": {"web1": [f"item number {n}" for n in range(12)]},
    "long_map": {"web1": {f"key{n}": {"value": n, "text": "some text here", "more": [n] * 5} for n in range(6)}},
    "deep": {"web1": {"a": {"b": {"c": {"d": {"e": [1, [2, [3, {"f": "g"}]]]}}}}}},
    "long_lines": {"web1": (LONG + "\n") * 2},
    "long_in_map": {"web1": {"a": LONG, "b": [LONG, "short"], "c": "x y " * 40 + "\nsecond line"}},
    "table": {"web1": {"rows": [{"name": "eth0", "up": True, "addr_v4": "10.0.0.1"}, {"name": "lo", "up": False, "addr_v4": "127.0.0.1"}]}},
    "table_text": {"web1": {"result": ["alpha", "beta gamma"], "comment": ""}},
    "table_wrap": {"web1": {"out": [{"a": LONG.strip(), "b": "x"}, {"a": "short", "b": "y z"}]}},
    "table_lists": {"web1": {"out": [["a", "bb"], ["ccc", "d"]]}},
    "no_return": {"web1": "Minion did not return. [No response]\nsecond line"},
    "list_of_maps": {"web1": [{"a": 1}, {"b": None}, {}]},
    "map_in_list_in_map": {"web1": {"a": [{"b": [{"c": "d"}]}]}},
    "list_of_none": {"web1": [None, None]},
    "bare_float": 2.5,
    "bare_true": True,
    "bare_map_of_lists": {"a": [], "b": [[]]},
    "floats": {"web1": [0.1, 1e16, 123456789.123, -0.0, 1e22, 1e-5]},
}

KEYS = {
    "keys": {"minions": ["web2", "web1"], "minions_denied": [], "minions_pre": ["z\x1b[0m"], "minions_rejected": ["bad"]},
    "fingers": {"local": {"master.pem": "aa:bb", "master.pub": "cc:dd"}, "minions": {"web1": "ee:ff"}},
}


def state(run, result, changes=None, comment="done", name="/tmp/x", **more):
    ret = {"__run_num__": run, "__sls__": "a.b", "__id__": more.pop("id", "an id"), "changes": changes or {}, "comment": comment,
           "name": name, "result": result, "duration": more.pop("duration", 12.345), "start_time": "10:20:30.123456"}
    ret.update(more)
    return ret


STATES = {
    "all_good": {"web1": {"file_|-an id_|-/tmp/x_|-managed": state(0, True), "cmd_|-echo_|-echo_|-run": state(1, True, {"pid": 1, "retcode": 0, "stdout": "a\nb", "stderr": ""}, id="echo", name="echo")}},
    "one_failed": {"web1": {"file_|-an id_|-/tmp/x_|-managed": state(1, False, comment="No\nway\n"), "pkg_|-vim_|-vim_|-installed": state(0, None, {"vim": {"old": "", "new": "installed"}}, id="vim", name="vim", duration=1500.5)}},
    "no_comment": {"web1": {"test_|-a_|-a_|-nop": state(0, True, comment="")}},
    "warnings": {"web1": {"test_|-a_|-b_|-nop": state(0, True, warnings=["careful with that, it is deprecated and will be removed in a release that is to come soon", "two"])}},
    "errors": {"web1": ["Rendering SLS 'base:x' failed: bad", "second \x1b[31merror"]},
    "text": {"web1": "some text\nof two lines"},
    "number": {"web1": 3},
    "empty": {"web1": {}},
    "two_hosts": {"web2": {"test_|-a_|-a_|-nop": state(0, True)}, "web1": {"test_|-a_|-a_|-nop": state(0, False)}},
    "many": {"web1": {f"test_|-id{n}_|-n{n}_|-nop": state(n, n % 3 != 0, {"n": n} if n % 2 else {}, id=f"id{n}", name=f"n{n}", duration=float(n)) for n in range(12)}},
    "no_time": {"web1": {"test_|-a_|-a_|-nop": {"__run_num__": 0, "changes": {}, "comment": "c", "name": "a", "result": True}}},
    "orchestration": {"data": {"m_master": {"salt_|-x_|-x_|-state": state(0, True, {"out": "highstate", "ret": {"web1": {"test_|-a_|-a_|-nop": state(0, True, {"a": 1})}}}, id="x", name="x")}}, "outputter": "highstate", "retcode": 0},
    "parallel": {"web1": {"test_|-a_|-a_|-nop": state(0, True, id="a", __parallel__=True, duration=100.0), "test_|-b_|-b_|-nop": state(1, True, id="b", __parallel__=True, duration=50.0), "test_|-c_|-c_|-nop": state(2, True, id="c", duration="7.5 ms")}},
    "list_changes": {"web1": {"test_|-a_|-a_|-nop": state(0, True, ["a", "b"])}},
    "same_id": {"web1": {f"file_|-files_|-/tmp/{n}_|-managed": state(n, True, {"diff": f"new {n}"} if n else {}, id="files", name=f"/tmp/{n}", duration=1.1) for n in range(3)}},
    "data_attribute": {"web1": {"test_|-a_|-a_|-nop": state(0, True, data={"k": "v"}), "test_|-b_|-b_|-nop": state(1, True, data=["x", "y"])}},
    "comment_list": {"web1": {"test_|-a_|-a_|-nop": state(0, True, comment=["x", "y"])}},
    "not_highstate": {"web1": {"some": {"thing": 1}}},
    "jid_lookup": {"return": {"web1": {"test_|-a_|-a_|-nop": state(0, True)}}},
}
STATE_OPTS = {
    "": {},
    "terse": {"state_output": "terse"}, "mixed": {"state_output": "mixed"}, "changes": {"state_output": "changes"},
    "filter": {"state_output": "filter", "state_output_exclude": "True,"},
    "filter_terse": {"state_output": "filter", "state_output_terse": ["True", "None"]},
    "full_id": {"state_output": "full_id"}, "terse_id": {"state_output": "terse_id"},
    "quiet": {"state_verbose": False}, "diff": {"state_output_diff": True}, "tabular": {"state_output": "terse", "state_tabular": True},
    "no_profile": {"state_output_profile": False}, "percent": {"state_output_pct": True}, "compress": {"state_compress_ids": True},
    "no_strip": {"strip_colors": False},
}
BASE = {"extension_modules": "", "optimization_order": [0, 1, 2], "transport": "zeromq", "state_verbose": True, "state_output": "full",
        "state_output_profile": True, "strip_colors": True, "grains": {}, "color_theme": ""}


def record(cases, name, out, data, opts, **kwargs):
    for color in (False, True):
        given = dict(BASE, color=color, **{k: v for k, v in opts.items() if k not in BASE})
        given.update(opts)
        text = salt.output.out_format(copy.deepcopy(data), out, given, **kwargs)
        cases.append({"name": name, "out": out, "opts": opts, "color": color, "data": tagged(data), "text": text,
                      **({"retcode": kwargs["_retcode"]} if kwargs else {})})


def main():
    cases = []
    if sys.argv[1:] == ["old"]:
        for name, data in VALUES.items():
            for out in ("newline_values_only", "quiet"):
                record(cases, name, out, data, {})
    else:
        for name, data in VALUES.items():
            for out in ("nested", "json", "yaml", "txt", "raw", "pprint", "table", "highstate", "key", "no_return"):
                if out == "no_return" and name != "no_return":
                    continue
                record(cases, name, out, data, {})
            record(cases, name, "nested", data, {}, _retcode=1)
            for indent in (0, 2, -1):
                for out in ("json", "yaml", "pprint"):
                    record(cases, f"{name}, indent {indent}", out, data, {"output_indent": indent})
            record(cases, f"{name}, pretty", "json", data, {"output_indent": "pretty"})
        for name, data in KEYS.items():
            record(cases, name, "key", data, {})
        for name, data in STATES.items():
            for label, opts in STATE_OPTS.items():
                record(cases, f"{name}, {label}", "highstate", data, opts)
    json.dump(cases, sys.stdout, indent=0, ensure_ascii=True)


main()
