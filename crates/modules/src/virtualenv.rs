//! `virtualenv` — Python environments with their own packages.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;

use exec::{Call, Context, Error, KwArgs, Module, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "virtualenv",
    "Functions that make environments of Python and look into them.",
    &[&CREATE, &GET_DISTRIBUTION_PATH, &GET_RESOURCE_CONTENT, &GET_RESOURCE_PATH, &GET_SITE_PACKAGES, &VIRTUALENV_VER],
);

// An interpreter as `venv_bin` means its own module `venv`.
static INTERPRETER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)^(python|pypy)[0-9.]*(\.exe)?$").expect("the pattern is fixed"));

/// The program that makes an environment.
#[derive(Debug, PartialEq, Eq)]
enum Maker {
    /// An interpreter with its module `venv`.
    Interpreter(String),
    /// The program `virtualenv`.
    Virtualenv(String),
    /// Another program that takes the options of `venv`.
    Venv(String),
}

impl Maker {
    fn takes_venv_options(&self) -> bool {
        !matches!(self, Maker::Virtualenv(_))
    }

    fn words(&self) -> Vec<String> {
        match self {
            Maker::Interpreter(python) => vec![python.clone(), "-m".into(), "venv".into()],
            Maker::Virtualenv(program) | Maker::Venv(program) => vec![program.clone()],
        }
    }
}

/// Returns the program for the given arguments.
fn maker(program: &str, python: Option<&str>) -> Result<Maker> {
    let found = |python: &str| {
        let missing = || Error::execution(format!("Cannot find requested python ({python})."));
        util::which(python).map(|_| Maker::Interpreter(python.to_owned())).ok_or_else(missing)
    };
    // `venv` is not a program but a module, so some Python has to run it.
    if program == "venv" {
        let own = || util::which("python3").or_else(|| util::which("python"));
        return match python {
            Some(python) => found(python),
            None => own()
                .map(|path| Maker::Interpreter(path.to_string_lossy().into_owned()))
                .ok_or_else(|| Error::CommandNotFound("there is no python3 on this machine".into())),
        };
    }
    if INTERPRETER.is_match(program.rsplit('/').next().unwrap_or_default()) {
        if python.is_some() {
            let text = "Pass the target interpreter either as `venv_bin` or as `python`, not both.";
            return Err(Error::execution(text));
        }
        return found(program);
    }
    let program = program.to_owned();
    // Salt looks for `venv` in the name, too: `pyvenv` and similar programs take other options than virtualenv.
    Ok(if program.contains("venv") { Maker::Venv(program) } else { Maker::Virtualenv(program) })
}

