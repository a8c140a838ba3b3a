//! Installing and removing Python packages.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::Place;
use crate::pkg_resource::compare_loosely;

/// Splits a text with commas; a list stays one.
fn list(value: &Value) -> Vec<String> {
    crate::util::split_input(value).into_iter().filter(|part| !part.is_empty()).collect()
}

/// Paths of files with requirements, fetched where they must be.
fn requirement_files(ctx: &Context, files: &Value, saltenv: &str) -> Result<std::result::Result<Vec<String>, Map>> {
    let mut found = Vec::new();
    for file in list(files) {
        if !file.starts_with("salt://") {
            found.push(file);
            continue;
        }
        let cached = ctx.call("cp.cache_file", vec![file.as_str().into(), saltenv.into()])?;
        match cached.as_str().filter(|path| !path.is_empty()) {
            Some(path) => found.push(path.to_owned()),
            None => {
                let text = format!("pip requirements file '{file}' not found");
                return Ok(Err(map! { "result" => false, "comment" => text }));
            }
        }
    }
    Ok(Ok(found))
}

/// Installs packages; returns the output of pip.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.install <package name>,<package2 name>
///     salt '*' pip.install requirements=/path/to/requirements.txt
///     salt '*' pip.install <package name> bin_env=/path/to/virtualenv
#[function]
fn install(
    ctx: &Context,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] requirements: Value,
    bin_env: Option<String>,
    #[default(false)] use_wheel: Value,
    #[default(false)] no_use_wheel: Value,
    #[default(Value::Null)] log: Value,
    #[default(Value::Null)] proxy: Value,
    #[default(Value::Null)] timeout: Value,
    #[default(Value::Null)] editable: Value,
    #[default(Value::Null)] find_links: Value,
    #[default(Value::Null)] index_url: Value,
    #[default(Value::Null)] extra_index_url: Value,
    #[default(false)] no_index: Value,
    #[default(Value::Null)] mirrors: Value,
    #[default(Value::Null)] build: Value,
    #[default(Value::Null)] target: Value,
    #[default(Value::Null)] download: Value,
    #[default(Value::Null)] download_cache: Value,
    #[default(Value::Null)] source: Value,
    #[default(false)] upgrade: Value,
    #[default(false)] force_reinstall: Value,
    #[default(false)] ignore_installed: Value,
    #[default(Value::Null)] exists_action: Value,
    #[default(false)] no_deps: Value,
    #[default(false)] no_install: Value,
    #[default(false)] no_download: Value,
    #[default(Value::Null)] global_options: Value,
    #[default(Value::Null)] install_options: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(false)] pre_releases: Value,
    #[default(Value::Null)] cert: Value,
    #[default(false)] allow_all_external: Value,
    #[default(Value::Null)] allow_external: Value,
    #[default(Value::Null)] allow_unverified: Value,
    #[default(false)] process_dependency_links: Value,
    #[default("base")] saltenv: String,
    #[default(Value::Null)] env_vars: Value,
    #[default(false)] use_vt: Value,
    #[default(Value::Null)] trusted_host: Value,
    #[default(false)] no_cache_dir: Value,
    #[default(Value::Null)] extra_args: Value,
    #[default(Value::Null)] cache_dir: Value,
    #[default(Value::Null)] no_binary: Value,
    #[default(false)] disable_version_check: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = use_vt;
    let place = Place::of(bin_env, user, cwd, env_vars);
    let version = place.version(ctx)?;
    let options = map! {
        "use_wheel" => use_wheel, "no_use_wheel" => no_use_wheel, "log" => log, "proxy" => proxy, "timeout" => timeout,
        "find_links" => find_links, "index_url" => index_url, "extra_index_url" => extra_index_url,
        "no_index" => no_index, "mirrors" => mirrors, "build" => build, "target" => target, "download" => download,
        "cache" => if download_cache.truthy() { download_cache } else { cache_dir }, "source" => source,
        "upgrade" => upgrade, "force_reinstall" => force_reinstall, "ignore_installed" => ignore_installed,
        "exists_action" => exists_action, "no_deps" => no_deps, "no_install" => no_install,
        "no_download" => no_download, "global_options" => global_options, "install_options" => install_options,
        "pre_releases" => pre_releases, "cert" => cert, "allow_all_external" => allow_all_external,
        "allow_external" => allow_external, "allow_unverified" => allow_unverified,
        "process_dependency_links" => process_dependency_links, "trusted_host" => trusted_host,
        "no_cache_dir" => no_cache_dir, "no_binary" => no_binary, "disable_version_check" => disable_version_check,
        "pkgs" => pkgs, "editable" => editable, "extra_args" => extra_args,
    };
    let files = match requirement_files(ctx, &requirements, &saltenv)? {
        Ok(files) => files,
        Err(answer) => return Ok(answer),
    };
    let Some(words) = words(&options, &files, &version)? else {
        // An empty list must not make pip print its usage as an error.
        return Ok(map! { "retcode" => 0, "stdout" => "No packages to install." });
    };
    let mut more = kwargs.given();
    more.insert("saltenv", saltenv);
    Ok(place.run(ctx, &words, more)?.whole)
}

