"""The cases of `record_file.py`: what is there before, and which states are applied in which order."""

import base64

CASES = []


def f(path, text="", **more):
    return {"path": path, "text": text, **more}


def b(path, content, **more):
    return {"path": path, "bytes": base64.b64encode(content).decode(), **more}


def d(path, **more):
    return {"path": path, "dir": True, **more}


def ln(path, target, **more):
    return {"path": path, "link": target, **more}


def run(fun, test=False, /, low=None, chunks=None, id="id", **args):
    entry = {"fun": fun if "." in fun else f"file.{fun}", "args": args}
    if test:
        entry["test"] = True
    if low:
        entry["low"] = low
    if chunks:
        entry["chunks"] = chunks
    if id != "id":
        entry["id"] = id
    return entry


def case(name, setup, *runs, **more):
    CASES.append({"name": name, "setup": setup, "runs": list(runs), **more})


def usual(label, setup, fun, /, pillar=None, **args):
    """In test mode, for real, again, and in test mode again."""
    more = {"pillar": pillar} if pillar else {}
    case(label, setup, run(fun, True, **args), run(fun, **args), run(fun, **args), run(fun, True, **args), **more)


X = "@DIR@/x"
RAW = base64.b64encode(b"\xff\xfe\x00raw").decode()

# absent, exists, missing
for kind, setup in {
    "file": [f("x", "a")],
    "link": [ln("x", "nowhere")],
    "directory": [d("x"), f("x/y", "a"), d("x/z")],
    "nothing": [],
    "linked-directory": [d("real"), f("real/y"), ln("x", "real")],
    "fifo": [{"path": "x", "fifo": True}],
}.items():
    usual(f"absent {kind}", setup, "absent", name=X)
    case(f"exists {kind}", setup, run("exists", name=X), run("exists", True, name=X))
    case(f"missing {kind}", setup, run("missing", name=X), run("missing", True, name=X))
for name in ["", "relative", "/"]:
    case(f"absent name {name!r}", [], run("absent", name=name), run("absent", True, name=name))
    case(f"exists name {name!r}", [], run("exists", name=name), run("missing", name=name))

# touch
usual("touch new", [], "touch", name=X)
usual("touch file", [f("x", "a", time=1000)], "touch", name=X)
usual("touch directory", [d("x")], "touch", name=X)
usual("touch times", [f("x", "a", time=1000)], "touch", name=X, atime=5, mtime=7)
usual("touch same times", [f("x", "a", time=1000)], "touch", name=X, atime=1000.0, mtime=1000.0)
usual("touch no directory", [], "touch", name="@DIR@/a/b")
usual("touch makedirs", [], "touch", name="@DIR@/a/b/c", makedirs=True)
case("touch relative", [], run("touch", name="x"), run("touch", name=""))

# symlink
usual("symlink new", [], "symlink", name=X, target="@DIR@/t")
usual("symlink relative target", [], "symlink", name=X, target="t/../u")
usual("symlink change", [ln("x", "old")], "symlink", name=X, target="new")
usual("symlink file there", [f("x", "a")], "symlink", name=X, target="new")
usual("symlink directory there", [d("x")], "symlink", name=X, target="new")
usual("symlink force file", [f("x", "a")], "symlink", name=X, target="new", force=True)
usual("symlink force directory", [d("x"), f("x/y")], "symlink", name=X, target="new", force=True)
usual("symlink backup", [f("x", "a")], "symlink", name=X, target="new", backupname="old")
usual("symlink backup absolute", [f("x", "a")], "symlink", name=X, target="new", backupname="@DIR@/b")
usual("symlink backup wrong", [f("x", "a")], "symlink", name=X, target="new", backupname="a/b")
usual("symlink backup there", [f("x", "a"), f("old", "o")], "symlink", name=X, target="new", backupname="old")
usual("symlink backup force", [f("x", "a"), f("old", "o")], "symlink", name=X, target="new", backupname="old", force=True)
usual("symlink no directory", [], "symlink", name="@DIR@/a/x", target="t")
usual("symlink makedirs", [], "symlink", name="@DIR@/a/b/x", target="t", makedirs=True, mode="0750")
usual("symlink owner", [ln("x", "t")], "symlink", name=X, target="t", user="nobody", group="nogroup")
usual("symlink atomic", [f("x", "a")], "symlink", name=X, target="t", atomic=True)
usual("symlink not followed", [ln("x", "nowhere")], "symlink", name=X, target="t", follow_symlinks=False)
usual("symlink inherit", [ln("x", "t")], "symlink", name=X, target="t", inherit_user_and_group=True)
case("symlink wrong", [], run("symlink", name="x", target="t"), run("symlink", name="", target="t"),
     run("symlink", name=X, target="t", user="nouser"), run("symlink", name="x", target="t", user="nouser", group="nogr"))

# hardlink
usual("hardlink new", [f("t", "a")], "hardlink", name=X, target="@DIR@/t")
usual("hardlink there", [f("t", "a"), {"path": "x", "hard": "t"}], "hardlink", name=X, target="@DIR@/t")
usual("hardlink other", [f("t", "a"), f("u", "b"), {"path": "x", "hard": "u"}], "hardlink", name=X, target="@DIR@/t")
usual("hardlink file there", [f("t", "a"), f("x", "b")], "hardlink", name=X, target="@DIR@/t")
usual("hardlink force", [f("t", "a"), f("x", "b")], "hardlink", name=X, target="@DIR@/t", force=True)
usual("hardlink no target", [], "hardlink", name=X, target="@DIR@/t")
usual("hardlink directory", [d("t")], "hardlink", name=X, target="@DIR@/t")
usual("hardlink to directory", [f("t"), d("x")], "hardlink", name=X, target="@DIR@/t")
usual("hardlink no directory", [f("t")], "hardlink", name="@DIR@/a/x", target="@DIR@/t")
usual("hardlink makedirs", [f("t")], "hardlink", name="@DIR@/a/x", target="@DIR@/t", makedirs=True, dir_mode=750)
case("hardlink wrong", [], run("hardlink", name="x", target="t"), run("hardlink", name="", target="t"),
     run("hardlink", name=X, target="@DIR@/t", user="nouser"))

# copy
usual("copy new", [f("s", "a", mode="0640")], "copy", name=X, source="@DIR@/s")
usual("copy there", [f("s", "a"), f("x", "b")], "copy", name=X, source="@DIR@/s")
usual("copy force", [f("s", "a"), f("x", "b")], "copy", name=X, source="@DIR@/s", force=True)
usual("copy force same", [f("s", "a"), f("x", "a")], "copy", name=X, source="@DIR@/s", force=True)
usual("copy preserve", [f("s", "a", mode="0600", user="nobody", group="nogroup")], "copy", name=X, source="@DIR@/s", preserve=True)
usual("copy mode", [f("s", "a")], "copy", name=X, source="@DIR@/s", mode="0600", user="nobody", group="nogroup")
usual("copy makedirs", [f("s", "a")], "copy", name="@DIR@/a/b/x", source="@DIR@/s", makedirs=True, mode=640)
usual("copy makedirs mode", [f("s", "a")], "copy", name="@DIR@/a/b/x", source="@DIR@/s", makedirs=True, dir_mode="0711")
usual("copy no directory", [f("s", "a")], "copy", name="@DIR@/a/x", source="@DIR@/s")
usual("copy no source", [], "copy", name=X, source="@DIR@/s")
usual("copy directory", [d("s"), f("s/a", "1", mode="0600"), d("s/b", mode="0700"), ln("s/l", "a")], "copy", name=X, source="@DIR@/s")
usual("copy subdir", [f("s", "a"), d("x")], "copy", name=X, source="@DIR@/s", subdir=True)
usual("copy link", [f("r", "a"), ln("s", "r")], "copy", name=X, source="@DIR@/s")
case("copy wrong", [f("s")], run("copy", name="x", source="@DIR@/s"), run("copy", name="", source="@DIR@/s"),
     run("copy", name=X, source="@DIR@/s", user="nouser"), run("copy", True, name=X, source="@DIR@/s", user="nouser"))