/// The program that is used when none is named.
fn usual_program(ctx: &Context) -> String {
    // The pillar wins over the minion's configuration, as in Salt.
    let set = ctx.pillar.get("venv_bin").filter(|set| set.truthy()).or_else(|| ctx.opt("venv_bin"));
    if let Some(set) = set {
        return set.to_string();
    }
    let found = ["virtualenv3", "virtualenv"].iter().find_map(|name| util::which(name));
    found.map_or_else(|| "venv".to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Makes an environment. Returns the output of the program.
///
/// ``venv_bin`` is the program: ``virtualenv``, an interpreter such as ``/usr/bin/python3.11``, or ``venv`` for the
/// machine's Python.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' virtualenv.create /path/to/new/virtualenv
#[function]
fn create(
    ctx: &Context,
    path: String,
    venv_bin: Option<String>,
    #[default(false)] system_site_packages: Value,
    #[default(false)] distribute: Value,
    #[default(false)] clear: Value,
    python: Option<String>,
    #[default(Value::Null)] extra_search_dir: Value,
    #[default(Value::Null)] never_download: Value,
    prompt: Option<String>,
    #[default(false)] pip: bool,
    #[default(Value::Null)] symlinks: Value,
    #[default(Value::Null)] upgrade: Value,
    #[default(Value::Null)] user: Value,
    #[default(false)] use_vt: Value,
    #[default("base")] saltenv: String,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = use_vt;
    let some = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let program = venv_bin.unwrap_or_else(|| usual_program(ctx));
    let (python, prompt) = (some(python), some(prompt));
    let maker = maker(&program, python.as_deref())?;
    let options = Options {
        distribute: distribute.truthy(),
        python,
        extra_search_dir,
        never_download,
        prompt,
        symlinks,
        upgrade,
        clear: clear == Value::Bool(true),
        system: system_site_packages == Value::Bool(true),
    };
    options.check(&program, &maker)?;
    // The options of virtualenv came and went, while those of venv are the same everywhere.
    let version = match maker.takes_venv_options() {
        true => Vec::new(),
        false => version_of(ctx, &program, &user, &kwargs.given())?,
    };
    let mut words = maker.words();
    words.extend(options.words(&maker, &version));
    words.push(path.clone());
    let there = Path::new(&path).exists();
    let said = run(ctx, words, &user, kwargs.given())?;
    if said.get("retcode").and_then(Value::as_i64) != Some(0) {
        if !there && Path::new(&path).is_dir() {
            // A half-made environment would pass for one the next time.
            std::fs::remove_dir_all(&path).map_err(|error| Error::io("remove", &path, &error))?;
        }
        return Ok(said);
    }
    bootstrap(
        ctx,
        Bootstrap { path, pip, user, saltenv, setuptools: (pip || options.distribute) && !maker.takes_venv_options() },
        said,
    )
}

fn run(ctx: &Context, words: Vec<String>, user: &Value, more: Map) -> Result<Map> {
    let mut kwargs = map! { "runas" => user.clone(), "python_shell" => false };
    kwargs.update(more);
    let said = ctx.call_with("cmd.run_all", Call { args: vec![words.into()], kwargs })?;
    Ok(said.into_map().unwrap_or_default())
}

struct Options {
    distribute: bool,
    python: Option<String>,
    extra_search_dir: Value,
    never_download: Value,
    prompt: Option<String>,
    symlinks: Value,
    upgrade: Value,
    clear: bool,
    system: bool,
}

impl Options {
    /// Refuses options the program does not have.
    fn check(&self, program: &str, maker: &Maker) -> Result<()> {
        let searched = match &self.extra_search_dir {
            Value::Str(text) => !text.trim().is_empty(),
            other => !other.is_null(),
        };
        let wrong = match maker {
            Maker::Virtualenv(_) => {
                [("upgrade", !self.upgrade.is_null()), ("symlinks", !self.symlinks.is_null())].to_vec()
            }
            _ => vec![
                // With the module `venv` the option chooses the interpreter that runs it.
                ("python", matches!(maker, Maker::Venv(_)) && self.python.is_some()),
                ("extra_search_dir", searched),
                ("never_download", !self.never_download.is_null()),
            ],
        };
        match wrong.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => {
                let flag = name.replace('_', "-");
                Err(Error::execution(format!("The `{name}`(`--{flag}`) option is not supported by '{program}'")))
            }
        }
    }

    /// The words behind the program; `version` is that of virtualenv.
    fn words(&self, maker: &Maker, version: &[u64]) -> Vec<String> {
        let mut words = Vec::new();
        let yes = |value: &Value| *value == Value::Bool(true);
        if maker.takes_venv_options() {
            words.extend(yes(&self.upgrade).then(|| "--upgrade".to_owned()));
            words.extend(yes(&self.symlinks).then(|| "--symlinks".to_owned()));
            words.extend(self.prompt.iter().flat_map(|prompt| ["--prompt".to_owned(), prompt.clone()]));
        } else {
            // distribute and setuptools became one again with virtualenv 1.10.
            words.extend((self.distribute && version < &[1, 10][..]).then(|| "--distribute".to_owned()));
            words.extend(self.python.iter().map(|python| format!("--python={python}")));
            let folders = util::split_input(&self.extra_search_dir);
            words.extend(folders.iter().filter(|f| !f.is_empty()).map(|folder| format!("--extra-search-dir={folder}")));
            // Between 1.10 and 14 the option was gone.
            let ignored = version >= &[1, 10][..] && version < &[14, 0, 0][..];
            if yes(&self.never_download) {
                words.extend((!ignored).then(|| "--never-download".to_owned()));
            } else if self.never_download == Value::Bool(false) && version >= &[20, 0][..] {
                words.push("--download".to_owned());
            }
            // The quotes are Salt's and become part of the prompt.
            words.extend(self.prompt.iter().map(|prompt| format!("--prompt='{prompt}'")));
        }
        words.extend(self.clear.then(|| "--clear".to_owned()));
        words.extend(self.system.then(|| "--system-site-packages".to_owned()));
        words
    }
}

struct Bootstrap {
    path: String,
    pip: bool,
    setuptools: bool,
    user: Value,
    saltenv: String,
}

/// Sees to setuptools and pip, where the program leaves them out.
fn bootstrap(ctx: &Context, wanted: Bootstrap, mut said: Map) -> Result<Map> {
    let folder = Path::new(&wanted.path).join("bin");
    // Old environments come without setuptools, which pip needs.
    if wanted.setuptools && !folder.join("easy_install").exists() {
        installed_by_script(ctx, "https://bootstrap.pypa.io/ez_setup.py", &wanted)?;
    }
    if wanted.pip && !folder.join("pip").exists() {
        let more = installed_by_script(ctx, "https://bootstrap.pypa.io/get-pip.py", &wanted)?;
        let text = |map: &Map, name: &str| map.get(name).map(Value::to_string).unwrap_or_default();
        for name in ["stdout", "stderr"] {
            let both = format!("{}\n{}", text(&said, name), text(&more, name));
            said.insert(name, both.trim());
        }
        said.insert("retcode", more.get("retcode").cloned().unwrap_or_default());
    }
    Ok(said)
}

/// Runs a script from the web in the environment.
fn installed_by_script(ctx: &Context, source: &str, wanted: &Bootstrap) -> Result<Map> {
    let cached = ctx.call("cp.cache_file", vec![source.into(), wanted.saltenv.as_str().into()])?;
    let Some(cached) = cached.as_str().filter(|path| !path.is_empty()) else {
        return Err(Error::execution(format!("{source} could not be fetched")));
    };
    // A copy, since the user may not be able to read the cache of the minion.
    let script = tempfile::Builder::new().prefix("bootstrap-").suffix(".py").tempfile_in(&wanted.path)?;
    std::fs::copy(cached, script.path()).map_err(|error| Error::io("copy", cached, &error))?;
    std::fs::set_permissions(script.path(), std::fs::Permissions::from_mode(0o500))?;
    if let Some(user) = wanted.user.as_str().filter(|user| !user.is_empty()) {
        let missing = || Error::execution(format!("User '{user}' is not available"));
        let known = nix::unistd::User::from_name(user).map_err(std::io::Error::from)?.ok_or_else(missing)?;
        std::os::unix::fs::chown(script.path(), Some(known.uid.as_raw()), None)?;
    }
    let words = vec![format!("{}/bin/python", wanted.path), script.path().to_string_lossy().into_owned()];
    let env = map! { "VIRTUAL_ENV" => wanted.path.as_str() };
    run(ctx, words, &wanted.user, map! { "cwd" => wanted.path.as_str(), "env" => env })
}

/// Returns the version of virtualenv, as a list of numbers.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' virtualenv.virtualenv_ver /usr/bin/virtualenv
#[function]
fn virtualenv_ver(
    ctx: &Context,
    venv_bin: String,
    #[default(Value::Null)] user: Value,
    kwargs: KwArgs,
) -> Result<Value> {
    let version = version_of(ctx, &venv_bin, &user, &kwargs.given())?;
    Ok(version.into_iter().map(|part| Value::Int(part as i64)).collect())
}

fn version_of(ctx: &Context, program: &str, user: &Value, kwargs: &Map) -> Result<Vec<u64>> {
    let words = vec![program.to_owned(), "--version".into()];
    let mut more = map! { "redirect_stderr" => true };
    more.update(kwargs.clone());
    let said = run(ctx, words, user, more)?;
    let text = said.get("stdout").map(Value::to_string).unwrap_or_default();
    if said.get("retcode").and_then(Value::as_i64) != Some(0) || text.trim().is_empty() {
        let text = format!(
            "Unable to get the virtualenv version output using '['{program}', '--version']'. Returned data: {}",
            Value::from(said)
        );
        return Err(Error::execution(text));
    }
    version_in(&text).ok_or_else(|| Error::execution(format!("{program} told no version: {}", text.trim())))
}

/// Reads "virtualenv 20.17.1 from …" or "15.0.1".
fn version_in(text: &str) -> Option<Vec<u64>> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    // Debian appends `+ds` to the version.
    let bare = word.split("rc").next()?.split("+ds").next()?;
    bare.split('.').map(|part| part.parse().ok()).collect()
}

