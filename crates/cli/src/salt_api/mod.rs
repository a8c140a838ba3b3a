//! `salt-api`: the HTTP interface of the master on this host.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use rt::Rt;
use value::Map;

use crate::args::{Parsed, Program};
use crate::daemons::{self, Ended, Plan};
use crate::prepare::{self, OnMaster};

/// The number of threads. Requests wait for the master most of the time.
const THREADS: usize = 2;

/// The files that may be open: each client holds a connection.
const OPEN_FILES: u64 = 8192;

const LOG_FILE: &str = "/var/log/salt/api";
const PID_FILE: &str = "/var/run/salt-api.pid";

/// Runs the program.
pub fn main(parsed: Parsed) -> ExitCode {
    let OnMaster { config, options, .. } = match prepare::on_master(Program::SaltApi, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    let (user, paths) = (config.user.clone(), config.paths.clone());
    // The master logs all that is odd in its configuration. A misspelt option may close what it should open here.
    let warnings = config.warnings.clone();
    let mut log = config.log.clone();
    log.log_file = file(&options, "api_logfile", LOG_FILE).display().to_string();
    let pidfile = file(&options, "api_pidfile", PID_FILE);
    let plan = Plan {
        program: Program::SaltApi,
        word: "API",
        options: &options,
        conf_file: &paths.conf_file,
        log: &log,
        warnings: &warnings,
        user: &user,
        pidfile: &pidfile,
        directories: None,
        open_files: Some(OPEN_FILES),
        threads: THREADS,
        before_switch: None,
    };
    daemons::run(&plan, |stop, ready| serve(config, stop, ready))
}

async fn serve(
    config: config::Master,
    stop: tokio_util::sync::CancellationToken,
    ready: daemons::Ready,
) -> Result<Ended> {
    netapi::run(&config, Rt::real(), stop, |address| {
        ready(Arc::new(move || format!("listening on {address}\n")));
    })
    .await?;
    Ok(Ended::Stopped)
}

/// Returns the path in an option. The default, and what is not absolute, is below `root_dir`.
fn file(options: &Map, name: &str, default: &str) -> PathBuf {
    let root = Path::new(options.get_str("root_dir").filter(|root| !root.is_empty()).unwrap_or("/"));
    match options.get_str(name).filter(|path| !path.is_empty() && *path != default) {
        // `join` keeps an absolute path.
        Some(path) => root.join(path),
        None => root.join(default.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn files_are_below_the_root_directory() {
        let file = |options: Map| file(&options, "api_pidfile", PID_FILE);
        assert_eq!(file(Map::new()), Path::new(PID_FILE));
        assert_eq!(file(map! { "root_dir" => "/x", "api_pidfile" => PID_FILE }), Path::new("/x/var/run/salt-api.pid"));
        assert_eq!(file(map! { "root_dir" => "/x", "api_pidfile" => "/y/pid" }), Path::new("/y/pid"));
        assert_eq!(file(map! { "root_dir" => "/x", "api_pidfile" => "pid" }), Path::new("/x/pid"));
    }
}