# rename
usual("rename file", [f("s", "a")], "rename", name=X, source="@DIR@/s")
usual("rename there", [f("s", "a"), f("x", "b")], "rename", name=X, source="@DIR@/s")
usual("rename force", [f("s", "a"), f("x", "b")], "rename", name=X, source="@DIR@/s", force=True)
usual("rename directory", [d("s"), f("s/a", "1")], "rename", name=X, source="@DIR@/s")
usual("rename link", [ln("s", "t")], "rename", name=X, source="@DIR@/s")
usual("rename makedirs", [f("s", "a")], "rename", name="@DIR@/a/b/x", source="@DIR@/s", makedirs=True)
usual("rename no directory", [f("s", "a")], "rename", name="@DIR@/a/x", source="@DIR@/s")
case("rename wrong", [], run("rename", name="x", source="@DIR@/s"), run("rename", name="", source="@DIR@/s"))

# managed, with contents
TEXT = "one\ntwo\nthree\n"
usual("managed contents new", [], "managed", name=X, contents="a\nb")
usual("managed contents change", [f("x", TEXT)], "managed", name=X, contents="one\n2\nthree")
usual("managed contents same", [f("x", "a\n")], "managed", name=X, contents="a")
usual("managed contents list", [], "managed", name=X, contents=["a", "b\n", 5])
usual("managed contents number", [], "managed", name=X, contents=5)
usual("managed contents empty", [f("x", "a")], "managed", name=X, contents="")
usual("managed contents not empty", [f("x", "a")], "managed", name=X, contents="", allow_empty=False)
usual("managed contents no newline", [], "managed", name=X, contents="a\nb\n", contents_newline=False)
usual("managed contents crlf", [], "managed", name=X, contents="a\r\nb\r\n")
usual("managed contents odd ends", [], "managed", name=X, contents="a\x0cb\u2028c\x85d")
usual("managed contents umlauts", [f("x", "a\u00e4\n")], "managed", name=X, contents="\u00fc\U0001f600")
usual("managed contents bytes", [f("x", "a\n")], "managed", name=X, contents={"$bytes": RAW})
usual("managed contents utf8 bytes", [], "managed", name=X, contents={"$bytes": base64.b64encode(b"a\nb").decode()})
usual("managed contents map", [], "managed", name=X, contents={"a": 1})
usual("managed contents empty list", [], "managed", name=X, contents=[])
usual("managed contents false", [], "managed", name=X, contents=False)
usual("managed binary to text", [b("x", b"\0\1\2")], "managed", name=X, contents="a")
usual("managed latin file", [b("x", b"caf\xe9\n")], "managed", name=X, contents="cafe")
usual("managed long diff", [f("x", "".join(f"{i}\n" for i in range(60)))], "managed", name=X,
      contents="".join(f"{i}\n" for i in range(60) if i not in (3, 30, 31)) + "end")
usual("managed no newline at end", [f("x", "a\nb")], "managed", name=X, contents="a\nc")
usual("managed pillar", [], "managed", name=X, contents_pillar="a:b", pillar={"a": {"b": "from\npillar"}})
usual("managed pillar list", [], "managed", name=X, contents_pillar=["a:b", "c"], pillar={"a": {"b": "1"}, "c": "2"})
usual("managed pillar missing", [], "managed", name=X, contents_pillar="a:c", pillar={"a": {"b": "1"}})
usual("managed pillar list missing", [], "managed", name=X, contents_pillar=["a:b", "z"], pillar={"a": {"b": "1"}})
usual("managed pillar empty", [], "managed", name=X, contents_pillar="a", allow_empty=False, pillar={"a": ""})
usual("managed pillar delimiter", [], "managed", name=X, contents_pillar="a|b", contents_delimiter="|", pillar={"a": {"b": "1"}})
usual("managed grains", [], "managed", name=X, contents_grains="deep:er")
usual("managed grains missing", [], "managed", name=X, contents_grains="deep:no")
usual("managed grains list", [], "managed", name=X, contents_grains=["deep:er", "os"])
usual("managed mode", [f("x", "a\n")], "managed", name=X, contents="a", mode="0600")
usual("managed mode number", [], "managed", name=X, contents="a", mode=600)
usual("managed mode 0o", [], "managed", name=X, contents="a", mode="0o640")
usual("managed mode wrong", [], "managed", name=X, contents="a", mode="u+x")
usual("managed owner", [f("x", "a\n")], "managed", name=X, contents="a", user="nobody", group="nogroup")
usual("managed owner numbers", [f("x", "a\n")], "managed", name=X, contents="a", user=65534, group=65534)
usual("managed new owner mode", [], "managed", name=X, contents="a", user="nobody", group="nogroup", mode="0640")
usual("managed owner kwarg", [], "managed", name=X, contents="a", owner="nobody")
usual("managed setuid owner", [f("x", "a\n", mode="4755")], "managed", name=X, contents="a", user="nobody")
usual("managed keeps mode", [f("x", "b\n", mode="0604", user="nobody", group="nogroup")], "managed", name=X, contents="a")
usual("managed no user", [], "managed", name=X, contents="a", user="nouser", group="nogr")
usual("managed no directory", [], "managed", name="@DIR@/a/x", contents="a")
usual("managed makedirs", [], "managed", name="@DIR@/a/b/x", contents="a", makedirs=True)
usual("managed makedirs mode", [], "managed", name="@DIR@/a/b/x", contents="a", makedirs=True, mode="0640")
usual("managed makedirs dir_mode", [], "managed", name="@DIR@/a/b/x", contents="a", makedirs=True, dir_mode="0711", mode="0600", user="nobody", group="nogroup")
usual("managed directory", [d("x")], "managed", name=X, contents="a")
usual("managed not create", [], "managed", name=X, contents="a", create=False)
usual("managed not create there", [f("x", "b")], "managed", name=X, contents="a", create=False)
usual("managed not replace", [f("x", "b")], "managed", name=X, contents="a", replace=False)
usual("managed not replace mode", [f("x", "b")], "managed", name=X, contents="a", replace=False, mode="0600")
usual("managed not replace new", [], "managed", name=X, contents="a", replace=False)
usual("managed nothing", [], "managed", name=X)
usual("managed nothing there", [f("x", "b")], "managed", name=X, mode="0600")
usual("managed nothing mode", [], "managed", name=X, mode="0600")
usual("managed show_changes", [f("x", "b")], "managed", name=X, contents="a", show_changes=False)
usual("managed file_mode", [], "managed", name=X, contents="a", file_mode="0600")
usual("managed link", [f("t", "b\n"), ln("x", "t")], "managed", name=X, contents="a")
usual("managed link not followed", [f("t", "b\n"), ln("x", "t")], "managed", name=X, contents="a", follow_symlinks=False)
usual("managed dangling link", [ln("x", "t")], "managed", name=X, contents="a")
usual("managed encoding", [], "managed", name=X, contents="caf\u00e9", encoding="latin-1")
usual("managed utf-16", [], "managed", name=X, contents="a", encoding="utf-16-le")
usual("managed encoding error", [], "managed", name=X, contents="\u20ac", encoding="ascii")
usual("managed encoding ignore", [], "managed", name=X, contents="a\u20acb", encoding="ascii", encoding_errors="ignore")
usual("managed check_cmd", [f("x", "b\n")], "managed", name=X, contents="a", check_cmd="grep -q a")
usual("managed check_cmd fails", [f("x", "b\n")], "managed", name=X, contents="a", check_cmd="echo no; echo err >&2; grep -q z")
usual("managed check_cmd new", [], "managed", name=X, contents="a", check_cmd="true", mode="0640")
usual("managed check_cmd same", [f("x", "a\n")], "managed", name=X, contents="a", check_cmd="false")
usual("managed check_cmd ext", [], "managed", name=X, contents="a", check_cmd="echo", tmp_ext=".conf", tmp_dir="@DIR@")
usual("managed ignore_ordering", [f("x", "b\na\n")], "managed", name=X, contents="a\nb", ignore_ordering=True)
usual("managed ignore_whitespace", [f("x", " a\n")], "managed", name=X, contents="a", ignore_whitespace=True)
usual("managed ignore_comments", [f("x", "a # b\n")], "managed", name=X, contents="a", ignore_comment_characters="#", ignore_whitespace=True)
usual("managed ignore but different", [f("x", "a # b\n")], "managed", name=X, contents="c", ignore_comment_characters=["#", ";"])
usual("managed new_file_diff", [], "managed", name=X, contents="a\nb", new_file_diff=True)
usual("managed relative", [], "managed", name="x", contents="a")
case("managed conflicts", [f("srv/s", "a")],
     run("managed", name="", contents="a"),
     run("managed", name=X, contents="a", source="salt://s"),
     run("managed", name=X, contents="a", contents_pillar="b"),
     run("managed", name=X, contents="a", mode="keep"),
     run("managed", name=X, source="salt://s", context="x"),
     run("managed", name=X, source="salt://s", defaults="x"))

