use std::sync::Arc;

use exec::testing::{FakeAgent, context};
use exec::{Call, Context};
use value::{Map, Value, list, map};

use super::MODULE;

/// A masterless minion with two files, a link and a directory.
struct Place {
    dir: tempfile::TempDir,
    ctx: Context,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("srv/sub")).unwrap();
        std::fs::write(dir.path().join("srv/a.txt"), "hello\n").unwrap();
        std::fs::write(dir.path().join("srv/t.txt"), "{{ x }}\n").unwrap();
        std::fs::write(dir.path().join("srv/sub/init.sls"), "x: 1\n").unwrap();
        let srv = dir.path().join("srv");
        let opts = map! {
            "id" => "m",
            "file_client" => "local",
            "cachedir" => dir.path().join("cache").to_str().unwrap(),
            "file_roots" => map! { "base" => list![srv.to_str().unwrap()] },
        };
        let (ctx, _) = context(&[&MODULE], opts, map! {}, map! {});
        Place { dir, ctx }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn call(&self, fun: &str, args: Value, kwargs: Map) -> Value {
        let call = Call { args: args.into_list().unwrap(), kwargs };
        self.ctx.call_with(&format!("cp.{fun}"), call).unwrap()
    }
}

/// Calls and answers of real Salt 3008.5.
#[test]
fn files_come_to_places_and_into_the_cache() {
    let place = Place::new();
    let call = |fun: &str, args: Value, kwargs: Map| place.call(fun, args, kwargs);
    let out = place.path("out/x");
    // Three answers for three cases: False without the directory, the path when it worked, an empty text for a file
    // that is missing.
    assert_eq!(call("get_file", list!["salt://a.txt", out.as_str()], map! {}), false.into());
    let made = call("get_file", list!["salt://a.txt", out.as_str()], map! { "makedirs" => true });
    assert_eq!(made, out.as_str().into());
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "hello\n");
    assert_eq!(call("get_file", list!["salt://nope", out.as_str()], map! {}), "".into());
    assert_eq!(call("get_file_str", list!["salt://a.txt"], map! {}), "hello\n".into());
    assert_eq!(call("get_file_str", list!["salt://nope"], map! {}), false.into());
    assert_eq!(call("get_file_str", list![out.as_str()], map! {}), "hello\n".into());
    assert_eq!(call("get_file_str", list![place.path("nope")], map! {}), false.into());
    // A directory cannot be read, and must not become an error: templates use the function as a test.
    assert_eq!(call("get_file_str", list![place.path("out")], map! {}), false.into());
    let cached = Value::from(place.path("cache/files/base/a.txt"));
    assert_eq!(call("get_url", list!["salt://a.txt"], map! {}), cached);
    assert_eq!(call("get_url", list!["salt://a.txt", Value::Null], map! {}), "hello\n".into());
    assert_eq!(call("get_url", list!["salt://nope"], map! {}), false.into());
    assert_eq!(call("cache_file", list!["salt://a.txt"], map! {}), cached);
    assert_eq!(call("cache_file", list!["/etc/hostname"], map! {}), "/etc/hostname".into());
    let both = call("cache_files", list![list!["salt://a.txt", "salt://nope"]], map! {});
    assert_eq!(both, list![cached.clone(), false]);
    assert_eq!(call("is_cached", list!["salt://a.txt"], map! {}), cached);
    assert_eq!(call("is_cached", list!["salt://nope"], map! {}), "".into());
    let sub = call("get_dir", list!["salt://sub", place.path("out")], map! {});
    assert_eq!(sub, list![place.path("out/sub/init.sls")]);
    assert_eq!(call("cache_dir", list!["salt://sub"], map! {}), list![place.path("cache/files/base/sub/init.sls")]);
    assert_eq!(call("cache_dest", list!["salt://x/y"], map! {}), place.path("cache/files/base/x/y").into());
}

