//! `state.pkg`: states that were compiled elsewhere, in an archive with their files.
//!
//! The archive is what `salt-ssh` of Salt makes: `lowstate.json`, perhaps `pillar.json` and `roster_grains.json`, and a
//! directory of files for each environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::state::low::order_lows;
use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::apply::session;
use super::session::{Args, Begun, Session, begin, set_retcode};
use crate::archive::contents::TarStream;
use crate::archive::unpack;
use crate::file::hash::of_file;

/// Applies the states of a package: a gzipped tar archive on this machine, whose checksum is known.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.pkg /tmp/salt_state.tgz 760a9353810e36f6d81416366fc426dc md5
#[function(out = "highstate")]
pub fn pkg(
    ctx: &Context,
    pkg_path: String,
    pkg_sum: Value,
    hash_type: String,
    test: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let mut kwargs = kwargs.0;
    let queue = kwargs.remove("queue");
    // Hashing and unpacking take a while for a large package.
    let package = ctx.blocking(move || Package::open(&pkg_path, &pkg_sum.to_string(), &hash_type))?;
    match &package.pillar {
        Some(pillar) => drop(kwargs.insert("pillar", pillar.clone())),
        // A package without a pillar has none; one from the caller would not be what it was
        // compiled with.
        None => drop(kwargs.remove("pillar")),
    }
    let args = Args { test, queue, kwargs, ..Args::default() };
    let mut session = session!(ctx, &args, false);
    package.lay_over(&mut session.ctx)?;
    let result = apply(&session, package.lows.clone());
    set_retcode(&session.ctx, &result, None);
    // Dropping removes the unpacked files.
    ctx.blocking(move || drop(package));
    Ok(result)
}

fn apply(session: &Session, lows: Vec<Value>) -> Value {
    // Compilation errors take the place of the chunks.
    if lows.iter().any(|low| low.as_map().is_none()) {
        return lows.into();
    }
    let chunks = order_lows(lows.into_iter().filter_map(Value::into_map).collect(), &session.settings());
    match chunks {
        Ok(chunks) => session.run().chunks(chunks).into(),
        Err(errors) => errors.into(),
    }
}

/// A package that was unpacked.
struct Package {
    /// The folder with the unpacked files. It goes with this value.
    folder: tempfile::TempDir,
    lows: Vec<Value>,
    pillar: Option<Value>,
    grains: Option<Map>,
}

impl Package {
    fn open(path: &str, sum: &str, hash_type: &str) -> Result<Self> {
        let found = of_file(path, hash_type)?;
        // Checked before anything is unpacked: the package decides what is run as root.
        if found != sum {
            return Err(Error::execution(format!("{path} has the {hash_type} sum {found}, not {sum}")));
        }
        let broken = |error: std::io::Error| Error::execution(format!("{path} cannot be unpacked: {error}"));
        let folder = tempfile::Builder::new().prefix("saltern-pkg-").tempdir().map_err(broken)?;
        unpack::tar(TarStream::open(Path::new(path)).map_err(broken)?, folder.path()).map_err(broken)?;
        let json = |name: &str| read_json(&folder.path().join(name), path, name);
        let lows = match json("lowstate.json")? {
            Some(Value::List(lows)) => lows,
            Some(_) => return Err(Error::execution(format!("lowstate.json in {path} is not a list"))),
            None => return Err(Error::execution(format!("{path} has no lowstate.json"))),
        };
        let (pillar, grains) = (json("pillar.json")?, json("roster_grains.json")?);
        let no_map = |name: &str| Error::execution(format!("{name} in {path} is not a dictionary"));
        if pillar.as_ref().is_some_and(|pillar| pillar.as_map().is_none()) {
            return Err(no_map("pillar.json"));
        }
        let grains = match grains {
            Some(grains) => Some(grains.into_map().ok_or_else(|| no_map("roster_grains.json"))?),
            None => None,
        };
        Ok(Package { folder, lows, pillar, grains })
    }

    /// Directories of files, by the environment.
    fn roots(&self) -> Result<Map> {
        let folder = self.folder.path();
        let mut roots = Map::new();
        for entry in std::fs::read_dir(folder).map_err(|error| Error::io("read", folder, &error))? {
            let path: PathBuf = entry.map_err(|error| Error::io("read", folder, &error))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            if let Some(name) = name.filter(|_| path.is_dir()) {
                roots.insert(name, Value::List(vec![path.to_string_lossy().into_owned().into()]));
            }
        }
        Ok(roots)
    }