# managed, with a source
S = [f("srv/s", TEXT, mode="0640"), f("srv/sub/t", "t\n"), b("srv/bin", b"\0\1\2")]
usual("managed source new", S, "managed", name=X, source="salt://s")
usual("managed source change", S + [f("x", "old\n")], "managed", name=X, source="salt://s")
usual("managed source same", S + [f("x", TEXT)], "managed", name=X, source="salt://s")
usual("managed source missing", S, "managed", name=X, source="salt://none")
usual("managed source missing there", S + [f("x", "a")], "managed", name=X, source="salt://none")
usual("managed source binary", S + [f("x", "a")], "managed", name=X, source="salt://bin")
usual("managed source list", S, "managed", name=X, source=["salt://none", "salt://sub/t", "salt://s"])
usual("managed source list none", S, "managed", name=X, source=["salt://none", "/no/such"])
usual("managed source list file", S + [f("l", "local\n")], "managed", name=X, source=["salt://none", "@DIR@/l"])
usual("managed source list map", S, "managed", name=X, source=[{"salt://none": ""}, {"salt://s": ""}])
usual("managed source list there", S + [f("x", "a\n")], "managed", name=X, source=["salt://none", "salt://sub/t"])
usual("managed source keep", S, "managed", name=X, source="salt://s", mode="keep")
usual("managed source keep there", S + [f("x", "a")], "managed", name=X, source="salt://s", mode="keep")
usual("managed source path", S + [f("l", "local\n")], "managed", name=X, source="@DIR@/l")
usual("managed source path missing", S, "managed", name=X, source="@DIR@/l")
usual("managed source file", S + [f("l", "local\n", mode="0600")], "managed", name=X, source="file://@DIR@/l", mode="keep")
usual("managed source file missing", S, "managed", name=X, source="file://@DIR@/l")
usual("managed source path hash", S + [f("l", "local\n")], "managed", name=X, source="@DIR@/l",
      source_hash="sha256=a5a4e16fba96a8ed3e8b5ba3b6d1f4d0bd3b6a2c2c0ba2b8ff1fd0d9e70a4c30")
usual("managed source path md5", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="b1946ac92492d2347c6235b4d2611184")
usual("managed source path hash there", S + [f("l", "hello\n"), f("x", "old\n")], "managed", name=X, source="@DIR@/l", source_hash="md5=b1946ac92492d2347c6235b4d2611184")
usual("managed source path hash wrong", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="c1946ac92492d2347c6235b4d2611184")
usual("managed source path hash wrong there", S + [f("l", "hello\n"), f("x", "old\n")], "managed", name=X, source="@DIR@/l", source_hash="c1946ac92492d2347c6235b4d2611184")
usual("managed source path hash file", S + [f("l", "hello\n"), f("sums", "b1946ac92492d2347c6235b4d2611184  l\n")], "managed", name=X, source="@DIR@/l", source_hash="@DIR@/sums")
usual("managed source path hash salt", S + [f("l", "hello\n"), f("srv/sums", "00000000000000000000000000000000 other\nb1946ac92492d2347c6235b4d2611184 *l\n")], "managed", name=X, source="@DIR@/l", source_hash="salt://sums")
usual("managed source path hash name", S + [f("l", "hello\n"), f("srv/sums", "00000000000000000000000000000000 l\nb1946ac92492d2347c6235b4d2611184 q\n")], "managed", name=X, source="@DIR@/l", source_hash="salt://sums", source_hash_name="q")
usual("managed source path hash bad", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="xyz")
usual("managed source path hash kind", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="crc=b1946ac92492d2347c6235b4d2611184")
usual("managed source path hash length", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="sha1=b1946ac92492d2347c6235b4d2611184")
usual("managed source path hash proto", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="foo://bar")
usual("managed source path hash gone", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="salt://nosums")
usual("managed source skip_verify", S + [f("l", "hello\n")], "managed", name=X, source="@DIR@/l", source_hash="c1946ac92492d2347c6235b4d2611184", skip_verify=True)
usual("managed http unverified", S, "managed", name=X, source="http://127.0.0.1:1/x")
usual("managed source itself", S + [f("x", "a\n")], "managed", name=X, source=X)
usual("managed source backup", S + [f("x", "a\n")], "managed", name=X, source="salt://s", backup="minion")
usual("managed source makedirs", S, "managed", name="@DIR@/a/b/x", source="salt://s", makedirs=True, mode="0604")
usual("managed source no directory", S, "managed", name="@DIR@/a/b/x", source="salt://s")
usual("managed source show_changes", S + [f("x", "a\n")], "managed", name=X, source="salt://s", show_changes=False)
usual("managed source link", S + [f("t", "b\n"), ln("x", "t")], "managed", name=X, source="salt://s")
usual("managed source link not followed", S + [f("t", "b\n"), ln("x", "t")], "managed", name=X, source="salt://s", follow_symlinks=False)
usual("managed source check_cmd", S + [f("x", "a\n")], "managed", name=X, source="salt://s", check_cmd="grep -q two")
usual("managed source check_cmd fails", S + [f("x", "a\n")], "managed", name=X, source="salt://s", check_cmd="grep -q zwei")
usual("managed source new_file_diff", S, "managed", name=X, source="salt://s", new_file_diff=True)
usual("managed source ignore", S + [f("x", "two\none\nthree\n")], "managed", name=X, source="salt://s", ignore_ordering=True)
usual("managed source not replace", S + [f("x", "a\n")], "managed", name=X, source="salt://s", replace=False)
usual("managed source keep_source", S, "managed", name=X, source="salt://s", keep_source=False)
usual("managed source env", S + [f("srv-dev/s", "dev\n")], "managed", name=X, source="salt://s?saltenv=dev")
usual("managed source env missing", S, "managed", name=X, source="salt://q?saltenv=dev")
usual("managed source directory", S, "managed", name=X, source="salt://sub")
usual("managed source path directory", S + [d("l")], "managed", name=X, source="@DIR@/l")
usual("managed attrs", [f("x", "a\n")], "managed", name=X, contents="a", attrs="d")

# managed, with a template
usual("managed template contents", [], "managed", name=X, contents="{{ a }} {{ b }}\n", template="jinja", context={"a": 1}, defaults={"a": 2, "b": 3})
usual("managed template source", [f("srv/t", "{{ v }}\n{% for i in l %}{{ i }}\n{% endfor %}")], "managed", name=X, source="salt://t", template="jinja", context={"v": "x", "l": [1, 2]})
usual("managed template change", [f("srv/t", "{{ v }}\n"), f("x", "w\n")], "managed", name=X, source="salt://t", template="jinja", defaults={"v": "x"})
usual("managed template names", [f("srv/t", "{{ name }} {{ source }} {{ mode }} {{ user }} {{ saltenv }}\n")], "managed", name=X, source="salt://t", template="jinja", mode="0640", user="root")
usual("managed template pillar", [f("srv/t", "{{ pillar['k'] }} {{ salt['pillar.get']('k') }} {{ grains['os'] }}\n")], "managed", name=X, source="salt://t", template="jinja", pillar={"k": "v"})
usual("managed template kwargs", [f("srv/t", "{{ extra }}\n")], "managed", name=X, source="salt://t", template="jinja", extra="e")
usual("managed template unknown", [f("srv/t", "a\n")], "managed", name=X, source="salt://t", template="foo")
usual("managed template contents unknown", [], "managed", name=X, contents="a", template="foo")
usual("managed template plain", [f("srv/t", "a\nb")], "managed", name=X, source="salt://t", template="jinja")
usual("managed template include", [f("srv/t", "{% include 'inc' %}|{% from 'mac' import m with context %}{{ m(1) }}\n"), f("srv/inc", "inc {{ v }}"), f("srv/mac", "{% macro m(x) %}<{{ x }}{{ v }}>{% endmacro %}")], "managed", name=X, source="salt://t", template="jinja", context={"v": 7})
case("managed template undefined", [f("srv/t", "a\n{{ nothing.at.all }}\n")], run("managed", name=X, source="salt://t", template="jinja"))
case("managed template syntax", [f("srv/t", "a\n{% if %}\n")], run("managed", name=X, source="salt://t", template="jinja"))

# accumulated
ACC = {"require_in": [{"file": "id"}]}
case("accumulated", [f("srv/t", "{% for t in accumulator['a'] %}{{ t }}\n{% endfor %}")],
     run("accumulated", name="a", filename=X, text=["one", "two"], low=ACC),
     run("accumulated", name="a", filename=X, text="two", low=ACC),
     run("accumulated", name="a", filename=X, text="three", low=ACC, id="other"),
     run("managed", name=X, source="salt://t", template="jinja"))
