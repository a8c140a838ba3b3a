//! Salt's returners, which store returns and events besides the master: one file or directory each.
//!
//! [`find`] finds one by name. [`give`] is called by a minion for a return, [`Returner::events`] by a master for the events of
//! `event_return`, and [`JobStore`] makes a returner a job cache (`ext_job_cache`, `master_job_cache`). [`Options`] looks options
//! up as Salt's `get_returner_options` does.

mod error;
mod give;
mod local;
mod local_cache;
mod multi_returner;
mod options;
mod postgres;
mod rawfile_json;
mod redis;
mod smtp;
mod syslog;
#[cfg(test)]
mod testing;
mod world;

use futures_util::future::BoxFuture;
use value::{Map, Value};

pub use error::Error;
pub use give::{give, names, returned};
pub use options::Options;
pub use world::World;

/// The result of a returner.
pub type Result<T> = std::result::Result<T, Error>;

/// A store of returns.
pub trait Returner: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its other names.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Stores one return. Waits at most for the timeouts of the server.
    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>>;

    /// Stores events, each a map of `tag` and `data`; `None` if it cannot.
    fn events<'a>(&'a self, world: &'a World, events: &'a [Value]) -> Option<BoxFuture<'a, Result<()>>> {
        let _ = (world, events);
        None
    }

    /// The job cache in this store; `None` if it has none.
    fn jobs(&self) -> Option<&dyn JobStore> {
        None
    }
}

/// A returner that also stores jobs.
pub trait JobStore: Send + Sync {
    /// Stores the publication of a job.
    fn save_load<'a>(&'a self, world: &'a World, jid: &'a str, load: &'a Map) -> BoxFuture<'a, Result<()>>;

    /// Returns the publication of a job.
    fn load<'a>(&'a self, world: &'a World, jid: &'a str) -> BoxFuture<'a, Result<Option<Map>>>;

    /// Returns the returns of a job, each with all its stored fields.
    fn returns<'a>(&'a self, world: &'a World, jid: &'a str) -> BoxFuture<'a, Result<Map>>;

    /// Returns all jobs: ids and publications.
    fn all<'a>(&'a self, world: &'a World) -> BoxFuture<'a, Result<Vec<(String, Map)>>>;

    /// Removes what is older than `keep_jobs_seconds`.
    fn clean<'a>(&'a self, world: &'a World) -> BoxFuture<'a, Result<()>>;
}

/// All returners.
static ALL: [&dyn Returner; 9] = [
    &local::Local,
    &local_cache::LocalCache,
    &multi_returner::Multi,
    &postgres::Pgjsonb,
    &postgres::Postgres,
    &rawfile_json::RawfileJson,
    &redis::Redis,
    &smtp::Smtp,
    &syslog::Syslog,
];

/// Finds a returner by its name, unless `disable_returners` names it.
///
/// # Errors
/// If there is none, in Salt's words.
pub fn find(world: &World, name: &str) -> Result<&'static dyn Returner> {
    let named = |returner: &&&dyn Returner| returner.name() == name || returner.aliases().contains(&name);
    let disabled = world.opts().get("disable_returners").and_then(Value::as_list).unwrap_or_default();
    let enabled = |returner: &&&dyn Returner| {
        let names = || std::iter::once(returner.name()).chain(returner.aliases().iter().copied());
        // An operator who disables a returner means it under all of its names.
        !disabled.iter().filter_map(Value::as_str).any(|entry| names().any(|name| name == entry))
    };
    let found = ALL.iter().find(named).filter(enabled);
    found.copied().ok_or_else(|| {
        let folders = exec::python::Folders::of(world.opts(), exec::python::Kind::Returners);
        Error::Unknown { name: name.to_owned(), hint: folders.hint(name) }
    })
}

/// Returns whether there is a returner of this name.
pub fn exists(name: &str) -> bool {
    ALL.iter().any(|returner| returner.name() == name || returner.aliases().contains(&name))
}

/// Returns the names of all returners.
pub fn all_names() -> Vec<&'static str> {
    ALL.iter().map(|returner| returner.name()).collect()
}

/// Formats JSON like Salt's returners.
fn json(value: &Value) -> Result<String> {
    python::json::dumps(value, &python::json::Style::default()).map_err(Error::Failed)
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn returners_are_found_by_their_names_unless_they_are_disabled() {
        let world = testing::world(map! { "disable_returners" => list!["redis"] });
        assert_eq!(find(&world, "smtp_return").unwrap().name(), "smtp");
        assert_eq!(find(&world, "redis").err().unwrap().to_string(), "'redis.returner' is not available.");
        let world = testing::world(map! { "disable_returners" => list!["smtp"] });
        assert!(find(&world, "smtp_return").is_err(), "another name is no way around");
        assert_eq!(find(&world, "mysql").err().unwrap().to_string(), "'mysql.returner' is not available.");
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pigeon.py").display().to_string();
        std::fs::write(&file, "").unwrap();
        let world = testing::world(map! { "returner_dirs" => list![place.path().display().to_string()] });
        let expected = format!(
            "'pigeon.returner' is not available. pigeon is a custom Python module ({file}); Saltern does not run Python \
             yet."
        );
        assert_eq!(find(&world, "pigeon").err().unwrap().to_string(), expected);
        let mut names = all_names();
        names.sort_unstable();
        assert_eq!(names, all_names());
    }
}
