"""Record what the real Salt makes of high data.

    python record_high.py > high.json

Run with the Python of a Salt 3008.5 environment. Every case goes through the steps that a run takes: extend, verify,
requisites of the other end, exclude, compile. Cases whose answer depends on Python's hash seed are left out.
"""

import copy
import json
import os
import random
import subprocess
import sys

KNOWN = [
    "test.nop", "test.mod_watch", "file.managed", "file.directory", "file.mod_watch", "pkg.installed", "pkg.mod_aggregate",
    "pkg.removed", "service.running", "service.mod_watch", "cmd.run", "cmd.mod_watch", "user.present", "git.latest",
]

CASES = []


def case(name, high, opts=None, grains=None):
    CASES.append({"name": name, "high": high, "opts": opts or {}, "grains": grains or {}})


def body(sls="a", env="base", **states):
    entry = {"__sls__": sls, "__env__": env}
    entry.update(states)
    return entry


def nop(*args, sls="a"):
    return body(sls, test=["nop", *args])


def hand_made():
    case("one", {"x": nop()})
    case("two in order", {"b": nop({"order": 2}), "a": nop({"order": 1})})
    case("no order", {"b": nop(), "a": nop()})
    for first, second in [("first", "last"), ("last", "first"), (-1, 5), (5, -1), (-1, -2), (1.5, 1), ("odd", 3), (True, 2),
                          (None, 4), (0, -1), (10000, "last"), (3, 3)]:
        case(f"order {first} {second}", {"x": nop({"order": first}), "y": nop({"order": second}), "z": nop()})
    case("names", {"x": nop({"names": ["c", "a", "b"]}), "y": nop()})
    case("names repeated", {"x": nop({"names": ["c", "a", "c"]})})
    case("names with options", {"x": nop({"names": ["c", {"a": [{"foo": 1}, {"order": "first"}]}, "b"]}, {"foo": 2})})
    case("names with order", {"x": nop({"names": ["c", "b"]}, {"order": 7}), "y": nop({"order": 7})})
    case("names beside name", {"x": nop({"names": ["c", "b"]}, {"name": "q"})})
    case("names not text", {"x": nop({"names": [1, 2]})})
    case("names no list", {"x": nop({"names": "a"})})
    case("names is a dictionary", {"x": nop({"names": {"a": 1}})})
    case("names empty", {"x": nop({"names": []})})
    case("names option is text", {"x": nop({"names": [{"a": "b"}]})})
    case("names option is none", {"x": nop({"names": [{"a": None}]})})
    case("name is a number", {"x": nop({"name": 5})})
    case("name is none", {"x": nop({"name": None})})
    case("name", {"x": nop({"name": "y"})})
    case("state is no option", {"x": nop({"state": "y"})})
    case("fun is no option", {"x": nop({"fun": "y"})})
    case("several options in one", {"x": nop({"foo": 1, "bar": 2})})
    case("option twice", {"x": nop({"foo": 1}, {"foo": 2})})
    case("several states in an id", {"x": body(test=["nop"], file=["managed", {"mode": 644}])})
    case("included from", {"x": {"__sls__": "b", "__env__": "base", "__sls_included_from__": ["a"], "test": ["nop"]},
                           "y": nop({"require": [{"sls": "a"}]}, sls="c")})
    case("dotted state", {"x": body(**{"test.nop": []})})
    case("dotted state and function", {"x": body(**{"test.nop": ["nop"]})})
    case("odd entries", {"x": body(test=["nop", 5, None, 1.5])})
    # Form.
    case("id is a number", {5: nop()})
    case("id is none", {"__x": 1, "y": nop()})
    case("body is text", {"x": "test.nop"})
    case("body is a list", {"x": ["test.nop"]})
    case("body is none", {"x": None})
    case("state is none", {"x": body(test=None)})
    case("dotted state is none", {"x": body(**{"test.nop": None})})
    case("state is text", {"x": body(test="nop")})
    case("state is a dictionary", {"x": body(test={"nop": 1})})
    case("state is a number", {"x": body(test=5)})
    case("no function", {"x": body(test=[{"a": 1}])})
    case("nothing at all", {"x": body(test=[])})
    case("two functions", {"x": body(test=["nop", "fail"])})
    case("three functions", {"x": body(test=["nop", "fail", "other"])})
    case("whitespace", {"x": body(test=["nop fail"])})
    case("whitespace at the end", {"x": body(test=["nop "])})
    case("whitespace and function", {"x": body(test=["nop", "mode 644"])})
    case("not a dictionary", ["x"])
    case("nothing", {})
    case("text", "x")
    for kind in ["require", "watch", "onchanges", "onfail", "prereq", "listen", "require_any", "watch_any", "onchanges_any",
                 "onfail_any", "onfail_all", "onfail_stop", "prerequired"]:
        case(f"{kind} is text", {"x": nop({kind: "y"})})
        case(f"{kind} is a dictionary", {"x": nop({kind: {"test": "y"}}), "y": nop()})
        case(f"{kind} of two keys", {"x": nop({kind: [{"test": "y", "file": "z"}]}), "y": nop()})
        case(f"{kind} of a list", {"x": nop({kind: [{"test": ["y"]}]}), "y": nop()})
        case(f"{kind} of a dictionary", {"x": nop({kind: [{"test": {"y": 1}}]}), "y": nop()})
        case(f"{kind} with a dot", {"x": nop({kind: [{"test.nop": "y"}]}), "y": nop()})
        case(f"{kind} number", {"x": nop({kind: [5]}), "y": nop()})
        case(f"{kind} beside another", {"x": nop({kind: [{"test": "y"}], "foo": 1}), "y": nop()})
        case(f"{kind} of none", {"x": nop({kind: [{"test": None}]}), "y": nop()})
        case(f"{kind} of a number", {"x": nop({kind: [{"test": 5}]}), "y": nop()})
        case(f"{kind} plain id", {"x": nop({kind: ["y"]}), "y": nop()})
        case(f"{kind} dictionary", {"x": nop({kind: [{"test": "y"}]}), "y": nop()})
        case(f"{kind} missing", {"x": nop({kind: [{"test": "nowhere"}]}), "y": nop()})
        case(f"{kind} plain missing", {"x": nop({kind: ["nowhere"]}), "y": nop()})
        case(f"{kind} by name", {"x": nop({kind: [{"test": "other"}]}), "y": nop({"name": "other"})})
        case(f"{kind} id:", {"x": nop({kind: [{"id": "y"}]}), "y": nop()})
        case(f"{kind} sls:", {"x": nop({kind: [{"sls": "b"}]}), "y": nop(sls="b"), "z": nop(sls="b")})
        case(f"{kind} sls: missing", {"x": nop({kind: [{"sls": "c"}]}), "y": nop(sls="b")})
        case(f"{kind} glob", {"x": nop({kind: [{"test": "y*"}]}), "y1": nop(), "y2": nop(), "z": nop()})
        case(f"{kind} glob of files", {"x": nop({kind: [{"sls": "b.*"}]}), "y": nop(sls="b.a"), "z": nop(sls="b.c")})
        case(f"{kind} glob of nothing", {"x": nop({kind: [{"test": "q*"}]}), "y1": nop()})
        case(f"{kind} itself", {"x": nop({kind: [{"test": "x"}]})})
        case(f"{kind} circle", {"x": nop({kind: [{"test": "y"}]}), "y": nop({kind: [{"test": "x"}]})})
        case(f"{kind} circle of three", {"x": nop({kind: [{"test": "y"}]}), "y": nop({kind: [{"test": "z"}]}),
                                         "z": nop({kind: [{"test": "x"}]})})
        case(f"{kind} disabled", {"x": nop({kind: [{"test": "y"}]}), "y": nop()}, {"disabled_requisites": [kind]})
        case(f"{kind} turns the order", {"x": nop({"order": 1}, {kind: [{"test": "y"}]}), "y": nop({"order": 2})})
        case(f"{kind} before others", {"y": nop({"order": 9}), "x": nop({"order": 1}, {kind: [{"test": "y"}]}),
                                       "z": nop({"order": 2}), "w": nop({"order": 10})})
    case("watch without mod_watch", {"x": body(pkg=["installed", {"watch": [{"test": "y"}]}]), "y": nop()})
    case("watch_any without mod_watch", {"x": body(pkg=["installed", {"watch_any": [{"test": "y"}]}]), "y": nop()})
    case("watch without mod_watch beside require", {
        "x": body(pkg=["installed", {"watch": [{"test": "y"}]}, {"require": [{"test": "z"}]}]), "y": nop(), "z": nop()})
    # The other end.
    for kind in ["require_in", "watch_in", "onfail_in", "onchanges_in", "prereq_in", "use_in", "use", "listen_in"]:
        case(f"{kind} list", {"x": nop({kind: [{"test": "y"}]}, {"foo": 1}), "y": nop({"bar": 2})})
        case(f"{kind} two", {"x": nop({kind: [{"test": "y"}, {"test": "z"}]}, {"foo": 1}), "y": nop(), "z": nop()})
        case(f"{kind} dictionary", {"x": nop({kind: {"test": "y"}}), "y": nop()})
        case(f"{kind} text in a list", {"x": nop({kind: ["y"]}), "y": nop()})
        case(f"{kind} text by name", {"x": nop({kind: ["other"]}), "y": nop({"name": "other"})})
        case(f"{kind} text missing", {"x": nop({kind: ["nowhere"]}), "y": nop()})
        case(f"{kind} missing", {"x": nop({kind: [{"test": "nowhere"}]}), "y": nop()})
        case(f"{kind} other state", {"x": nop({kind: [{"file": "y"}]}), "y": nop()})
        case(f"{kind} by name", {"x": nop({kind: [{"test": "other"}]}), "y": nop({"name": "other"})})
        case(f"{kind} sls", {"x": nop({kind: [{"sls": "b"}]}), "y": nop(sls="b"), "z": nop(sls="b")})
        case(f"{kind} with a dot", {"x": nop({kind: [{"test.nop": "y"}]}), "y": nop()})
        case(f"{kind} dictionary with a dot", {"x": nop({kind: {"test.nop": "y"}}), "y": nop()})
        case(f"{kind} beside the other", {"x": nop({kind: [{"test": "y"}]}), "y": nop({"require": [{"test": "z"}]}), "z": nop()})
        case(f"{kind} from two", {"x": nop({kind: [{"test": "y"}]}), "w": nop({kind: [{"test": "y"}]}), "y": nop()})
        case(f"{kind} disabled", {"x": nop({kind: [{"test": "y"}]}), "y": nop()}, {"disabled_requisites": [kind]})
        case(f"{kind} disabled as text", {"x": nop({kind: [{"test": "y"}]}), "y": nop()}, {"disabled_requisites": kind})
        case(f"{kind} of several states", {"x": body(test=["nop"], file=["managed", {kind: [{"test": "y"}]}]), "y": nop()})
        case(f"{kind} circle", {"x": nop({kind: [{"test": "y"}]}), "y": nop({kind: [{"test": "x"}]})})
        case(f"{kind} empty", {"x": nop({kind: []}), "y": nop()})
    case("use takes options", {
        "x": body(file=["managed", {"mode": 644}, {"user": "a"}, {"require": [{"test": "z"}]}]),
        "y": body(file=["managed", {"mode": 600}, {"use": [{"file": "x"}]}]), "z": nop()})
    case("use of another state", {"x": nop({"foo": 1}), "y": body(file=["managed", {"use": [{"test": "x"}]}])})
    # Extend.
    ext = lambda name, **states: {name: {"__sls__": "e", "__env__": "base", **states}}
    case("extend adds", {"x": nop(), "__extend__": [ext("x", test=[{"foo": 1}])]})
    case("extend replaces", {"x": nop({"foo": 1}), "__extend__": [ext("x", test=[{"foo": 2}])]})
    case("extend the function", {"x": nop({"foo": 1}), "__extend__": [ext("x", test=["other"])]})
    case("extend requisites", {"x": nop({"require": [{"test": "y"}]}), "y": nop(), "z": nop(),
                               "__extend__": [ext("x", test=[{"require": [{"test": "z"}]}])]})
    case("extend with a state", {"x": nop(), "__extend__": [ext("x", file=["managed"])]})
    case("extend by name", {"x": nop({"name": "q"}), "__extend__": [ext("q", test=[{"foo": 1}])]})
    case("extend by a name of two", {"x": nop({"name": "q"}), "y": nop({"name": "q"}), "__extend__": [ext("q", test=[{"f": 1}])]})
    case("extend nothing", {"x": nop(), "__extend__": [ext("q", test=[{"foo": 1}])]})
    case("extend twice", {"x": nop(), "__extend__": [ext("x", test=[{"foo": 1}]), ext("x", test=[{"foo": 2}, {"bar": 1}])]})
    case("extend names with name", {"x": nop({"names": ["a", "b"]}), "__extend__": [ext("x", test=[{"name": "c"}])]})
    case("extend from an excluded file", {"x": nop(), "__extend__": [ext("x", test=[{"foo": 1}])], "__exclude__": ["e"]})
    case("extend from an excluded file, long", {
        "x": nop(), "__extend__": [ext("x", test=[{"foo": 1}])], "__exclude__": [{"sls": "e"}]})
    case("extend excluded id", {"x": nop(), "__extend__": [ext("x", test=[{"foo": 1}])], "__exclude__": [{"id": "x"}]})
    case("extend watch", {"x": nop(), "y": body(service=["running", {"watch": [{"test": "x"}]}]),
                          "__extend__": [ext("y", service=[{"watch": [{"test": "z"}]}])], "z": nop()})
    case("extend without a place", {"x": nop(), "__extend__": [{"q": {"test": [{"foo": 1}]}}]})
    # Exclude.
    case("exclude an id", {"x": nop(), "y": nop(), "__exclude__": [{"id": "x"}]})
    case("exclude a file", {"x": nop(), "y": nop(sls="b"), "__exclude__": ["b"]})
    case("exclude a file, long", {"x": nop(), "y": nop(sls="b"), "__exclude__": [{"sls": "b"}]})
    case("exclude by pattern", {"x": nop(), "y": nop(sls="b.c"), "__exclude__": ["b.*"]})
    case("exclude what is required", {"x": nop({"require": [{"test": "y"}]}), "y": nop(), "__exclude__": [{"id": "y"}]})
    case("exclude nothing", {"x": nop(), "__exclude__": [{"id": "nowhere"}, 5, {"a": 1, "b": 2}, {"odd": 1}]})
    case("exclude all", {"x": nop(), "__exclude__": ["*"]})
    # Aggregates.
    pkgs = {f"p{n}": body(pkg=["installed", {"order": n}]) for n in range(5)}
    case("aggregate off", pkgs)
    for value in [True, False, ["pkg"], ["file"], "pkg", None, {"pkg": 1}]:
        case(f"aggregate {value}", pkgs, {"state_aggregate": value})
    case("aggregate in a chain", {
        f"p{n}": body(pkg=["installed", {"order": n}, *([{"require": [{"pkg": f"p{n - 1}"}]}] if n else [])]) for n in range(5)},
        {"state_aggregate": True})
    case("aggregate around a state", {
        "a": body(pkg=["installed", {"order": 1}]), "b": nop({"require": [{"pkg": "a"}]}, {"order": 2}),
        "c": body(pkg=["installed", {"require": [{"test": "b"}]}, {"order": 3}]), "d": body(pkg=["installed", {"order": 4}])},
        {"state_aggregate": True})
    case("aggregate per state", {"a": body(pkg=["installed", {"aggregate": True}]), "b": body(pkg=["installed", {"aggregate": True}]),
                                 "c": body(pkg=["installed"])})
    # Turned off.
    case("turned off", {"a": nop(), "b": body(pkg=["installed"])}, grains={"state_runs_disabled": ["pkg.*"]})
    case("turned off by pattern", {"a": nop(), "b": body(pkg=["installed"])}, grains={"state_runs_disabled": ["*.inst*", "test.nop"]})
    case("turned off and required", {"a": nop({"require": [{"pkg": "b"}]}), "b": body(pkg=["installed"])},
         grains={"state_runs_disabled": ["pkg.*"]})
    # Prereq.
    case("prereq chain", {"a": nop({"prereq": [{"test": "b"}]}), "b": nop({"prereq": [{"test": "c"}]}), "c": nop()})
    case("prereq with requisites", {"a": nop({"prereq": [{"test": "b"}]}), "b": nop({"require": [{"test": "c"}]}), "c": nop()})
    case("prereq required", {"a": nop({"prereq": [{"test": "b"}]}, {"require": [{"test": "b"}]}), "b": nop()})
    case("prereq after require", {"b": nop({"require": [{"test": "c"}]}), "c": nop(), "a": nop({"prereq": [{"test": "b"}]})})
    case("prereq of two", {"a": nop({"prereq": [{"test": "b"}, {"test": "c"}]}), "b": nop(), "c": nop()})
    case("two prereqs of one", {"a": nop({"prereq": [{"test": "c"}]}), "b": nop({"prereq": [{"test": "c"}]}), "c": nop()})
    case("names and requisites", {"x": nop({"names": ["p", "q"]}), "y": nop({"require": [{"test": "p"}]}, {"order": 1})})
    case("names required as id", {"x": nop({"names": ["p", "q"]}), "y": nop({"require": [{"test": "x"}]}, {"order": 1})})
    case("mixed kinds", {"x": nop({"require": ["y"]}, {"watch": [{"test": "y"}]}, {"onchanges": [{"test": "z"}]}),
                         "y": nop(), "z": nop()})
    case("one tag twice", {"x": nop({"names": ["p", {"p": [{"foo": 1}]}]})})
    case("no file", {"x": {"test": ["nop"]}})
    case("no file, missing", {"x": {"test": ["nop", {"require": [{"test": "q"}]}]}})