case("accumulated orphan", [], run("accumulated", name="a", filename=X, text="one"),
     run("accumulated", name="", filename=X, text="one"), run("accumulated", name="a", filename=X, text=None, low=ACC),
     run("accumulated", name="a", filename=X, text="one", low={"watch_in": [{"service": "x"}]}))
case("accumulated block", [f("x", "a\n#s\n#e\n")],
     run("accumulated", name="a", filename=X, text=["one", "two"], low=ACC),
     run("accumulated", name="b", filename=X, text=["three"], low={"require_in": [{"file": "elsewhere"}]}),
     run("blockreplace", name=X, marker_start="#s", marker_end="#e"),
     run("blockreplace", name=X, marker_start="#s", marker_end="#e", id="elsewhere"),
     run("blockreplace", name=X, marker_start="#s", marker_end="#e", content="first", id="nobody"))

# directory
usual("directory new", [], "directory", name=X)
usual("directory new mode", [], "directory", name=X, mode=750, user="nobody", group="nogroup")
usual("directory there", [d("x")], "directory", name=X)
usual("directory change", [d("x", mode="0700")], "directory", name=X, mode="0755", user="nobody")
usual("directory slash", [], "directory", name="@DIR@/x/")
usual("directory no parent", [], "directory", name="@DIR@/a/x")
usual("directory makedirs", [], "directory", name="@DIR@/a/b/x", makedirs=True, dir_mode="0711", user="nobody", group="nogroup")
usual("directory file there", [f("x", "a")], "directory", name=X)
usual("directory force file", [f("x", "a")], "directory", name=X, force=True)
usual("directory link", [d("r"), ln("x", "r")], "directory", name=X)
usual("directory link refused", [d("r"), ln("x", "r")], "directory", name=X, allow_symlink=False)
usual("directory link force", [d("r"), ln("x", "r")], "directory", name=X, force=True)
usual("directory link mode", [d("r", mode="0700"), ln("x", "r")], "directory", name=X, mode="0755", follow_symlinks=True)
usual("directory backup", [f("x", "a")], "directory", name=X, backupname="@DIR@/old")
usual("directory backup there", [f("x", "a"), f("old", "b")], "directory", name=X, backupname="@DIR@/old")
usual("directory backup force", [f("x", "a"), f("old", "b")], "directory", name=X, backupname="@DIR@/old", force=True)
TREE = [d("x"), f("x/a", "1", mode="0600"), d("x/s", mode="0700"), f("x/s/b", "2", mode="0666"), ln("x/l", "a"), d("x/s/t")]
usual("directory recurse mode", TREE, "directory", name=X, dir_mode="0755", file_mode="0644", recurse=["mode"])
usual("directory recurse all", TREE, "directory", name=X, dir_mode="0755", file_mode="0644", user="nobody", group="nogroup", recurse=["user", "group", "mode"])
usual("directory recurse silent", TREE, "directory", name=X, dir_mode="0755", recurse=["mode", "silent"])
usual("directory recurse ignore_files", TREE, "directory", name=X, mode="0755", user="nobody", recurse=["user", "ignore_files"])
usual("directory recurse ignore_dirs", TREE, "directory", name=X, mode="0755", user="nobody", recurse=["user", "ignore_dirs"])
usual("directory recurse depth", TREE, "directory", name=X, mode="0755", user="nobody", recurse=["user"], max_depth=1)
usual("directory recurse no user", TREE, "directory", name=X, mode="0711", recurse=["user", "group", "mode"])
usual("directory recurse wrong", TREE, "directory", name=X, mode="0711", recurse=["what"])
usual("directory recurse text", TREE, "directory", name=X, mode="0711", recurse="mode")
usual("directory recurse both", TREE, "directory", name=X, mode="0711", recurse=["ignore_files", "ignore_dirs"])
usual("directory children", TREE, "directory", name=X, mode="0711", recurse=["mode"], children_only=True)
usual("directory clean", TREE, "directory", name=X, clean=True)
usual("directory clean exclude", TREE, "directory", name=X, clean=True, exclude_pat="s*")
usual("directory clean exclude regex", TREE, "directory", name=X, clean=True, exclude_pat=["E@^a$", "q"])
CHUNKS = [{"name": "@DIR@/x/a", "__id__": "keepit", "fun": "managed", "state": "file"}, {"name": "@DIR@/x/s", "__id__": "dir", "fun": "directory", "state": "file"}]
for number, need in enumerate([[{"file": "keepit"}], [{"file": "dir"}], [{"file": "@DIR@/x/a"}, {"pkg": "y"}], [{"file": "keepit"}, {"file": "dir"}]]):
    case(f"directory clean require {number}", TREE, run("directory", True, name=X, clean=True, require=need, chunks=CHUNKS),
         run("directory", name=X, clean=True, require=need, chunks=CHUNKS))
case("directory clean require recurse", TREE + [f("srv/d/b", "2")],
     run("directory", name=X, clean=True, require=[{"file": "r"}], chunks=[{"name": "@DIR@/x/s", "__id__": "r", "fun": "recurse", "source": "salt://d", "state": "file"}]))
case("directory wrong", [], run("directory", name=""), run("directory", name="x"), run("directory", name=X, clean=True, max_depth=1),
     run("directory", name=X, user="nouser"), run("directory", True, name=X, user="nouser"))

# recurse
R = [f("srv/d/a", "1\n", mode="0600"), f("srv/d/s/b", "2\n"), f("srv/d/s/t/c", "3\n"), d("srv/d/empty"), f("srv/e/a", "e\n"), f("srv/e/z", "z\n")]
usual("recurse new", R, "recurse", name=X, source="salt://d")
usual("recurse change", R + [f("x/a", "old\n"), f("x/other", "o\n")], "recurse", name=X, source="salt://d")
usual("recurse modes", R, "recurse", name=X, source="salt://d", dir_mode="0711", file_mode="0604", user="nobody", group="nogroup")
usual("recurse keep", R, "recurse", name=X, source="salt://d", file_mode="keep")
usual("recurse clean", R + [f("x/other", "o\n"), f("x/q/r", "o\n"), f("x/a", "1\n")], "recurse", name=X, source="salt://d", clean=True)
usual("recurse clean exclude", R + [f("x/other", "o\n"), f("x/q/r", "o\n")], "recurse", name=X, source="salt://d", clean=True, exclude_pat="q*")
usual("recurse clean replace", R + [d("x/a"), f("x/s", "file")], "recurse", name=X, source="salt://d", clean=True)
usual("recurse include", R, "recurse", name=X, source="salt://d", include_pat="*b")
usual("recurse include regex", R, "recurse", name=X, source="salt://d", include_pat="E@^s/")
usual("recurse exclude", R, "recurse", name=X, source="salt://d", exclude_pat=["a", "E@/c$"])
usual("recurse maxdepth 0", R, "recurse", name=X, source="salt://d", maxdepth=0)
usual("recurse maxdepth 1", R, "recurse", name=X, source="salt://d", maxdepth=1)
usual("recurse empty", R, "recurse", name=X, source="salt://d", include_empty=True)
usual("recurse several", R, "recurse", name=X, source=["salt://nope", "salt://e", "salt://d"])
usual("recurse merge", R, "recurse", name=X, source=["salt://e", "salt://d"], merge=True)
usual("recurse none", R, "recurse", name=X, source="salt://nope")
usual("recurse not salt", R, "recurse", name=X, source="/d")
usual("recurse file there", R + [f("x", "a")], "recurse", name=X, source="salt://d")
usual("recurse slash", R, "recurse", name=X, source="salt://d/")
usual("recurse not replace", R + [f("x/a", "old\n")], "recurse", name=X, source="salt://d", replace=False)
usual("recurse template", [f("srv/d/a", "{{ v }}\n")], "recurse", name=X, source="salt://d", template="jinja", context={"v": 5})
usual("recurse kwargs", R + [f("x/a", "old\n")], "recurse", name=X, source="salt://d", show_changes=False)
usual("recurse backup", R + [f("x/a", "old\n")], "recurse", name=X, source="salt://d", backup="minion")
usual("recurse missing parent", R, "recurse", name="@DIR@/p/q/x", source="salt://d/s")
LINKS = [f("srv/d/a", "1\n"), ln("srv/d/l", "a"), f("srv/d/r/x", "2\n"), ln("srv/d/k", "r"), ln("srv/d/m", "l")]
usual("recurse links", LINKS, "recurse", name=X, source="salt://d")
usual("recurse keep_symlinks", LINKS, "recurse", name=X, source="salt://d", keep_symlinks=True)
usual("recurse force_symlinks", LINKS + [f("x/l", "file")], "recurse", name=X, source="salt://d", keep_symlinks=True, force_symlinks=True)
usual("recurse symlink in the way", LINKS + [f("x/l", "file")], "recurse", name=X, source="salt://d", keep_symlinks=True)
case("recurse wrong", R, run("recurse", name="x", source="salt://d"), run("recurse", name=X, source="salt://d", mode="0644"),
     run("recurse", name=X, source="salt://d", user="nouser"))