#[test]
fn the_server_tells_what_it_has() {
    let place = Place::new();
    let call = |fun: &str, args: Value| place.call(fun, args, map! {});
    let hash =
        map! { "hash_type" => "sha256", "hsum" => "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" };
    assert_eq!(call("hash_file", list!["salt://a.txt"]), hash.into());
    assert_eq!(call("hash_file", list!["salt://nope"]), "".into());
    assert_eq!(call("stat_file", list!["salt://a.txt"]).to_string().len(), 4);
    assert_eq!(call("stat_file", list!["salt://nope"]), Value::Null);
    assert_eq!(call("list_master", list![]), list!["a.txt", "sub/init.sls", "t.txt"]);
    assert_eq!(call("list_master_dirs", list![]), list!["sub"]);
    assert_eq!(call("list_master_symlinks", list![]), map! {}.into());
    assert_eq!(call("list_states", list![]), list!["sub"]);
    assert_eq!(call("envs", list![]), list!["base"]);
    assert_eq!(call("cache_master", list![]).into_list().unwrap().len(), 3);
    let cached = call("list_minion", list![]).into_list().unwrap();
    assert!(cached.contains(&place.path("cache/files/base/sub/init.sls").into()), "{cached:?}");
    let local = place.path("cache/localfiles/etc/hostname");
    // Twice, since the second call takes the path through the cached copy.
    assert_eq!(call("cache_local_file", list!["/etc/hostname"]), local.clone().into());
    assert_eq!(call("cache_local_file", list!["/etc/hostname"]), local.into());
    assert_eq!(call("cache_local_file", list!["/nope"]), "".into());
}

#[test]
fn templates_are_rendered_into_their_place() {
    let place = Place::new();
    let to = place.path("plain");
    let plain = place.call("get_template", list!["salt://a.txt", to.as_str()], map! {});
    assert_eq!((plain, std::fs::read_to_string(&to).unwrap()), (to.as_str().into(), "hello\n".to_owned()));
    assert_eq!(place.call("get_template", list!["salt://nope", to.as_str()], map! {}), "".into());
    let names = map! { "context" => map! { "x" => "given" } };
    let marked = place.call("get_template", list!["salt://t.txt", to.as_str()], names);
    assert_eq!(marked, to.as_str().into());
    // An undefined variable is an error, not an empty result.
    let error = place.ctx.call("cp.get_template", vec!["salt://t.txt".into(), to.into()]).unwrap_err();
    assert!(error.to_string().starts_with("Jinja variable"), "{error}");
}

/// As real Salt 3008.5: what is not text is refused, and a template that is binary is copied.
#[test]
fn binary_files_are_no_text() {
    let place = Place::new();
    std::fs::write(place.path("srv/image"), b"\x89PNG\0").unwrap();
    std::fs::write(place.path("srv/latin"), b"caf\xe9 abc").unwrap();
    let to = place.path("out");
    for (fun, args, position) in [
        ("cp.get_file_str", list!["salt://image"], "byte 0x89 in position 0: invalid start byte"),
        ("cp.get_url", list!["salt://latin", ()], "byte 0xe9 in position 3: invalid continuation byte"),
        ("cp.get_template", list!["salt://latin", to.as_str()], "byte 0xe9 in position 3: invalid continuation byte"),
    ] {
        let error = place.ctx.call(fun, args.into_list().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), format!("UnicodeDecodeError: 'utf-8' codec can't decode {position}"));
    }
    let copied = place.call("get_template", list!["salt://image", to.as_str()], map! {});
    assert_eq!((copied, std::fs::read(&to).unwrap()), (to.as_str().into(), b"\x89PNG\0".to_vec()));
}

fn remote() -> (Context, Arc<FakeAgent>) {
    let cachedir = std::env::temp_dir();
    // A tiny buffer, so that a file of six bytes needs two pieces.
    let opts = map! { "id" => "m", "file_buffer_size" => 4, "cachedir" => cachedir.to_str().unwrap() };
    context(&[&MODULE], opts, map! {}, map! {})
}