def generated(count):
    rng = random.Random(20251121)
    kinds = ["require", "watch", "onchanges", "onfail", "prereq", "require_any", "watch_any", "onchanges_any", "onfail_any",
             "onfail_all", "require_in", "watch_in", "onchanges_in", "onfail_in", "prereq_in", "use", "use_in"]
    functions = [("test", "nop"), ("file", "managed"), ("pkg", "installed"), ("service", "running"), ("cmd", "run")]
    for number in range(count):
        ids = [f"s{n}" for n in range(rng.randint(2, 9))]
        states = {id_: rng.choice(functions) for id_ in ids}
        high = {}
        for id_ in ids:
            module, function = states[id_]
            args = [function]
            for _ in range(rng.choice([0, 0, 1, 1, 2])):
                other = rng.choice(ids[: ids.index(id_)] or ids) if rng.random() < 0.85 else rng.choice(ids)
                reference = rng.choice([{states[other][0]: other}, {states[other][0]: other}, other, {"id": other},
                                        {"sls": rng.choice("abc")}, {states[other][0]: "s*"}]
                                       if rng.random() < 0.2 else [{states[other][0]: other}])
                args.append({rng.choice(kinds): [reference]})
            if rng.random() < 0.4:
                args.append({"order": rng.choice([1, 2, 3, 10, 100, -1, -5, "first", "last"])})
            if rng.random() < 0.15:
                args.append({"names": rng.sample(["n1", "n2", "n3", "n4"], 2)})
            if rng.random() < 0.3:
                args.append({rng.choice(["mode", "user"]): rng.randint(1, 9)})
            rng.shuffle(args)
            high[id_] = body(rng.choice("abc"), **{module: args})
        opts = {"state_aggregate": True} if rng.random() < 0.2 else {}
        case(f"generated {number}", high, opts)