/// Options that are a single word.
const FLAGS: [(&str, &str); 11] = [
    ("no_index", "--no-index"),
    ("disable_version_check", "--disable-pip-version-check"),
    ("upgrade", "--upgrade"),
    ("force_reinstall", "--force-reinstall"),
    ("ignore_installed", "--ignore-installed"),
    ("no_deps", "--no-deps"),
    ("no_install", "--no-install"),
    ("no_download", "--no-download"),
    ("no_cache_dir", "--no-cache-dir"),
    ("allow_all_external", "--allow-all-external"),
    ("process_dependency_links", "--process-dependency-links"),
];

/// Options with a value.
const VALUES: [(&str, &str); 12] = [
    ("log", "--log"),
    ("proxy", "--proxy"),
    ("timeout", "--timeout"),
    ("index_url", "--index-url"),
    ("extra_index_url", "--extra-index-url"),
    ("build", "--build"),
    ("target", "--target"),
    ("download", "--download"),
    ("source", "--source"),
    ("exists_action", "--exists-action"),
    ("cert", "--cert"),
    ("trusted_host", "--trusted-host"),
];

/// Options with several values.
const LISTS: [(&str, &str); 5] = [
    ("find_links", "--find-links"),
    ("global_options", "--global-option"),
    ("install_options", "--install-option"),
    ("allow_external", "--allow-external"),
    ("allow_unverified", "--allow-unverified"),
];

/// Returns the words for pip, or None if there is nothing to install.
fn words(options: &Map, files: &[String], version: &str) -> Result<Option<Vec<String>>> {
    let get = |name: &str| options.get(name).filter(|value| value.truthy());
    let at_least = |wanted: &str| compare_loosely(version, wanted, false) >= 0;
    check(options, version)?;
    let mut words = vec!["install".to_owned()];
    words.extend(files.iter().flat_map(|file| ["--requirement".to_owned(), file.clone()]));
    // Newer versions have dropped the options and would fail on them.
    let wheels = at_least("1.4") && compare_loosely(version, "9.0.3", false) <= 0;
    for (name, word) in [("use_wheel", "--use-wheel"), ("no_use_wheel", "--no-use-wheel")] {
        words.extend(get(name).filter(|_| wheels).map(|_| word.to_owned()));
    }
    if let Some(names) = get("no_binary").filter(|_| at_least("7.0.0")) {
        words.extend(["--no-binary".to_owned(), list(names).join(",")]);
    }
    for (name, word) in VALUES {
        words.extend(get(name).into_iter().flat_map(|value| [word.to_owned(), value.to_string()]));
    }
    // Renamed in pip 6.
    if let Some(folder) = get("cache") {
        let word = if at_least("6.0") { "--cache-dir" } else { "--download-cache" };
        words.extend([word.to_owned(), folder.to_string()]);
    }
    words.extend(FLAGS.iter().filter(|(name, _)| get(name).is_some()).map(|(_, word)| (*word).to_owned()));
    words.extend(get("pre_releases").map(|_| "--pre".to_owned()));
    for (name, word) in LISTS {
        let values = get(name).map(list).unwrap_or_default();
        words.extend(values.into_iter().flat_map(|value| [word.to_owned(), value]));
    }
    let packages: Vec<String> = get("pkgs").map(list).unwrap_or_default();
    let editable: Vec<String> = get("editable").map(list).unwrap_or_default();
    if packages.is_empty() && editable.is_empty() && files.is_empty() {
        return Ok(None);
    }
    // A comma within a requirement comes as a semicolon.
    words.extend(packages.iter().map(|package| package.replace(';', ",")));
    for entry in editable {
        let local = entry == "." || entry.starts_with("file://") || entry.starts_with('/');
        // Without the name of the egg pip cannot determine the package of the checkout.
        if !local && !entry.contains("egg=") {
            return Err(Error::execution("You must specify an egg for this editable"));
        }
        words.extend(["--editable".to_owned(), entry]);
    }
    for argument in get("extra_args").and_then(Value::as_list).unwrap_or_default() {
        match argument {
            Value::Map(pair) => words.extend(pair.iter().flat_map(|(key, value)| [key.to_string(), value.to_string()])),
            single => words.push(single.to_string()),
        }
    }
    Ok(Some(words))
}

