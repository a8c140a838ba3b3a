//! The limit of open files: every minion needs a connection or two.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the requested value, or as far as the system allows. As in Salt, it is logged.
pub fn raise_open_files(wanted: u64) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    // Without a hard limit Salt takes the soft one for the highest value.
    let top = if hard == RLIM_INFINITY { soft } else { hard };
    tracing::info!(target: "salt.master", "Current values for max open files soft/hard setting: {soft}/{top}");
    let mut goal = wanted;
    if wanted > top {
        tracing::info!(
            target: "salt.master",
            "The value for the 'max_open_files' setting, {wanted}, is higher than the highest value the user running \
             salt is allowed to set ({top}). Defaulting to {top}."
        );
        goal = top;
    }
    if soft >= goal {
        return;
    }
    tracing::info!(target: "salt.master", "Raising max open files value to {goal}");
    match setrlimit(Resource::RLIMIT_NOFILE, goal, hard) {
        Ok(()) => {
            tracing::info!(target: "salt.master", "New values for max open files soft/hard values: {goal}/{top}");
        }
        Err(error) => tracing::error!(
            target: "salt.master",
            critical = true,
            "Failed to raise max open files setting to {goal} ({error}). If this value is too low, the salt-master \
             will most likely fail to run properly."
        ),
    }
}

/// Logs a warning if the number of accepted keys is too high for the limit of open files.
///
/// As in Salt, this is repeated at each `loop_interval`: keys are accepted while the master runs.
pub fn check_open_files(accepted: u64, wanted: u64) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    tracing::debug!(target: "salt.utils.verify", "This salt-master instance has accepted {accepted} minion keys.");
    match advice(accepted, wanted, soft, hard) {
        None => {}
        Some((Severity::Info, text)) => tracing::info!(target: "salt.utils.verify", "{text}"),
        Some((Severity::Warning, text)) => tracing::warn!(target: "salt.utils.verify", "{text}"),
        Some((Severity::Critical, text)) => tracing::error!(target: "salt.utils.verify", critical = true, "{text}"),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Severity {
    Info,
    Warning,
    Critical,
}

fn advice(accepted: u64, wanted: u64, soft: u64, hard: u64) -> Option<(Severity, String)> {
    let times = |factor: u64| accepted.saturating_mul(factor);
    if times(4) <= soft {
        return None;
    }
    let mut text = format!(
        "The number of accepted minion keys({accepted}) should be lower than 1/4 of the max open files soft \
         setting({soft}). "
    );
    let gravity = if times(2) >= soft {
        Severity::Critical
    } else if times(3) >= soft {
        Severity::Warning
    } else {
        Severity::Info
    };
    if accepted >= soft {
        text.push_str("salt-master will crash pretty soon! ");
    }
    // Without a hard limit there is no number to name.
    if wanted < hard && hard != RLIM_INFINITY {
        text.push_str(&format!(
            "According to the system's hard limit, there's still a margin of {} to raise the salt's max_open_files \
             setting. ",
            hard - wanted
        ));
    }
    Some((gravity, text + "Please consider raising this value."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_keys_cause_increasing_warnings() {
        assert_eq!(advice(100, 1000, 400, 1000), None);
        assert_eq!(advice(110, 1000, 400, 1000).unwrap().0, Severity::Info);
        assert_eq!(advice(140, 1000, 400, 1000).unwrap().0, Severity::Warning);
        let (gravity, text) = advice(400, 900, 400, 1000).unwrap();
        assert_eq!(gravity, Severity::Critical);
        assert!(!advice(400, 900, 400, RLIM_INFINITY).unwrap().1.contains("margin"), "an endless margin is no advice");
        for part in ["keys(400)", "setting(400)", "crash pretty soon!", "margin of 100", "consider raising"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_limit_is_raised_as_far_as_allowed() {
        raise_open_files(u64::MAX);
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(soft == hard || hard == RLIM_INFINITY);
    }
}