def answer(salt_state, one):
    st = salt_state.State.__new__(salt_state.State)
    opts = dict(one["opts"], grains=one["grains"])
    st.opts, st.state_con, st.states = opts, {}, set(KNOWN)
    st.dependency_dag = salt_state.DependencyGraph()
    st._trusted_functions = {"config.option": lambda key, default=None: opts.get(key, default)}
    st._processed_sls_files = set()
    st._State__run_num = 0
    high = copy.deepcopy(one["high"])
    try:
        high, errors = st.reconcile_extend(high) if isinstance(high, dict) else (high, [])
        errors += st.verify_high(high)
        if errors:
            return {"step": "verify", "errors": errors}
        high, errors = st.requisite_in(high)
        high = st.apply_exclude(high)
        if errors:
            return {"step": "requisites", "errors": errors}
        gathered = copy.deepcopy(high)
        chunks, errors = st.compile_high_data(high)
        if errors:
            return {"step": "compile", "errors": errors, "high": gathered}
        return {"step": "done", "high": gathered, "chunks": chunks, "disabled": st.disabled}
    except Exception as exc:  # what Salt cannot take
        return {"step": "raised", "error": f"{type(exc).__name__}: {exc}"}


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "answers":
        import salt.state

        print(json.dumps([answer(salt.state, one) for one in CASES]))
        return
    runs = []
    for seed in "0", "1", "2":
        run = subprocess.run([sys.executable, __file__, "answers"], env={**os.environ, "PYTHONHASHSEED": seed},
                             stdout=subprocess.PIPE, check=True)
        runs.append(json.loads(run.stdout))
    kept = [{**one, "answer": answers[0]} for one, *answers in zip(CASES, *runs)
            if all(other == answers[0] for other in answers) and all(isinstance(key, str) for key in one["high"])]
    print("{\"known\": " + json.dumps(KNOWN) + ", \"cases\": [")
    print(",\n".join(json.dumps(one) for one in kept))
    print("]}")
    print(f"{len(kept)} of {len(CASES)} cases", file=sys.stderr)


hand_made()
generated(260)
main()
