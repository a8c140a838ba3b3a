//! `salt-master`: the master daemon.

use std::cell::Cell;
use std::process::ExitCode;

use daemon::Directories;
use master::{LocalKeys, Start};
use rt::Rt;

use crate::args::{Parsed, Program};
use crate::catalogue::CATALOGUE;
use crate::daemons::{self, Ended, Plan};
use crate::prepare::{self, OnMaster};

/// The largest number of threads for connections; disk work has separate threads.
const MOST_THREADS: usize = 4;

/// Runs the program.
pub fn main(parsed: Parsed) -> ExitCode {
    let OnMaster { config, options, .. } = match prepare::on_master(Program::SaltMaster, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    let (log, user, paths) = (config.log.clone(), config.user.clone(), config.paths.clone());
    let mut warnings = config.warnings.clone();
    warnings.extend(config.ineffective());
    warnings.extend(exec::python::warnings(&config.raw, &exec::python::Kind::OF_MASTER));
    let keys = Cell::new(None);
    let (for_keys, rt) = (config.clone(), Rt::real());
    // Only root can give a key file to the user who is to read it.
    let make_keys = || keys.set(Some(LocalKeys::prepare(&for_keys, &rt)));
    let plan = Plan {
        program: Program::SaltMaster,
        word: "Master",
        options: &options,
        conf_file: &paths.conf_file,
        log: &log,
        warnings: &warnings,
        user: &user,
        pidfile: &paths.pidfile,
        directories: paths.verify_env.then(|| directories(&config)),
        open_files: Some(config.network.max_open_files),
        // At least two, so that one slow request does not delay all others.
        threads: std::thread::available_parallelism().map_or(2, usize::from).clamp(2, MOST_THREADS),
        before_switch: Some(&make_keys),
    };
    daemons::run(&plan, |stop, ready| {
        let start = Start { config, keys: keys.take(), catalogue: CATALOGUE };
        async move {
            master::run(start, Rt::real(), stop, ready).await?;
            Ok(Ended::Stopped)
        }
    })
}

fn directories(config: &config::Master) -> Directories {
    let paths = &config.paths;
    let below_keys = ["minions", "minions_pre", "minions_denied", "minions_autosign", "minions_rejected"];
    let below_cache = ["jobs", "proc"];
    let mut all = vec![paths.pki_dir.clone()];
    all.extend(below_keys.map(|name| paths.pki_dir.join(name)));
    all.push(paths.cachedir.clone());
    all.extend(below_cache.map(|name| paths.cachedir.join(name)));
    all.extend([paths.sock_dir.clone(), paths.token_dir.clone(), paths.syndic_dir.clone()]);
    Directories {
        all,
        keys: vec![paths.pki_dir.clone()],
        user: config.user.clone(),
        permissive: paths.permissive_pki_access,
    }
}