    /// Makes the files and grains of the package visible to the run.
    fn lay_over(&self, ctx: &mut Context) -> Result<()> {
        let mut opts = (*ctx.opts).clone();
        opts.update(map! {
            // The states must take their files from the package and not from a master.
            "file_client" => "local", "fileserver_backend" => value::list!["roots"], "file_roots" => self.roots()?,
        });
        ctx.opts = Arc::new(opts);
        if let Some(grains) = &self.grains {
            ctx.grains = Arc::new(grains.clone());
        }
        Ok(())
    }
}

/// Reads a file of a package. Returns None if there is none.
fn read_json(path: &Path, package: &str, name: &str) -> Result<Option<Value>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::execution(format!("{name} in {package} cannot be read: {error}"))),
    };
    let wrong = |error| Error::execution(format!("{name} in {package} is not JSON: {error}"));
    python::json::loads(&text).map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use exec::{Call, Module, testing};

    use super::*;

    /// Returns the view of the package that the state has.
    #[function]
    fn seen(ctx: &Context, name: String) -> Result<Map> {
        let file =
            ctx.call_with("cp.get_file_str", Call { args: vec!["salt://a/file.txt".into()], kwargs: map! {} })?;
        let changes = map! {
            "file" => file, "port" => ctx.pillar.get("port").cloned(), "os" => ctx.grains.get("os").cloned(),
            "test" => ctx.is_test(),
        };
        Ok(map! { "name" => name, "result" => true, "changes" => changes, "comment" => "" })
    }

    static PROBE: Module = Module::new("probe", "Looks around.", &[&SEEN]);

    fn package(folder: &Path, members: &[(&str, &str)]) -> (String, String) {
        let path = folder.join("state.tgz");
        let packed = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(packed);
        for (name, text) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.set_uid(nix::unistd::geteuid().as_raw().into());
            header.set_gid(nix::unistd::getegid().as_raw().into());
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, text.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap();
        let sum = of_file(path.to_str().unwrap(), "sha256").unwrap();
        (path.to_str().unwrap().to_owned(), sum)
    }

    fn run(folder: &Path, members: &[(&str, &str)], sum: Option<&str>) -> Result<Value> {
        let (path, real) = package(folder, members);
        let cache = folder.join("cache").to_str().unwrap().to_owned();
        let opts = map! { "file_client" => "local", "cachedir" => cache, "id" => "minion" };
        let modules = [&super::super::MODULE, &crate::cp::MODULE];
        let (ctx, agent) = testing::with_states(&modules, &[&PROBE], opts, map! { "os" => "Debian" }, map! {});
        agent.answers.lock().unwrap().push_back(map! { "role" => "web" }.into());
        let args = vec![path.into(), sum.unwrap_or(&real).into(), "sha256".into()];
        ctx.call_with("state.pkg", Call { args, kwargs: map! { "test" => true } })
    }

    const LOW: &str = r#"[{"state": "probe", "fun": "seen", "name": "x", "__id__": "x", "__sls__": "a", "__env__": "base", "order": 10000}]"#;

    #[test]
    fn states_see_files_pillar_and_grains_of_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let members = [
            ("lowstate.json", LOW),
            ("pillar.json", r#"{"port": 80}"#),
            ("roster_grains.json", r#"{"os": "Rocky"}"#),
            ("base/a/file.txt", "text"),
        ];
        let done = run(folder.path(), &members, None).unwrap();
        let changes = done.get("probe_|-x_|-x_|-seen").and_then(|ret| ret.get("changes")).cloned().unwrap_or_default();
        assert_eq!(changes, map! { "file" => "text", "port" => 80, "os" => "Rocky", "test" => true }.into(), "{done}");
    }

    #[test]
    fn what_could_not_be_compiled_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let done = run(folder.path(), &[("lowstate.json", r#"["No matching sls"]"#)], None).unwrap();
        assert_eq!(done, value::list!["No matching sls"]);
    }

    #[test]
    fn wrong_packages_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let cases = [
            (vec![("lowstate.json", LOW)], Some("0123"), "not 0123"),
            (vec![("pillar.json", "{}")], None, "has no lowstate.json"),
            (vec![("lowstate.json", "{")], None, "is not JSON"),
            (vec![("lowstate.json", "{}")], None, "is not a list"),
            (vec![("lowstate.json", LOW), ("pillar.json", "[]")], None, "is not a dictionary"),
            // A member must not be able to write anywhere but below the temporary directory.
            (vec![("../lowstate.json", LOW)], None, "would lie outside"),
        ];
        for (members, sum, why) in cases {
            let error = run(folder.path(), &members, sum).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