# replace
TXT = "a = 1\nb = 2\nc = 3\n"
usual("replace simple", [f("x", TXT)], "replace", name=X, pattern="b = .*", repl="b = 9")
usual("replace groups", [f("x", TXT)], "replace", name=X, pattern=r"^(\w) = (\d)$", repl=r"\2 = \g<1>", count=2)
usual("replace none", [f("x", TXT)], "replace", name=X, pattern="zzz", repl="y")
usual("replace same", [f("x", TXT)], "replace", name=X, pattern="a = 1", repl="a = 1")
usual("replace append", [f("x", TXT)], "replace", name=X, pattern="^z = .*", repl="z = 1", append_if_not_found=True)
usual("replace append no newline", [f("x", "a")], "replace", name=X, pattern="^z", repl="z", append_if_not_found=True)
usual("replace append empty", [f("x", "")], "replace", name=X, pattern="^z", repl="z", append_if_not_found=True)
usual("replace append content", [f("x", TXT)], "replace", name=X, pattern="^z", repl="z", append_if_not_found=True, not_found_content="Z = new")
usual("replace prepend", [f("x", TXT)], "replace", name=X, pattern="^z", repl="z", prepend_if_not_found=True)
usual("replace prepend content", [f("x", TXT)], "replace", name=X, pattern="^z", repl="z", prepend_if_not_found=True, not_found_content="q\nr")
usual("replace both", [f("x", TXT)], "replace", name=X, pattern="^z", repl="z", prepend_if_not_found=True, append_if_not_found=True)
usual("replace no backup", [f("x", TXT)], "replace", name=X, pattern="a", repl="A", backup=False)
usual("replace backup", [f("x", TXT, mode="0640", user="nobody", group="nogroup")], "replace", name=X, pattern="a", repl="A", backup=".orig")
usual("replace flags", [f("x", "A\nb\nC\n")], "replace", name=X, pattern="a.b", repl="x", flags=["IGNORECASE", "DOTALL"])
usual("replace flag name", [f("x", TXT)], "replace", name=X, pattern="^A", repl="x", flags="IGNORECASE")
usual("replace flag wrong", [f("x", TXT)], "replace", name=X, pattern="^A", repl="x", flags="NONSENSE")
usual("replace multiline", [f("x", TXT)], "replace", name=X, pattern=r"a = 1\nb = 2", repl="ab", flags=["MULTILINE"])
usual("replace literal", [f("x", TXT)], "replace", name=X, pattern="b = 2", repl=r"\1\n", backslash_literal=True)
usual("replace hidden", [f("x", TXT)], "replace", name=X, pattern="a", repl="A", show_changes=False)
usual("replace missing", [], "replace", name=X, pattern="a", repl="A")
usual("replace missing ignored", [], "replace", name=X, pattern="a", repl="A", ignore_if_missing=True)
usual("replace binary", [b("x", b"\0a")], "replace", name=X, pattern="a", repl="A")
usual("replace latin", [b("x", b"caf\xe9 = 1\n")], "replace", name=X, pattern="= 1", repl="= 2")
usual("replace umlaut", [f("x", "gr\u00fc\u00df = 1\n")], "replace", name=X, pattern="gr\u00fc\u00df", repl="\u00fcber")
usual("replace crlf", [f("x", "a = 1\r\nb = 2\r\n")], "replace", name=X, pattern="a = 1$", repl="a = 2")
usual("replace crlf append", [f("x", "a = 1\r\nb = 2\r\n")], "replace", name=X, pattern="a = 2$", repl="a = 1", append_if_not_found=True)
usual("replace link", [f("t", TXT), ln("x", "t")], "replace", name=X, pattern="a", repl="A")
usual("replace number", [f("x", TXT)], "replace", name=X, pattern="1", repl=5)
usual("replace star", [f("x", "abxd")], "replace", name=X, pattern="x*", repl="-", backup=False)
usual("replace dollar", [f("x", "a\nb\n")], "replace", name=X, pattern="b$", repl="c", flags=0)
usual("replace end", [f("x", "a\nb\n")], "replace", name=X, pattern=r"b\n\Z", repl="c", flags=0)
usual("replace lookahead", [f("x", TXT)], "replace", name=X, pattern=r"(?<=b )=(?! 3)", repl=":")
usual("replace encoding", [b("x", "a = \u00e9\n".encode("utf-16-le"))], "replace", name=X, pattern="\u00e9", repl="e", encoding="utf-16-le")
usual("replace relative", [], "replace", name="x", pattern="a", repl="b")

# line
LN = "one\n  two\nthree\n"
usual("line ensure after", [f("x", LN)], "line", name=X, content="new", mode="ensure", after="one")
usual("line ensure before", [f("x", LN)], "line", name=X, content="new", mode="ensure", before="three")
usual("line ensure between", [f("x", "a\nz\n")], "line", name=X, content="new", mode="ensure", after="a", before="z")
usual("line ensure replace between", [f("x", "a\nq\nz\n")], "line", name=X, content="new", mode="ensure", after="a", before="z")
usual("line ensure too much", [f("x", "a\nq\nr\nz\n")], "line", name=X, content="new", mode="ensure", after="^a", before="^z")
usual("line ensure there", [f("x", "a\nnew\nz\n")], "line", name=X, content="new", mode="ensure", after="a")
usual("line ensure nowhere", [f("x", LN)], "line", name=X, content="new", mode="ensure")
usual("line ensure missing", [f("x", LN)], "line", name=X, content="new", mode="ensure", after="nope")
usual("line ensure twice", [f("x", "a\na\n")], "line", name=X, content="new", mode="ensure", after="a")
usual("line insert start", [f("x", LN)], "line", name=X, content="new", mode="insert", location="start")
usual("line insert end", [f("x", LN)], "line", name=X, content="new", mode="insert", location="end")
usual("line insert end no newline", [f("x", "a\nb")], "line", name=X, content="new", mode="insert", location="end")
usual("line insert start empty", [f("x", "")], "line", name=X, content="new", mode="insert", location="start")
usual("line insert end empty", [f("x", "")], "line", name=X, content="new", mode="insert", location="end")
usual("line insert before", [f("x", LN)], "line", name=X, content="new", mode="insert", before="two")
usual("line insert before first", [f("x", LN)], "line", name=X, content="new", mode="insert", before="one")
usual("line insert after", [f("x", LN)], "line", name=X, content="new", mode="insert", after="two")
usual("line insert after last", [f("x", LN)], "line", name=X, content="new", mode="insert", after="three")
usual("line insert both", [f("x", LN)], "line", name=X, content="new", mode="insert", after="one", before="three")
usual("line insert no place", [f("x", LN)], "line", name=X, content="new", mode="insert")
usual("line insert no indent", [f("x", LN)], "line", name=X, content="   new", mode="insert", after="two", indent=False)
usual("line delete", [f("x", LN)], "line", name=X, content="two", mode="delete")
usual("line delete match", [f("x", LN)], "line", name=X, match="thr.*", mode="delete")
usual("line delete none", [f("x", LN)], "line", name=X, match="zzz", mode="delete")
usual("line delete several", [f("x", "a\nb\na\n")], "line", name=X, match="a", mode="delete")
usual("line delete empty file", [f("x", "")], "line", name=X, match="a", mode="delete")
usual("line replace", [f("x", LN)], "line", name=X, content="TWO", match="two", mode="replace")
usual("line replace content", [f("x", LN)], "line", name=X, content="two", mode="replace")
usual("line replace none", [f("x", LN)], "line", name=X, content="q", match="zzz", mode="replace")
usual("line hidden", [f("x", LN)], "line", name=X, content="TWO", match="two", mode="replace", show_changes=False)
usual("line upper mode", [f("x", LN)], "line", name=X, content="TWO", match="two", mode="REPLACE")
usual("line mode wrong", [f("x", LN)], "line", name=X, content="TWO", mode="what")
usual("line mode none", [f("x", LN)], "line", name=X, content="TWO")
usual("line content none", [f("x", LN)], "line", name=X, mode="ensure")
usual("line missing", [], "line", name=X, content="a", mode="ensure", after="b")
usual("line create", [], "line", name=X, content="a", mode="insert", location="end", create=True)
usual("line create mode", [], "line", name=X, content="a", mode="insert", location="start", create=True, file_mode="0600", user="nobody")
usual("line crlf", [f("x", "a\r\nb\r\n")], "line", name=X, content="c", mode="ensure", after="a")
usual("line mode kept", [f("x", LN, mode="0640", user="nobody", group="nogroup")], "line", name=X, content="q", mode="ensure", after="one")
usual("line special", [f("x", "a.b(\nc\n")], "line", name=X, content="q", mode="ensure", after="a.b\\(")
usual("line bad regex", [f("x", "a\n")], "line", name=X, content="q", mode="ensure", after="a(")

