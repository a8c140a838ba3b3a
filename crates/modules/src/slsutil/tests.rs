#![cfg(test)]

use exec::{Call, Context};
use value::{Map, Value, list, map};

fn place() -> (tempfile::TempDir, Context) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("srv");
    for (path, text) in
        [("a/b/c.yaml", "x: 1\n"), ("a/map.jinja", "x\n"), ("a/t.sls", "v: {{ grains.os }} {{ extra }}\n")]
    {
        let full = root.join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
    }
    let opts = map! {
        "id" => "m", "file_client" => "local", "cachedir" => dir.path().join("cache").to_str().unwrap(),
        "file_roots" => map! { "base" => vec![root.to_str().unwrap()] },
    };
    let (ctx, _) =
        exec::testing::context(&[&super::MODULE, &crate::cp::MODULE], opts, map! { "os" => "Debian" }, map! {});
    (dir, ctx)
}

fn call(ctx: &Context, name: &str, args: Value, kwargs: Map) -> Result<Value, String> {
    let call = Call { args: args.into_list().unwrap(), kwargs };
    ctx.call_with(&format!("slsutil.{name}"), call).map_err(|error| error.to_string())
}

#[test]
fn maps_are_merged_as_wished() {
    let (_dir, ctx) = place();
    let (a, b) =
        (map! { "x" => map! { "y" => list![1], "z" => 1 } }, map! { "x" => map! { "y" => list![2] }, "w" => 2 });
    for (strategy, lists, expected) in [
        ("smart", false, "{'x': {'y': [2], 'z': 1}, 'w': 2}"),
        ("recurse", true, "{'x': {'y': [1, 2], 'z': 1}, 'w': 2}"),
        ("overwrite", false, "{'x': {'y': [2]}, 'w': 2}"),
        ("aggregate", false, "{'x': {'y': [2]}, 'w': 2}"),
        ("list", false, "{'x': [{'y': [1], 'z': 1}, {'y': [2]}]}"),
    ] {
        let kwargs = map! { "strategy" => strategy, "merge_lists" => lists };
        let merged = call(&ctx, "merge", list![a.clone(), b.clone()], kwargs).unwrap();
        assert_eq!(merged.to_string(), expected, "{strategy}");
    }
    let all = call(&ctx, "merge_all", list![list![a.clone(), b.clone(), map! { "w" => 3 }]], map! {}).unwrap();
    assert_eq!(all.to_string(), "{'x': {'y': [2], 'z': 1}, 'w': 3}");
    let flat = call(&ctx, "update", list![a.clone(), b], map! { "recursive_update" => false }).unwrap();
    assert_eq!(flat.to_string(), "{'x': {'y': [2]}, 'w': 2}");
    assert!(call(&ctx, "merge", list![1, a], map! {}).unwrap_err().contains("non-dict types"));
}

#[test]
fn texts_and_files_are_rendered() {
    let (_dir, ctx) = place();
    let path = call(&ctx, "renderer", list!["salt://a/t.sls"], map! { "extra" => "more" }).unwrap();
    assert_eq!(path, map! { "v" => "Debian more" }.into());
    let kwargs =
        map! { "string" => "{{ saltenv }} {{ x }}", "default_renderer" => "jinja", "context" => map! { "x" => 5 } };
    assert_eq!(call(&ctx, "renderer", list![], kwargs).unwrap(), "base 5".into());
    assert_eq!(call(&ctx, "renderer", list!["salt://gone"], map! {}).unwrap(), map! {}.into());
    assert_eq!(call(&ctx, "renderer", list![], map! {}).unwrap_err(), "Must pass path or string.");
}

#[test]
fn values_are_written_and_read() {
    let (_dir, ctx) = place();
    let value = map! { "b" => list![1, 2], "a" => "ü" };
    let kwargs = map! { "default_flow_style" => false, "allow_unicode" => true };
    let yaml = call(&ctx, "serialize", list!["yaml", value.clone()], kwargs).unwrap();
    assert_eq!(yaml, "a: ü\nb:\n- 1\n- 2".into());
    let plain = call(&ctx, "serialize", list!["yaml", value.clone()], map! {}).unwrap();
    assert_eq!(plain, "a: \"\\xFC\"\nb: [1, 2]".into());
    let json = call(&ctx, "serialize", list!["json", value.clone()], map! { "sort_keys" => true }).unwrap();
    assert_eq!(json, "{\"a\": \"ü\", \"b\": [1, 2]}".into());
    assert_eq!(
        call(&ctx, "deserialize", list!["json", json], map! {}).unwrap(),
        map! { "a" => "ü", "b" => list![1, 2] }.into()
    );
    assert_eq!(call(&ctx, "serialize", list!["nope", 1], map! {}).unwrap_err(), "Serializer 'nope' not found.");
    assert!(call(&ctx, "serialize", list!["toml", 1], map! {}).unwrap_err().starts_with("not supported"));
}

#[test]
fn files_are_found_upwards() {
    let (_dir, ctx) = place();
    let found = call(&ctx, "findup", list!["a/b", list!["none", "map.jinja"]], map! {}).unwrap();
    assert_eq!(found, "a/map.jinja".into());
    assert!(call(&ctx, "findup", list!["x", "y"], map! {}).unwrap_err().starts_with("Starting path not found"));
    assert_eq!(call(&ctx, "path_exists", list!["a/b"], map! {}).unwrap(), true.into());
    assert_eq!(call(&ctx, "file_exists", list!["a/b"], map! {}).unwrap(), false.into());
    assert_eq!(call(&ctx, "boolstr", list![1, "yes", "no"], map! {}).unwrap(), "yes".into());
}

#[test]
fn a_banner_has_a_border() {
    let (_dir, ctx) = place();
    let kwargs = map! { "width" => 30, "title" => "Odd", "text" => "Some text that goes over lines" };
    let banner = call(&ctx, "banner", list![], kwargs).unwrap();
    let expected = "##############################\n#                            #\n#            Odd             #\n\
                    #                            #\n# Some text that goes over   #\n# lines                      #\n\
                    ##############################";
    assert_eq!(banner, expected.into());
    assert!(call(&ctx, "banner", list![], map! { "width" => 3 }).unwrap_err().contains("too small"));
}