#[test]
fn a_file_is_pushed_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().canonicalize().unwrap().join("f");
    std::fs::write(&file, "123456").unwrap();
    let (ctx, agent) = remote();
    agent.answers.lock().unwrap().extend([Value::from(true), true.into()]);
    let call = Call {
        args: vec![file.to_str().unwrap().into()],
        kwargs: map! { "upload_path" => "/up/f", "remove_source" => true },
    };
    assert_eq!(ctx.call_with("cp.push", call).unwrap(), true.into());
    let asked = agent.asked.lock().unwrap().clone();
    let piece = |at: i64, data: &'static [u8]| {
        map! {
            "cmd" => "_file_recv", "id" => "m", "path" => list!["up", "f"], "size" => 6, "loc" => at,
            "data" => Value::bytes(data.to_vec()),
        }
    };
    assert_eq!(asked, [piece(0, b"1234"), piece(4, b"56")]);
    assert!(!file.exists());
}

#[test]
fn what_cannot_be_pushed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "1").unwrap();
    let (ctx, agent) = remote();
    // None of these may reach the master, not even as a question.
    for path in ["relative", "/etc/../etc/passwd", "/nope", "/etc"] {
        assert_eq!(ctx.call("cp.push", vec![path.into()]).unwrap(), false.into(), "{path}");
    }
    assert!(agent.asked.lock().unwrap().is_empty());
    agent.answers.lock().unwrap().push_back(false.into());
    let file = dir.path().join("f");
    assert_eq!(ctx.call("cp.push", vec![file.to_str().unwrap().into()]).unwrap(), false.into());
    agent.answers.lock().unwrap().push_back(true.into());
    let call =
        Call { args: vec![dir.path().to_str().unwrap().into()], kwargs: map! { "glob" => "f*", "upload_path" => "x" } };
    assert_eq!(ctx.call_with("cp.push_dir", call).unwrap(), true.into());
    assert_eq!(agent.asked.lock().unwrap().last().unwrap().get("path"), Some(&list!["x", "f"]));
}

#[test]
fn what_the_command_line_sends_is_written() {
    let place = Place::new();
    let out = place.path("out");
    let chunked = |args: Value, kwargs: Map| place.call("recv_chunked", args, kwargs);
    let file = format!("{out}/deep/f");
    let plain = map! { "compressed" => false, "mode" => 0o600 };
    assert_eq!(chunked(list![file.as_str(), "aGVsbG8="], plain), true.into());
    let more = map! { "compressed" => false, "append" => true };
    assert_eq!(chunked(list![file.as_str(), "IQ=="], more), true.into());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello!");
    assert_eq!(chunked(list![format!("{out}/empty"), Value::Null], map! {}), true.into());
    assert_eq!(chunked(list![file.as_str(), Value::Null], map! {}), "Path exists and is a file".into());
    // The answer is text in every case; only the return code shows `salt-cp` that it failed.
    assert_eq!(place.ctx.job.retcode(), 1);
    let broken = chunked(list![file.as_str(), "aGVsbG8="], map! {}).to_string();
    assert!(broken.starts_with("the piece cannot be unpacked"), "{broken}");
    // The directories of the sender's name must not count.
    let recv = place.call("recv", list![map! { "/x/a" => "hi" }, out.as_str()], map! {});
    assert_eq!(recv, map! { format!("{out}/a") => true }.into());
    let nowhere = place.call("recv", list![map! { "/x/a" => "hi" }, "/no/such/place"], map! {});
    // A slash at the end means a directory.
    let missing = place.call("recv", list![map! { "/x/a" => "hi" }, format!("{out}/sub/")], map! {});
    assert_eq!(missing, "Destination unavailable".into());
    assert_eq!(nowhere, "Destination unavailable".into());
}