# keyvalue
KV = "a = 1\n#b = 2\nc=3\na = 4\n"
usual("keyvalue one", [f("x", KV)], "keyvalue", name=X, key="c", value="9")
usual("keyvalue blank", [f("x", KV)], "keyvalue", name=X, key="a", value="9", separator=" = ")
usual("keyvalue all", [f("x", KV)], "keyvalue", name=X, key="a", value="9", separator=" = ", count=-1)
usual("keyvalue several", [f("x", KV)], "keyvalue", name=X, key_values={"a": "5", "c": "6"}, separator="=", count=2)
usual("keyvalue number", [f("x", KV)], "keyvalue", name=X, key="c", value=9)
usual("keyvalue same", [f("x", KV)], "keyvalue", name=X, key="c", value="3")
usual("keyvalue append", [f("x", KV)], "keyvalue", name=X, key_values={"q": "5", "r": "6"}, append_if_not_found=True)
usual("keyvalue prepend", [f("x", KV)], "keyvalue", name=X, key_values={"q": "5", "r": "6"}, prepend_if_not_found=True)
usual("keyvalue uncomment", [f("x", KV)], "keyvalue", name=X, key="b", value="7", separator=" = ", uncomment="#")
usual("keyvalue uncomment twice", [f("x", "#b = 2\n# b = 3\nb = 4\n")], "keyvalue", name=X, key="b", value="7", separator=" = ", uncomment="# ")
usual("keyvalue ignore case", [f("x", "Key=Val\n")], "keyvalue", name=X, key="key", value="val", key_ignore_case=True, value_ignore_case=True)
usual("keyvalue ignore key case", [f("x", "Key=Val\n")], "keyvalue", name=X, key="key", value="val", key_ignore_case=True)
usual("keyvalue hidden", [f("x", KV)], "keyvalue", name=X, key="c", value="9", show_changes=False)
usual("keyvalue missing", [], "keyvalue", name=X, key="c", value="9")
usual("keyvalue missing ignored", [], "keyvalue", name=X, key="c", value="9", ignore_if_missing=True)
usual("keyvalue create", [], "keyvalue", name=X, key="c", value="9", create_if_missing=True)
usual("keyvalue prune", [f("x", KV)], "keyvalue", name=X, key="c", value="9", prune=True)
usual("keyvalue indented", [f("x", "  c=3\n")], "keyvalue", name=X, key="c", value="4")
usual("keyvalue no newline", [f("x", "c=3")], "keyvalue", name=X, key="c", value="4", append_if_not_found=True)
case("keyvalue wrong", [f("x", KV)], run("keyvalue", name=X), run("keyvalue", name=X, key="a"), run("keyvalue", name=X, key_values=["a"]),
     run("keyvalue", name=X, key="a", value="b", key_values={"c": "d"}), run("keyvalue", name="", key="a", value="b"), run("keyvalue", name="@DIR@", key="a", value="b"))

# comment, uncomment
usual("comment", [f("x", "one\ntwo\nthree\n")], "comment", name=X, regex="^two")
usual("comment end", [f("x", "one\ntwo\nthree\n")], "comment", name=X, regex="^t.*e$")
usual("comment char", [f("x", "one\ntwo\n")], "comment", name=X, regex="^two", char=";", backup=False)
usual("comment none", [f("x", "one\n")], "comment", name=X, regex="^zzz")
usual("comment none ignored", [f("x", "one\n")], "comment", name=X, regex="^zzz", ignore_missing=True)
usual("comment already", [f("x", "#one\n")], "comment", name=X, regex="^one")
usual("comment partly", [f("x", "#one\none\n")], "comment", name=X, regex="^one$")
usual("comment inside", [f("x", "a one\n  one\n")], "comment", name=X, regex="one")
usual("comment flags", [f("x", "One\n")], "comment", name=X, regex="(?i)^one")
usual("comment missing", [], "comment", name=X, regex="a")
usual("comment binary", [b("x", b"\0a")], "comment", name=X, regex="a")
usual("comment mode", [f("x", "one\n", mode="0600", user="nobody", group="nogroup")], "comment", name=X, regex="one", backup=".orig")
usual("uncomment", [f("x", "#one\n# two\n")], "uncomment", name=X, regex="one")
usual("uncomment blank", [f("x", "#one\n#  two\n")], "uncomment", name=X, regex="^two")
usual("uncomment end", [f("x", "#one\n#one more\n")], "uncomment", name=X, regex="^one$")
usual("uncomment char", [f("x", ";one\n")], "uncomment", name=X, regex="one", char=";")
usual("uncomment twice", [f("x", "##one\n")], "uncomment", name=X, regex="one")
usual("uncomment already", [f("x", "one\n")], "uncomment", name=X, regex="one")
usual("uncomment none", [f("x", "two\n")], "uncomment", name=X, regex="one")
usual("uncomment missing", [], "uncomment", name=X, regex="one")
usual("uncomment backup", [f("x", "#one\n", mode="0640")], "uncomment", name=X, regex="one", backup=".b")

# append, prepend
for fun in ["append", "prepend"]:
    usual(f"{fun} text", [f("x", "one\ntwo\n")], fun, name=X, text="three")
    usual(f"{fun} list", [f("x", "one\ntwo\n")], fun, name=X, text=["three", "one", "four\nfive"])
    usual(f"{fun} there", [f("x", "one\ntwo\n")], fun, name=X, text="two")
    usual(f"{fun} blanks", [f("x", "one   two\n")], fun, name=X, text="one two")
    usual(f"{fun} several lines", [f("x", "a\nb\nc\n")], fun, name=X, text="b\nc")
    usual(f"{fun} no newline", [f("x", "one")], fun, name=X, text="two")
    usual(f"{fun} new", [], fun, name=X, text="one")
    usual(f"{fun} new makedirs", [], fun, name="@DIR@/a/b/x", text="one", makedirs=True)
    usual(f"{fun} no directory", [], fun, name="@DIR@/a/b/x", text="one")
    usual(f"{fun} hidden", [f("x", "one\n")], fun, name=X, text="two", show_changes=False)
    usual(f"{fun} source", [f("x", "one\n"), f("srv/s", "two\nthree\n")], fun, name=X, source="salt://s")
    usual(f"{fun} sources", [f("x", "one\n"), f("srv/s", "two\n"), f("srv/t", "three\n")], fun, name=X, sources=["salt://s", "salt://t"])
    usual(f"{fun} source missing", [f("x", "one\n")], fun, name=X, source="salt://s")
    usual(f"{fun} source template", [f("x", "one\n"), f("srv/s", "{{ v }}\n")], fun, name=X, source="salt://s", context={"v": "vv"})
    usual(f"{fun} none", [f("x", "one\n")], fun, name=X)
    usual(f"{fun} number", [f("x", "one\n")], fun, name=X, text=5)
    usual(f"{fun} quotes", [f("x", "one\n")], fun, name=X, text="if [ -z \"$a b\" ] && c='d e'; then # x")
    usual(f"{fun} special", [f("x", "a.b\n")], fun, name=X, text="a*b (c) [d] $e ^f \\g")
    usual(f"{fun} crlf", [f("x", "a\r\n")], fun, name=X, text="b")
    usual(f"{fun} empty", [f("x", "a\n")], fun, name=X, text="")
    usual(f"{fun} umlaut", [f("x", "a\n")], fun, name=X, text="\u00fc\u00f6")
    case(f"{fun} wrong", [f("x")], run(fun, name="", text="a"), run(fun, name=X, source="salt://a", sources=["salt://b"]),
         run(fun, name=X, source="salt://a", source_hash="x", source_hashes=["y"]), run(fun, name="x", text="a"))