/// The interpreter of an environment.
fn interpreter(venv: &str) -> Result<String> {
    let python = format!("{venv}/bin/python");
    if Path::new(&python).exists() {
        return Ok(python);
    }
    let text = format!("Path '{venv}' does not appear to be a virtualenv: '{python}' not found.");
    Err(Error::execution(text))
}

fn run_python(ctx: &Context, venv: &str, code: String) -> Result<Value> {
    let call = Call { args: vec![interpreter(venv)?.into(), code.into()], kwargs: Map::new() };
    let said = ctx.call_with("cmd.exec_code_all", call)?;
    let part = |name: &str| said.get(name).cloned().unwrap_or_default();
    if part("retcode").as_i64() != Some(0) {
        return Err(Error::execution(format!("{}\n{}", part("stdout"), part("stderr"))));
    }
    Ok(part("stdout"))
}

/// Names that go into a piece of Python.
fn quoted(text: &str) -> Result<String> {
    // Salt's own list of words. The text becomes part of a program.
    let bad = ["import", ";", "subprocess", "eval", "open", "file", "exec", "input"];
    if bad.iter().any(|bad| text.contains(bad)) {
        return Err(Error::invocation(format!("Unsafe python code detected in '{text}'")));
    }
    // A JSON text without characters beyond ASCII is a Python text, too.
    let ascii: String = serde_json::to_string(text)
        .map_err(|error| Error::Other(error.to_string()))?
        .chars()
        .flat_map(|c| if c.is_ascii() { vec![c] } else { format!("\\U{:08x}", u32::from(c)).chars().collect() })
        .collect();
    Ok(ascii)
}

