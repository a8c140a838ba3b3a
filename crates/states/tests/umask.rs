//! Two states at once, each with a different umask.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use exec::{Call, testing};
use nix::sys::stat::Mode;
use value::{Value, list, map};

/// Each state waits in the middle of its work until the other one has begun, and then continues.
fn sls(root: &Path) -> String {
    let root = root.display();
    let state = |name: &str, umask: &str, check: &str| {
        format!(
            "{root}/{name}:\n  file.managed:\n    - contents: x\n    - umask: '{umask}'\n    - parallel: True\n    \
             - check_cmd: \"timeout 60 sh -c '{check}'\"\n"
        )
    };
    let strict = state("strict", "077", &format!("echo > {root}/one; read x < {root}/two; :"));
    let open = state("open", "002", &format!("read x < {root}/one; echo > {root}/two; :"));
    format!("#!yaml\n{strict}{open}")
}

#[test]
fn states_at_once_do_not_see_each_others_umask() {
    let root = tempfile::tempdir().unwrap();
    let dir = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(dir("srv")).unwrap();
    for pipe in ["one", "two"] {
        nix::unistd::mkfifo(&root.path().join(pipe), Mode::S_IRWXU).unwrap();
    }
    std::fs::write(dir("srv/t.sls"), sls(root.path())).unwrap();
    let opts = map! {
        "id" => "m1", "file_client" => "local", "cachedir" => dir("cache"), "root_dir" => dir(""), "local" => true,
        "file_roots" => map! { "base" => list![dir("srv")] }, "pillar_roots" => map! { "base" => list![dir("pillar")] },
        "__cli" => "salt-call", "renderer" => "jinja|yaml", "state_top" => "top.sls",
    };
    let grains = map! { "id" => "m1", "os" => "Debian", "kernel" => "Linux", "shell" => "/bin/sh" };
    let (ctx, _) = testing::with_states(modules::ALL, saltern_states::ALL, opts, grains, map! {});
    let done = ctx.call_with("state.sls", Call { args: vec!["t".into()], kwargs: map! {} }).unwrap();
    let results: Vec<&Value> = done.as_map().unwrap().values().filter_map(|state| state.get("result")).collect();
    assert_eq!(results, [&Value::from(true); 2], "{done}");
    let mode = |name: &str| std::fs::metadata(dir(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("strict"), mode("open")], [0o600, 0o664]);
}
