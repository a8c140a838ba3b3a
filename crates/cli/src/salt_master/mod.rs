//! `salt-master`: the master daemon.

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;

use auth::pam::{self, Keeper};
use daemon::Directories;
use master::{LocalKeys, Start};
use rt::Rt;
use value::Value;

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
    let (keys, keeper) = (Cell::new(None), Cell::new(None));
    let (for_keys, rt) = (config.clone(), Rt::real());
    let as_root = || {
        // Only root can give a key file to the user who is to read it.
        keys.set(Some(LocalKeys::prepare(&for_keys, &rt)));
        // Only root can check the passwords of all users of this host.
        keeper.set(keeper_of_pam(&for_keys));
    };
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
        before_switch: Some(&as_root),
    };
    daemons::run(&plan, |stop, ready| {
        let start = Start { config, keys: keys.take(), keeper: keeper.take(), catalogue: CATALOGUE };
        async move {
            master::run(start, Rt::real(), stop, ready).await?;
            Ok(Ended::Stopped)
        }
    })
}

/// Starts the process that starts helpers for PAM, if users can log in with it.
fn keeper_of_pam(config: &config::Master) -> Option<Keeper> {
    config.access.external_auth.get("pam")?;
    let service = match config.raw.get("auth.pam.service") {
        None | Some(Value::Null) => "login",
        Some(Value::Str(service)) if pam::is_service(service) => service,
        Some(_) => {
            // Another service than the one that was meant could let people in.
            tracing::error!("auth.pam.service: it must be the name of a file in /etc/pam.d");
            return None;
        }
    };
    if !pam::has_service(Path::new("/"), service) {
        tracing::warn!(
            "auth.pam.service: there is no service '{service}' in /etc/pam.d, so the rules of 'other' apply"
        );
    }
    let started = Keeper::start(service);
    started.inspect_err(|error| tracing::error!("failed to start the helper for PAM: {error}")).ok()
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
