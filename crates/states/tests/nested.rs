//! SLS files that apply or show themselves do not end the whole minion.

use exec::{Call, testing};
use value::{list, map};

/// The stack of a thread that runs jobs.
const STACK: usize = 16 << 20;

fn outcome(fun: &'static str, sls: &'static str) -> String {
    let work = move || {
        let root = tempfile::tempdir().unwrap();
        let dir = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir_all(dir("srv")).unwrap();
        std::fs::write(dir("srv/again.sls"), sls).unwrap();
        let opts = map! {
            "id" => "m1", "file_client" => "local", "cachedir" => dir("cache"), "root_dir" => dir(""), "local" => true,
            "file_roots" => map! { "base" => list![dir("srv")] }, "pillar_roots" => map! { "base" => list![dir("pillar")] },
        "__cli" => "salt-call", "renderer" => "jinja|yaml", "state_top" => "top.sls",
        };
        let grains = map! { "id" => "m1", "os" => "Debian", "kernel" => "Linux" };
        let (ctx, _) = testing::with_states(modules::ALL, saltern_states::ALL, opts, grains, map! {});
        match ctx.call_with(fun, Call { args: vec!["again".into()], kwargs: map! {} }) {
            Ok(done) => done.to_string(),
            Err(error) => error.to_string(),
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap().join().unwrap()
}

// Without a bound, both overflow the stack, which no test can catch: the whole test program ends.

#[test]
fn a_file_that_applies_itself_fails() {
    let sls = "again:\n  module.run:\n    - state.sls:\n      - mods: again\n      - concurrent: True\n";
    let said = outcome("state.sls", sls);
    assert!(said.contains("'result': False") && said.contains("'state.sls' failed"), "{said:.2000}");
}

#[test]
fn a_template_that_shows_itself_is_shown() {
    // As in Salt: the innermost call returns its errors as a value, so the others succeed.
    let said = outcome("state.show_sls", "{% set x = salt['state.show_sls']('again') %}\nx:\n  test.nop\n");
    assert!(said.contains("'test': ['nop'"), "{said:.2000}");
}
