//! Formulas of the old and the new style, rendered as the real Salt renders them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exec::{Call, Context};
use value::{Map, Value, map};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/formulas")
}

fn options(cachedir: &Path) -> Map {
    let path = |name: &str| tree().join(name).to_str().unwrap().to_owned();
    map! {
        "id" => "web1", "file_client" => "local", "cachedir" => cachedir.to_str().unwrap(),
        "file_roots" => map! { "base" => vec![path("srv")] }, "pillar_roots" => map! { "base" => vec![path("pillar")] },
    }
}

fn context(opts: Map, grains: Map, pillar: Map) -> Context {
    exec::testing::context(saltern_modules::ALL, opts, grains, pillar).0
}

fn compile(opts: &Map, grains: &Map) -> Map {
    let mut options = opts.clone();
    // The pillar is compiled by a master, which does not know the options of a minion.
    options.remove("cachedir");
    options.remove("file_client");
    options.remove("id");
    let master = config::Master::from_options(options).unwrap();
    let world = pillar::world(exec::Catalogue { modules: saltern_modules::ALL, ..Default::default() }, &Map::new());
    let compiler = pillar::Compiler::new(&master).unwrap().with_world(world);
    compiler.compile(&pillar::Request { id: "web1", grains: Some(grains), ..Default::default() })
}

#[test]
fn formulas_render_as_recorded() {
    let text = std::fs::read_to_string(tree().join("expected.json")).unwrap();
    let recorded = python::json::loads(&text).unwrap();
    let mut compared = 0;
    for case in recorded.as_list().unwrap() {
        let part = |name: &str| case.get(name).unwrap().as_map().unwrap().clone();
        let dir = tempfile::tempdir().unwrap();
        let (opts, grains) = (options(dir.path()), part("grains"));
        let pillar = compile(&opts, &grains);
        assert_eq!(Value::from(pillar.clone()), part("pillar").into(), "pillar for {grains:?}");
        let ctx = Arc::new(context(opts, grains.clone(), pillar));
        for (file, expected) in &part("files") {
            let file = file.to_string();
            // `web/init.sls` is called `web`; templates see the name in `sls`.
            let sls = file.trim_end_matches(".sls").replace("/init", "").replace('/', ".");
            let kwargs = map! { "sls" => sls.as_str() };
            let call = Call { args: vec![format!("salt://{file}").into()], kwargs };
            let found = ctx.call_with("slsutil.renderer", call).unwrap();
            // Compared as Python prints it: equality alone would let 1, 1.0 and True pass for one another.
            assert_eq!(value::python::repr(&found), value::python::repr(expected), "{file} for {grains:?}");
            compared += 1;
        }
    }
    // A recording that is empty or cut off would otherwise pass unnoticed.
    assert_eq!(compared, 16);
}
