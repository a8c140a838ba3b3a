//! Renders one file and all its includes.

use targeting::fnmatch;
use value::{Map, Value, list};

use super::{DEEPEST, Failed, Gatherer, Matches, Sls};
use crate::declare::{self, Place};
use crate::high::{self, is_dunder};

/// The environment name that means any environment with the file.
const ANY_ENV: &str = "_xenv";

impl Gatherer<'_> {
    /// Renders a file and its includes. Returns the data and the errors.
    pub(super) fn sls(&mut self, sls: &str, saltenv: &str, matches: &Matches) -> (Map, Vec<String>) {
        self.sls_at(sls, saltenv, matches, 0)
    }

    fn sls_at(&mut self, sls: &str, saltenv: &str, matches: &Matches, depth: usize) -> (Map, Vec<String>) {
        if depth > DEEPEST {
            return (Map::new(), vec![format!("SLS '{saltenv}:{sls}' is included more than {DEEPEST} files deep")]);
        }
        let rendered = self.sources.render(sls, saltenv);
        // Marked before its includes are read: two files may include each other.
        let is_missing = rendered == Err(Failed::NotFound);
        if !is_missing {
            self.rendered.insert(format!("{saltenv}:{sls}"));
        }
        let error = match rendered {
            Ok(file) => return self.take(file, sls, saltenv, matches, depth),
            Err(Failed::NotFound) => format!(
                "Specified SLS {sls} in saltenv {saltenv} is not available on the salt master or through a configured \
                 fileserver"
            ),
            Err(Failed::Render(why)) => format!("Rendering SLS '{saltenv}:{sls}' failed: {why}"),
            Err(Failed::Unreachable(why)) => format!("Fetching SLS '{saltenv}:{sls}' failed: {why}"),
        };
        match is_missing {
            // The caller reports in which environments it looked for the file.
            true => tracing::debug!("{error}"),
            false => tracing::error!(critical = true, "{error}"),
        }
        (Map::new(), vec![error])
    }

    /// Processes a rendered file and all its includes. Returns the data and the errors.
    pub(super) fn take(
        &mut self,
        file: Sls,
        sls: &str,
        saltenv: &str,
        matches: &Matches,
        depth: usize,
    ) -> (Map, Vec<String>) {
        let mut errors = Vec::new();
        if !file.data.truthy() {
            return (Map::new(), errors);
        }
        let mut state = match file.data {
            Value::Map(state) => state,
            other => {
                errors.push(format!("SLS {sls} does not render to a dictionary"));
                // As in Salt, the requested file gets a second message; an included one does not.
                if depth == 0 {
                    errors.push(format!("Error when rendering state with contents: {other}"));
                }
                return (Map::new(), errors);
            }
        };
        let place = Place { sls, saltenv };
        let includes = self.declared(&mut state, place, &mut errors);
        for include in includes {
            match self.included_files(include, place, file.is_init, matches) {
                Ok(files) => {
                    for (saltenv, sls) in files {
                        self.include(&sls, &saltenv, place, matches, depth, &mut state, &mut errors);
                    }
                }
                Err(error) => {
                    tracing::error!("{error}");
                    errors.push(error);
                }
            }
        }
        if self.options.state_auto_order {
            declare::auto_order(&mut state, &mut self.next_order);
        }
        (state, errors)
    }

    #[expect(clippy::too_many_arguments, reason = "the place of the including file and of the included one")]
    fn include(
        &mut self,
        sls: &str,
        saltenv: &str,
        from: Place<'_>,
        matches: &Matches,
        depth: usize,
        state: &mut Map,
        errors: &mut Vec<String>,
    ) {
        // The states of the file are in the high data already.
        if self.rendered.contains(&format!("{saltenv}:{sls}")) {
            return;
        }
        let (mut included, more) = self.sls_at(sls, saltenv, matches, depth + 1);
        for (id, body) in included.iter_mut() {
            let Some(body) = body.as_map_mut().filter(|_| !is_dunder(id)) else { continue };
            if let Value::List(path) = body.entry_or_insert_with("__sls_included_from__", || list![]) {
                path.push(from.sls.into());
            }
        }
        high::merge_included_states(state, included, errors);
        errors.extend(more);
    }

    /// Returns environments and names of the files that an entry of `include` names.
    fn included_files(
        &mut self,
        include: Value,
        place: Place<'_>,
        is_init: bool,
        matches: &Matches,
    ) -> Result<Vec<(String, String)>, String> {
        let Place { sls, saltenv } = place;
        let (env, include) = match &include {
            // As with Python's `popitem`, the last entry counts and the others are ignored.
            Value::Map(map) => match map.iter().next_back() {
                Some((env, include)) => (env.to_string(), include.clone()),
                None => return Err(format!("Badly formatted include {{}} found in include in SLS '{saltenv}:{sls}'")),
            },
            _ => (saltenv.to_owned(), include.clone()),
        };
        let Value::Str(mut wanted) = include else {
            return Err(format!("Badly formatted include {include} found in include in SLS '{saltenv}:{sls}'"));
        };
        if !self.has_env(&env)? && !self.has_env("__env__")? && env != ANY_ENV {
            return Err(format!(
                "Nonexistent saltenv '{env}' found in include of '{wanted}' within SLS '{saltenv}:{sls}'"
            ));
        }
        if wanted.starts_with('.') {
            wanted = absolute(&wanted, place, is_init)?;
        }
        let envs = self.envs_with(&env, &wanted, matches)?;
        let here = match envs.as_slice() {
            [one] => one.clone(),
            several if several.iter().any(|env| env == saltenv) => saltenv.to_owned(),
            [] => {
                let searched: Vec<&str> =
                    if env == ANY_ENV { matches.text_keys().collect() } else { vec![env.as_str()] };
                return Err(format!(
                    "Unknown include: Specified SLS {env}: {wanted} is not available on the salt master in saltenv(s): {} ",
                    searched.join(", ")
                ));
            }
            several => {
                return Err(format!(
                    "Ambiguous include: Specified SLS {env}: {wanted} is available on the salt master in multiple available \
                     saltenvs: {}",
                    several.join(", ")
                ));
            }
        };
        // As in Salt, patterns are expanded by the names in the environment of the including file, even if the file is
        // in another one.
        let mut files = self.fitting(saltenv, &wanted)?;
        if files.is_empty() {
            files.push(wanted);
        }
        Ok(files.into_iter().map(|sls| (here.clone(), sls)).collect())
    }

    /// Returns the environments that contain a file.
    fn envs_with(&mut self, env: &str, wanted: &str, matches: &Matches) -> Result<Vec<String>, String> {
        if env != ANY_ENV {
            let known = matches.contains_key(env) || !self.fitting(env, wanted)?.is_empty();
            return Ok(if known { vec![env.to_owned()] } else { Vec::new() });
        }
        let mut found = Vec::new();
        for env in matches.text_keys() {
            if self.states(env)?.iter().any(|sls| fnmatch(sls, wanted)) {
                found.push(env.to_owned());
            }
        }
        Ok(found)
    }
}

/// Returns the full name of a relative include (`.install`, `..common`).
fn absolute(wanted: &str, place: Place, is_init: bool) -> Result<String, String> {
    let rest = wanted.trim_start_matches('.');
    let levels = wanted.len() - rest.len();
    let mut parts: Vec<&str> = place.sls.split('.').collect();
    // `init.sls` is named like its directory, so it is one level deeper than its name suggests.
    if is_init {
        parts.push("init");
    }
    if levels > parts.len() {
        return Err(format!(
            "Attempted relative include of '{wanted}' within SLS '{}:{}' goes beyond top level package ",
            place.saltenv, place.sls
        ));
    }
    parts.truncate(parts.len() - levels);
    parts.push(rest);
    Ok(parts.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_names_start_at_the_file() {
        let place = Place { sls: "web.server", saltenv: "base" };
        assert_eq!(absolute(".install", place, false).unwrap(), "web.install");
        assert_eq!(absolute("..common", place, false).unwrap(), "common");
        assert_eq!(absolute(".install", place, true).unwrap(), "web.server.install");
        assert_eq!(absolute("..install", place, true).unwrap(), "web.install");
        assert!(absolute("...x", place, false).unwrap_err().contains("goes beyond top level package"));
    }
}