usual("append exact", [f("x", "one   two\n")], "append", name=X, text="one two", ignore_whitespace=False)
usual("append regex", [f("x", "one two\n")], "append", name=X, text="one.two", ignore_whitespace=False)
usual("prepend header", [f("x", "one\ntwo\n")], "prepend", name=X, text=["two"], header=True)
usual("prepend header there", [f("x", "two\none\n")], "prepend", name=X, text=["two"], header=True)

# blockreplace
BL = "a\n#s\nold\n#e\nb\n"
usual("block", [f("x", BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new\nlines")
usual("block newline", [f("x", BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new\n")
usual("block append_newline false", [f("x", BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new", append_newline=False)
usual("block append_newline true", [f("x", BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new\n", append_newline=True)
usual("block empty", [f("x", BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e")
usual("block append", [f("x", "a\nb")], "blockreplace", name=X, content="new", append_if_not_found=True)
usual("block prepend", [f("x", "a\nb\n")], "blockreplace", name=X, content="new", prepend_if_not_found=True)
usual("block before", [f("x", "a\nb\nb\n")], "blockreplace", name=X, content="new", insert_before_match="^b")
usual("block after", [f("x", "a\nb\nb\n")], "blockreplace", name=X, content="new", insert_after_match="^a")
usual("block no match", [f("x", "a\n")], "blockreplace", name=X, content="new", insert_after_match="^z")
usual("block not found", [f("x", "a\n")], "blockreplace", name=X, content="new")
usual("block open", [f("x", "a\n#s\nb\n")], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new")
usual("block two", [f("x", BL + BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new")
usual("block crlf", [f("x", BL.replace("\n", "\r\n"))], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new\nlines")
usual("block tail", [f("x", "a\n-#s tail\nold\n  #e more\nb\n")], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new")
usual("block no backup", [f("x", BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new", backup=False)
usual("block hidden", [f("x", BL, mode="0640", user="nobody", group="nogroup")], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new", show_changes=False)
usual("block source", [f("x", BL), f("srv/s", "from\nsource\n")], "blockreplace", name=X, marker_start="#s", marker_end="#e", source="salt://s")
usual("block sources", [f("x", BL), f("srv/s", "one\n"), f("srv/t", "two")], "blockreplace", name=X, marker_start="#s", marker_end="#e", sources=["salt://s", "salt://t"], content="first\n")
usual("block source missing", [f("x", BL)], "blockreplace", name=X, marker_start="#s", marker_end="#e", source="salt://s")
usual("block binary", [b("x", b"\xff\0#s\n#e\n")], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new")
usual("block latin", [b("x", b"\xe9\n#s\n#e\n")], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new")
usual("block missing", [], "blockreplace", name=X, content="new")
usual("block both", [f("x", "a\n")], "blockreplace", name=X, content="new", append_if_not_found=True, prepend_if_not_found=True)
usual("block no end newline", [f("x", "a\n#s\n#e")], "blockreplace", name=X, marker_start="#s", marker_end="#e", content="new")

# serialize
DATA = {"b": [1, 2.5, True, None, "x: y", "multi\nline\n"], "a": {"n\u00e4me": "v\u00e4lue", "empty": {}, "list": [], "deep": [{"k": "v"}, ["n"]]}, "z": "0644", "d": "2001-01-01", "t": "yes"}
for form in ["yaml", "json", "yamlex", "msgpack"]:
    usual(f"serialize {form}", [], "serialize", name=X, dataset=DATA, serializer=form)
    usual(f"serialize {form} change", [f("x", "old\n")], "serialize", name=X, dataset={"a": 1}, formatter=form)
usual("serialize default", [], "serialize", name=X, dataset=DATA)
usual("serialize encoding", [], "serialize", name=X, dataset=DATA, encoding="utf-8")
usual("serialize json encoding", [], "serialize", name=X, dataset=DATA, encoding="utf-8", serializer="json")
usual("serialize list", [], "serialize", name=X, dataset=["a", {"b": 1}])
usual("serialize text", [], "serialize", name=X, dataset="plain", serializer="json")
usual("serialize scalar", [], "serialize", name=X, dataset=5)
usual("serialize empty", [], "serialize", name=X, dataset={})
usual("serialize ini", [], "serialize", name=X, dataset={"Main": {"Key": "value", "n": 5, "multi": "a\nb"}, "DEFAULT": {"d": "e"}}, serializer="configparser")
usual("serialize ini wrong", [], "serialize", name=X, dataset=["a"], serializer="configparser")
usual("serialize ini percent", [], "serialize", name=X, dataset={"a": {"b": "5%"}}, serializer="configparser")
usual("serialize pillar", [], "serialize", name=X, dataset_pillar="a:b", pillar={"a": {"b": {"c": 1}}})
usual("serialize pillar missing", [], "serialize", name=X, dataset_pillar="a:c", pillar={"a": {"b": {"c": 1}}})
usual("serialize both", [], "serialize", name=X, dataset={"a": 1}, dataset_pillar="a", pillar={"a": {"b": 1}})
usual("serialize neither", [], "serialize", name=X)
usual("serialize unknown", [], "serialize", name=X, dataset={"a": 1}, serializer="foo")
usual("serialize two names", [], "serialize", name=X, dataset={"a": 1}, serializer="json", formatter="yaml")
usual("serialize mode", [f("x", "a: 1\n", mode="0600")], "serialize", name=X, dataset={"a": 1}, mode="0644", user="nobody", group="nogroup")
usual("serialize makedirs", [], "serialize", name="@DIR@/a/x", dataset={"a": 1}, makedirs=True)
usual("serialize no directory", [], "serialize", name="@DIR@/a/x", dataset={"a": 1})
usual("serialize not create", [], "serialize", name=X, dataset={"a": 1}, create=False)
usual("serialize hidden", [f("x", "a: 2\n")], "serialize", name=X, dataset={"a": 1}, show_changes=False)
usual("serialize merge", [f("x", "a: 1\nb:\n  c: 2\n  l: [1]\n")], "serialize", name=X, dataset={"b": {"d": 3, "l": [2]}, "e": 4}, merge_if_exists=True)
usual("serialize merge same", [f("x", "a: 1\nb: 2\n")], "serialize", name=X, dataset={"b": 2}, merge_if_exists=True)
usual("serialize merge new", [], "serialize", name=X, dataset={"b": 2}, merge_if_exists=True)
usual("serialize merge json", [f("x", '{"a": 1, "b": {"c": [1, 2]}}')], "serialize", name=X, dataset={"b": {"c": [3]}}, merge_if_exists=True, serializer="json")
usual("serialize merge ini", [f("x", "[a]\nx=1\n[b]\ny: 2\n  more\n")], "serialize", name=X, dataset={"a": {"z": "5"}}, merge_if_exists=True, serializer="configparser")
usual("serialize merge broken", [f("x", '{"a": ')], "serialize", name=X, dataset={"b": 1}, merge_if_exists=True, serializer="json")
usual("serialize merge list", [f("x", "- a\n")], "serialize", name=X, dataset=["b"], merge_if_exists=True)
usual("serialize json opts", [], "serialize", name=X, dataset=DATA, serializer="json", serializer_opts=[{"indent": 4}, {"sort_keys": False}])
usual("serialize json flat", [], "serialize", name=X, dataset=DATA, serializer="json", serializer_opts={"indent": None, "separators": [",", ":"]})
usual("serialize yaml opts", [], "serialize", name=X, dataset=DATA, serializer_opts=[{"indent": 4}, {"default_flow_style": True}])
usual("serialize yaml sort", [], "serialize", name=X, dataset=DATA, serializer_opts=[{"sort_keys": False}, {"allow_unicode": True}])
usual("serialize yaml width", [], "serialize", name=X, dataset={"k": "word " * 40}, serializer_opts=[{"width": 200}])
usual("serialize deserializer_opts", [], "serialize", name=X, dataset={"a": 1}, deserializer_opts=[{"x": 1}])
usual("serialize check_cmd", [f("x", "a: 2\n")], "serialize", name=X, dataset={"a": 1}, check_cmd="grep -q 'a: 1'")
usual("serialize check_cmd fails", [f("x", "a: 2\n")], "serialize", name=X, dataset={"a": 1}, check_cmd="grep -q 'a: 3'")
usual("serialize backup", [f("x", "a: 2\n")], "serialize", name=X, dataset={"a": 1}, backup="minion")

# patch
OLD = "one\ntwo\nthree\n"
DIFF = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
usual("patch", [f("x", OLD), f("srv/p", DIFF)], "patch", name=X, source="salt://p")
usual("patch applied", [f("x", OLD.replace("two", "TWO")), f("srv/p", DIFF)], "patch", name=X, source="salt://p")
usual("patch refused", [f("x", "quite\nother\n"), f("srv/p", DIFF)], "patch", name=X, source="salt://p", reject_file="@DIR@/rej")
usual("patch garbage", [f("x", OLD), f("srv/p", "no patch\n")], "patch", name=X, source="salt://p")
usual("patch missing source", [f("x", OLD)], "patch", name=X, source="salt://p")
usual("patch missing file", [f("srv/p", DIFF)], "patch", name=X, source="salt://p")
usual("patch directory", [f("d/x", OLD), f("srv/p", DIFF)], "patch", name="@DIR@/d", source="salt://p", strip=1)
usual("patch options", [f("d/x", OLD), f("srv/p", DIFF)], "patch", name="@DIR@/d", source="salt://p", options="-p1 --verbose")
usual("patch template", [f("x", OLD), f("srv/p", DIFF.replace("TWO", "{{ v }}"))], "patch", name=X, source="salt://p", template="jinja", context={"v": "zwei"})
case("patch wrong", [f("x", OLD), f("srv/p", DIFF)], run("patch", name=X, source="salt://p", options="-N -o x"),
     run("patch", name=X, source="salt://p", options="-px"), run("patch", name=X, source="salt://p", options="--strip=x"),
     run("patch", name="x", source="salt://p"), run("patch", name="", source="salt://p"),
     run("patch", name=X, source="salt://p", reject_file="rel/rej"), run("patch", name=X, source="salt://p", reject_file="@DIR@/no/rej"),
     run("patch", True, name=X, source="salt://p", hash="x", dry_run_first=True))

# tidied
OLDF = [f("x/old", "12345", days=10), f("x/new", "1"), f("x/sub/old.log", "123", days=20), d("x/sub/dir", days=30), ln("x/link", "old"), f("x/big.log", "1" * 3000)]
usual("tidied all", OLDF, "tidied", name=X)
usual("tidied age", OLDF, "tidied", name=X, age=5, size=100000000)
usual("tidied age rmdirs", OLDF, "tidied", name=X, age=5, size=100000000, rmdirs=True)
usual("tidied size", OLDF, "tidied", name=X, age=1000, size="1k")
usual("tidied and", OLDF, "tidied", name=X, age=5, size=4, age_size_logical_operator="AND")
usual("tidied only age", OLDF, "tidied", name=X, age=5, age_size_only="age")
usual("tidied only size", OLDF, "tidied", name=X, size="2k", age_size_only="size")
usual("tidied matches", OLDF, "tidied", name=X, matches=[".*\\.log"], exclude=["big"])
usual("tidied full path", OLDF, "tidied", name=X, matches=[".*/sub/.*"], full_path_match=True)
usual("tidied no links", OLDF, "tidied", name=X, rmlinks=False)
usual("tidied mtime", OLDF, "tidied", name=X, age=5, size=99999999, time_comparison="mtime")
usual("tidied nothing", [d("x")], "tidied", name=X)
case("tidied wrong", [f("x")], run("tidied", name="x"), run("tidied", name=X), run("tidied", name="@DIR@/no"))

# retention_schedule
BACK = [f(f"x/b-{name}", "b") for name in ["2024-01-01", "2024-01-02", "2024-01-03", "2024-02-01", "2024-02-15", "2023-12-31", "2023-06-01", "2022-01-01", "2024-02-16"]] + [f("x/other", "o")]
for number, retain in enumerate([{"most_recent": 2}, {"first_of_month": 2}, {"first_of_year": "all"}, {"first_of_week": 1, "first_of_day": 3}, {"most_recent": 100}, {"first_of_hour": 4, "first_of_year": 1}]):
    usual(f"retention {number}", BACK, "retention_schedule", name=X, retain=retain, strptime_format="b-%Y-%m-%d")
usual("retention mtime", [f("x/a", days=1), f("x/b", days=100), f("x/c", days=400)], "retention_schedule", name=X, retain={"most_recent": 1})
case("retention wrong", [f("x")], run("retention_schedule", name=X, retain={"most_recent": 1}), run("retention_schedule", name="", retain={}))

# pruned
usual("pruned empty", [d("x")], "pruned", name=X)
usual("pruned full", [d("x"), f("x/a")], "pruned", name=X)
usual("pruned recurse", [d("x/a/b"), d("x/c")], "pruned", name=X, recurse=True)
usual("pruned recurse full", [d("x/a/b"), f("x/c/d")], "pruned", name=X, recurse=True)
usual("pruned ignore", [d("x/a/b"), f("x/c/d")], "pruned", name=X, ignore_errors=True)
usual("pruned missing", [], "pruned", name=X)
usual("pruned young", [d("x")], "pruned", name=X, older_than=5)

# decode
usual("decode", [], "decode", name=X, encoded_data="aGVsbG8K")
usual("decode same", [f("x", "hello\n")], "decode", name=X, encoded_data="aGVsbG8K")
usual("decode change", [f("x", "hullo\n")], "decode", name=X, encoded_data="aGVsbG8K", checksum="sha256")
usual("decode pillar", [], "decode", name=X, contents_pillar="k", pillar={"k": "aGVsbG8K"})
case("decode wrong", [], run("decode", name=X), run("decode", name=X, encoded_data="a", contents_pillar="k"), run("decode", name=X, contents_pillar="no"))

# mknod
usual("mknod fifo", [], "mknod", name=X, ntype="p", mode="0640")
usual("mknod fifo change", [{"path": "x", "fifo": True}], "mknod", name=X, ntype="p", mode="0600", user="nobody", group="nogroup")
usual("mknod char", [], "mknod", name=X, ntype="c", major=1, minor=3)
usual("mknod file there", [f("x")], "mknod", name=X, ntype="c", major=1, minor=3)
case("mknod wrong", [{"path": "x", "fifo": True}], run("mknod", name=X, ntype="q"), run("mknod", name="", ntype="p"), run("mknod", True, name="@DIR@/y", ntype="b", major=7, minor=1))
case("mknod other", [], run("mknod", name=X, ntype="c", major=1, minor=3), run("mknod", name=X, ntype="c", major=1, minor=5), run("mknod", name=X, ntype="c", major=1, minor=3, mode="0666"))

# cached, not_cached
usual("cached salt", [f("srv/s", "hello\n")], "cached", name="salt://s")
usual("cached hash", [f("srv/s", "hello\n")], "cached", name="salt://s", source_hash="md5=b1946ac92492d2347c6235b4d2611184")
usual("cached hash wrong", [f("srv/s", "hello\n")], "cached", name="salt://s", source_hash="c1946ac92492d2347c6235b4d2611184")
usual("cached hash bad", [f("srv/s", "hello\n")], "cached", name="salt://s", source_hash="zzz")
usual("cached skip", [f("srv/s", "hello\n")], "cached", name="salt://s", source_hash="c1946ac92492d2347c6235b4d2611184", skip_verify=True)
usual("cached missing", [], "cached", name="salt://s")
usual("cached path", [f("x", "hello\n")], "cached", name=X)
usual("cached path hash", [f("x", "hello\n")], "cached", name=X, source_hash="b1946ac92492d2347c6235b4d2611184")
usual("cached path wrong", [f("x", "hello\n")], "cached", name=X, source_hash="c1946ac92492d2347c6235b4d2611184")
usual("cached path missing", [], "cached", name=X)
usual("cached http", [], "cached", name="http://u:p@127.0.0.1:1/x")
case("not_cached", [f("srv/s", "a")], run("not_cached", name="salt://s"), run("cached", name="salt://s"), run("not_cached", name="salt://s"), run("not_cached", name="/etc/passwd"))

# shortcut, mod_beacon, mod_run_check_cmd
case("shortcut", [], run("shortcut", name="@DIR@/x.lnk", target="y"))
case("mod_beacon", [], run("mod_beacon", name=X, sfun="managed"), run("mod_beacon", name=X, sfun="absent", beacon=True), run("mod_beacon", name=X))
case("mod_run_check_cmd", [], run("mod_run_check_cmd", cmd="echo no; false", filename=X), run("mod_run_check_cmd", cmd="true", filename=X))
