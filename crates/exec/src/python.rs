//! Finds custom Python modules where Salt would load them. They are not run, but messages name them.

use std::path::{Path, PathBuf};

use value::{Map, Value};

/// The kinds of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Execution modules.
    Modules,
    /// State modules.
    States,
    /// Grains.
    Grains,
    /// Returners.
    Returners,
    /// Runners.
    Runners,
    /// Everything else that a daemon loads, by the name of its folder.
    Other(&'static str),
}

impl Kind {
    /// All kinds that a minion loads.
    pub const OF_MINION: [Kind; 10] = [
        Kind::Modules,
        Kind::States,
        Kind::Grains,
        Kind::Returners,
        Kind::Other("beacons"),
        Kind::Other("renderers"),
        Kind::Other("output"),
        Kind::Other("executors"),
        Kind::Other("engines"),
        Kind::Other("matchers"),
    ];

    /// All kinds that a master loads.
    pub const OF_MASTER: [Kind; 12] = [
        Kind::Runners,
        Kind::Other("wheel"),
        Kind::Other("pillar"),
        Kind::Other("tops"),
        Kind::Other("fileserver"),
        Kind::Other("auth"),
        Kind::Returners,
        Kind::Other("engines"),
        Kind::Other("renderers"),
        Kind::Other("output"),
        Kind::Modules,
        Kind::States,
    ];

    /// The folder of the kind below `extension_modules` and each of `module_dirs`.
    fn folder(self) -> &'static str {
        match self {
            Kind::Modules => "modules",
            Kind::States => "states",
            Kind::Grains => "grains",
            Kind::Returners => "returners",
            Kind::Runners => "runners",
            Kind::Other(folder) => folder,
        }
    }

    /// The option with folders that hold nothing else.
    fn option(self) -> Option<&'static str> {
        match self {
            Kind::States => Some("states_dirs"),
            Kind::Grains => Some("grains_dirs"),
            Kind::Returners => Some("returner_dirs"),
            Kind::Runners => Some("runner_dirs"),
            Kind::Other("renderers") => Some("render_dirs"),
            Kind::Other("output") => Some("outputter_dirs"),
            Kind::Modules | Kind::Other(_) => None,
        }
    }
}

/// The folders that hold Python files of one kind.
#[derive(Clone, Debug, Default)]
pub struct Folders(Vec<PathBuf>);

impl Folders {
    /// The folders of a kind under these options.
    pub fn of(opts: &Map, kind: Kind) -> Self {
        let paths = |name: &str| -> Vec<PathBuf> {
            let listed = opts.get(name).and_then(Value::as_list).unwrap_or_default();
            listed.iter().filter_map(Value::as_str).map(PathBuf::from).collect()
        };
        let mut folders = kind.option().map(paths).unwrap_or_default();
        folders.extend(paths("module_dirs").into_iter().map(|path| path.join(kind.folder())));
        let cached = || opts.get_str("cachedir").map(|cachedir| Path::new(cachedir).join("extmods"));
        let synced = opts.get_str("extension_modules").filter(|path| !path.is_empty());
        // Without the option, Salt loads modules that were synchronised from the master from its cache.
        folders.extend(synced.map(PathBuf::from).or_else(cached).map(|path| path.join(kind.folder())));
        Folders(folders)
    }

    /// Returns the file that holds a module of this name.
    pub fn file(&self, module: &str) -> Option<PathBuf> {
        // The name comes from jobs and templates and becomes part of a path.
        if module.is_empty() || module.starts_with('.') || module.contains('/') {
            return None;
        }
        let files = self
            .0
            .iter()
            .flat_map(|folder| [folder.join(format!("{module}.py")), folder.join(module).join("__init__.py")]);
        files.into_iter().find(|file| file.is_file())
    }

    /// Returns a sentence that follows the error about a missing function, if it is defined in such a file; empty if it
    /// is not.
    pub fn hint(&self, fun: &str) -> String {
        let module = fun.split('.').next().unwrap_or_default();
        match self.file(module) {
            Some(file) => {
                format!(" {fun} is a custom Python module ({}); Saltern does not run Python yet.", file.display())
            }
            None => String::new(),
        }
    }

    /// All files in these folders, in order.
    pub fn all(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        // A folder that is missing or unreadable counts as empty: most of them never exist.
        for entry in self.0.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten()) {
            let path = entry.path();
            let package = path.join("__init__.py");
            if path.extension().is_some_and(|ending| ending == "py" || ending == "pyx" || ending == "so") {
                files.push(path);
            } else if package.is_file() {
                files.push(package);
            }
        }
        // `read_dir` has no order, and a warning that changes with every start would look like news.
        files.sort();
        files
    }
}

/// Returns a warning for each kind that has files, with the consequences.
pub fn warnings(opts: &Map, kinds: &[Kind]) -> Vec<String> {
    let sentence = |kind: &Kind| {
        let files = Folders::of(opts, *kind).all();
        let shown: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let effect = match kind {
            Kind::Grains => {
                "; their grains are missing, so targets, templates and top files that ask for them take them for unset"
            }
            Kind::Modules => "; templates, states and jobs that call them fail",
            Kind::States => "; state files that use them fail",
            _ => "",
        };
        let kind = kind.folder();
        (!files.is_empty()).then(|| {
            format!("custom Python {kind} are not run, Saltern does not run Python yet: {}{effect}", shown.join(", "))
        })
    };
    kinds.iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn files_of_ones_own_are_found_where_salt_loads_them() {
        let place = tempfile::tempdir().unwrap();
        let dir = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
        for file in
            ["cache/extmods/modules/a.py", "more/modules/b/__init__.py", "states/c.py", "cache/extmods/grains/g.py"]
        {
            std::fs::create_dir_all(place.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(place.path().join(file), "").unwrap();
        }
        let opts = map! {
            "cachedir" => dir("cache"), "module_dirs" => list![dir("more")], "states_dirs" => list![dir("states")],
        };
        let modules = Folders::of(&opts, Kind::Modules);
        let text = format!(
            " a.hi is a custom Python module ({}); Saltern does not run Python yet.",
            dir("cache/extmods/modules/a.py")
        );
        assert_eq!(modules.hint("a.hi"), text);
        assert!(modules.hint("b.hi").contains("b/__init__.py"));
        assert_eq!(modules.hint("c.hi"), "", "a state is no module");
        assert_eq!(modules.hint("../../x.hi"), "");
        assert!(Folders::of(&opts, Kind::States).hint("c.hi").contains("states/c.py"));
        let told = warnings(&opts, &Kind::OF_MINION);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("extmods/modules/a.py, ") && told[0].contains("b/__init__.py"), "{told:?}");
        assert!(told[2].contains("grains/g.py") && told[2].contains("targets"), "{told:?}");
        assert_eq!(warnings(&Map::new(), &Kind::OF_MINION), Vec::<String>::new());
    }
}