/// Returns the directory for packages of an environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' virtualenv.get_site_packages /path/to/my/venv
#[function]
fn get_site_packages(ctx: &Context, venv: String) -> Result<Value> {
    run_python(ctx, &venv, "from sysconfig import get_path\nprint(get_path('purelib'))\n".into())
}

/// Returns the directory of an environment that holds a package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' virtualenv.get_distribution_path /path/to/my/venv my_distribution
#[function]
fn get_distribution_path(ctx: &Context, venv: String, distribution: String) -> Result<Value> {
    let name = quoted(&distribution)?;
    let code = format!(
        "import importlib.metadata\nplace = importlib.metadata.distribution({name}).locate_file('')\n\
         print(str(place).rstrip('/'))\n"
    );
    run_python(ctx, &venv, code)
}

/// Returns the path of a file that belongs to a package of an environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' virtualenv.get_resource_path /path/to/my/venv my_package my/resource.xml
#[function]
fn get_resource_path(ctx: &Context, venv: String, package: Option<String>, resource: Option<String>) -> Result<Value> {
    let (package, resource) = both(package, resource)?;
    let code = format!(
        "import importlib, os\nmodule = importlib.import_module({package})\n\
         print(os.path.join(os.path.dirname(module.__file__), {resource}))\n"
    );
    run_python(ctx, &venv, code)
}