fn check(options: &Map, version: &str) -> Result<()> {
    let get = |name: &str| options.get(name).filter(|value| value.truthy());
    let refuse = |text: String| Err(Error::execution(text));
    if get("no_index").is_some() && (get("index_url").is_some() || get("extra_index_url").is_some()) {
        return refuse("'no_index' and ('index_url' or 'extra_index_url') are mutually exclusive.".into());
    }
    for url in ["index_url", "extra_index_url"].iter().filter_map(|name| get(name)).map(Value::to_string) {
        if !["http://", "https://", "ftp://", "file://"].iter().any(|start| url.starts_with(start)) {
            return refuse(format!("'{url}' is not a valid URL"));
        }
    }
    if get("mirrors").is_some() && compare_loosely(version, "7.0.0", false) >= 0 {
        let text = "pip >= 7.0.0 does not support mirror argument: use index_url and/or extra_index_url instead";
        return refuse(text.into());
    }
    if let Some(action) = get("exists_action").map(Value::to_string)
        // pip would prompt on a missing terminal.
        && !["s", "i", "w", "b"].contains(&action.to_lowercase().as_str())
    {
        let text = "The exists_action pip option only supports the values s, i, w, and b.";
        return refuse(format!("{text} '{action}' is not valid."));
    }
    if let Some(timeout) = get("timeout").map(Value::to_string)
        && timeout.parse::<i64>().is_err()
    {
        return Err(Error::Other(format!("'{timeout}' is not a valid timeout, must be an integer")));
    }
    Ok(())
}

/// Removes packages; returns the output of pip.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.uninstall <package name>,<package2 name>
///     salt '*' pip.uninstall requirements=/path/to/requirements.txt
#[function]
fn uninstall(
    ctx: &Context,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] requirements: Value,
    bin_env: Option<String>,
    #[default(Value::Null)] log: Value,
    #[default(Value::Null)] proxy: Value,
    #[default(Value::Null)] timeout: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default("base")] saltenv: String,
    #[default(false)] use_vt: Value,
    #[default(Value::Null)] extra_args: Value,
) -> Result<Map> {
    let _ = use_vt;
    let files = match requirement_files(ctx, &requirements, &saltenv)? {
        Ok(files) => files,
        Err(answer) => return Ok(answer),
    };
    let mut words = vec!["uninstall".to_owned(), "-y".into()];
    words.extend(files.into_iter().flat_map(|file| ["--requirement".to_owned(), file]));
    for (word, value) in [("--log", log), ("--proxy", proxy), ("--timeout", timeout)] {
        words
            .extend(value.truthy().then_some(value).into_iter().flat_map(|value| [word.to_owned(), value.to_string()]));
    }
    words.extend(list(&pkgs));
    words.extend(extra_args.as_list().unwrap_or_default().iter().map(Value::to_string));
    let place = Place::of(bin_env, user, cwd, Value::Null);
    Ok(place.run(ctx, &words, map! { "saltenv" => saltenv })?.whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn options_become_words() {
        let options = map! {
            "pkgs" => "a==1;<2,b", "upgrade" => true, "index_url" => "https://x/", "no_binary" => list!["c", "d"],
            "find_links" => "u, v", "use_wheel" => true, "extra_args" => list![map! { "--x" => 1 }, "-y"],
        };
        let found = words(&options, &["/r.txt".to_owned()], "23.0").unwrap().unwrap().join(" ");
        let expected = "install --requirement /r.txt --no-binary c,d --index-url https://x/ --upgrade --find-links u \
                        --find-links v a==1,<2 b --x 1 -y";
        assert_eq!(found, expected);
        assert_eq!(words(&Map::new(), &[], "23.0").unwrap(), None);
        for wrong in [
            map! { "no_index" => true, "index_url" => "https://x" },
            map! { "index_url" => "x" },
            map! { "exists_action" => "z" },
            map! { "mirrors" => "http://x" },
            map! { "editable" => "git+https://x" },
            map! { "timeout" => "soon" },
        ] {
            assert!(words(&wrong, &[], "23.0").is_err(), "{wrong:?}");
        }
    }
}