/// Returns the content of a file that belongs to a package of an environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' virtualenv.get_resource_content /path/to/my/venv my_package my/resource.xml
#[function]
fn get_resource_content(
    ctx: &Context,
    venv: String,
    package: Option<String>,
    resource: Option<String>,
) -> Result<Value> {
    let (package, resource) = both(package, resource)?;
    run_python(ctx, &venv, format!("import pkgutil\nprint(pkgutil.get_data({package}, {resource}))\n"))
}

fn both(package: Option<String>, resource: Option<String>) -> Result<(String, String)> {
    match (package, resource) {
        (Some(package), Some(resource)) => Ok((quoted(&package)?, quoted(&resource)?)),
        _ => Err(Error::invocation("'package' and 'resource' must be given")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            distribute: false,
            python: None,
            extra_search_dir: Value::Null,
            never_download: Value::Null,
            prompt: None,
            symlinks: Value::Null,
            upgrade: Value::Null,
            clear: false,
            system: false,
        }
    }

    #[test]
    fn the_program_decides_which_options_there_are() {
        let virtualenv = maker("/usr/bin/virtualenv", Some("python9")).unwrap();
        assert_eq!(virtualenv, Maker::Virtualenv("/usr/bin/virtualenv".into()));
        assert_eq!(maker("pyvenv", None).unwrap(), Maker::Venv("pyvenv".into()));
        assert!(maker("no/python3.99", None).unwrap_err().to_string().contains("Cannot find requested python"));
        assert!(maker("python3", Some("python3")).unwrap_err().to_string().contains("not both"));
        let wrong = Options { upgrade: false.into(), ..options() }.check("v", &virtualenv).unwrap_err();
        assert_eq!(wrong.to_string(), "The `upgrade`(`--upgrade`) option is not supported by 'v'");
        let venv = Maker::Interpreter("p".into());
        let wrong = Options { extra_search_dir: "x".into(), ..options() }.check("venv", &venv).unwrap_err();
        let expected = "The `extra_search_dir`(`--extra-search-dir`) option is not supported by 'venv'";
        assert_eq!(wrong.to_string(), expected);
        assert!(Options { extra_search_dir: " ".into(), ..options() }.check("venv", &venv).is_ok());
    }

    #[test]
    fn options_become_words() {
        let all = Options {
            distribute: true,
            python: Some("python3".into()),
            extra_search_dir: "a, b".into(),
            never_download: true.into(),
            prompt: Some("p".into()),
            clear: true,
            system: true,
            ..options()
        };
        let words = |version: &[u64]| all.words(&Maker::Virtualenv("v".into()), version).join(" ");
        let rest = "--prompt='p' --clear --system-site-packages";
        let found = "--python=python3 --extra-search-dir=a --extra-search-dir=b";
        assert_eq!(words(&[1, 9]), format!("--distribute {found} --never-download {rest}"));
        assert_eq!(words(&[1, 11]), format!("{found} {rest}"));
        assert_eq!(words(&[20, 1, 0]), format!("{found} --never-download {rest}"));
        let download = Options { never_download: false.into(), ..options() };
        assert_eq!(download.words(&Maker::Virtualenv("v".into()), &[20, 0]), ["--download"]);
        let venv = Options { upgrade: true.into(), symlinks: true.into(), prompt: Some("p".into()), ..options() };
        let words = venv.words(&Maker::Interpreter("python3".into()), &[]).join(" ");
        assert_eq!(words, "--upgrade --symlinks --prompt p");
    }

    #[test]
    fn versions_and_names_are_read() {
        assert_eq!(version_in("virtualenv 20.17.1+ds from /usr/lib/x"), Some(vec![20, 17, 1]));
        assert_eq!(version_in("15.0.1\n"), Some(vec![15, 0, 1]));
        assert_eq!(version_in("nothing"), None);
        assert_eq!(quoted("a'b\"ü").unwrap(), "\"a'b\\\"\\U000000fc\"");
        assert!(quoted("x); import os").is_err());
    }
}
