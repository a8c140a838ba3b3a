//! The arguments of a state that the engine itself interprets.

/// Kinds of requisites, in order of their weight when chunks are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Runs if the other state failed.
    Onfail,
    /// Runs if at least one of several states failed.
    OnfailAny,
    /// Runs if all of several states failed.
    OnfailAll,
    /// Runs after the other state if that did not fail.
    Require,
    /// Runs if at least one of several states did not fail.
    RequireAny,
    /// Runs if the other state made changes.
    Onchanges,
    /// Runs if at least one of several states made changes.
    OnchangesAny,
    /// Requires the other state, and reacts to its changes with `mod_watch`.
    Watch,
    /// Requires one of several states, and reacts to the changes of any.
    WatchAny,
    /// Runs before the other state if that is going to make changes.
    Prereq,
    /// The reverse of `prereq`.
    Prerequired,
    /// Reacts to changes of the other state at the end of the run.
    Listen,
}

impl Kind {
    /// All kinds, by weight.
    pub const ALL: [Kind; 12] = [
        Kind::Onfail,
        Kind::OnfailAny,
        Kind::OnfailAll,
        Kind::Require,
        Kind::RequireAny,
        Kind::Onchanges,
        Kind::OnchangesAny,
        Kind::Watch,
        Kind::WatchAny,
        Kind::Prereq,
        Kind::Prerequired,
        Kind::Listen,
    ];

    /// The kinds that create edges between chunks, in the order in which they are resolved.
    pub const TIES: [Kind; 10] = [
        Kind::Require,
        Kind::RequireAny,
        Kind::Watch,
        Kind::WatchAny,
        Kind::Prereq,
        Kind::Onfail,
        Kind::OnfailAny,
        Kind::OnfailAll,
        Kind::Onchanges,
        Kind::OnchangesAny,
    ];

    /// Returns the keyword in SLS files.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Onfail => "onfail",
            Kind::OnfailAny => "onfail_any",
            Kind::OnfailAll => "onfail_all",
            Kind::Require => "require",
            Kind::RequireAny => "require_any",
            Kind::Onchanges => "onchanges",
            Kind::OnchangesAny => "onchanges_any",
            Kind::Watch => "watch",
            Kind::WatchAny => "watch_any",
            Kind::Prereq => "prereq",
            Kind::Prerequired => "prerequired",
            Kind::Listen => "listen",
        }
    }

    /// Returns the kind without the suffix `_any` or `_all`.
    pub fn base(self) -> Kind {
        match self {
            Kind::OnfailAny | Kind::OnfailAll => Kind::Onfail,
            Kind::RequireAny => Kind::Require,
            Kind::OnchangesAny => Kind::Onchanges,
            Kind::WatchAny => Kind::Watch,
            other => other,
        }
    }

    /// Returns the weight used to order chunks.
    pub fn weight(self) -> i32 {
        // The weight is the position in the declaration of `Kind`.
        self as i32
    }
}

/// Returns whether an argument is a requisite and so must be a list of references.
pub fn is_requisite(word: &str) -> bool {
    word == "onfail_stop" || Kind::ALL.iter().any(|kind| kind.word() == word)
}

/// Requisites in their `*_in` form.
pub const REQUISITES_IN: [&str; 6] = ["onchanges_in", "onfail_in", "prereq_in", "watch_in", "require_in", "listen_in"];

/// Other arguments that the engine itself interprets.
const RUNTIME: [&str; 45] = [
    "fun",
    "state",
    "check_cmd",
    "cmd_opts_exclude",
    "failhard",
    "onlyif",
    "unless",
    "creates",
    "retry",
    "order",
    "parallel",
    "prereq",
    "prereq_in",
    "reload_modules",
    "reload_grains",
    "reload_pillar",
    "runas",
    "runas_password",
    "no_log",
    "fire_event",
    "saltenv",
    "umask",
    "use",
    "use_in",
    "__env__",
    "__sls__",
    "__id__",
    "__sls_included_from__",
    "__orchestration_jid__",
    "__pub_user",
    "__pub_arg",
    "__pub_jid",
    "__pub_fun",
    "__pub_tgt",
    "__pub_ret",
    "__pub_pid",
    "__pub_tgt_type",
    "__pub_resource_targets",
    "__pub_minion_is_target",
    "__pub_resource_target",
    "__pub_resource_job",
    "__pub_pure_resource_target",
    "__prereq__",
    "__prerequiring__",
    "__umask__",
];

/// Returns whether the engine interprets an argument, so that the function need not accept it.
pub fn is_internal(word: &str) -> bool {
    is_requisite(word) || REQUISITES_IN.contains(&word) || RUNTIME.contains(&word)
}

/// Returns the arguments that an author of states may give to any state.
pub fn public() -> impl Iterator<Item = &'static str> {
    let runtime = RUNTIME.into_iter().filter(|word| !word.starts_with("__") && !["fun", "state"].contains(word));
    Kind::ALL.into_iter().map(Kind::word).chain(REQUISITES_IN).chain(runtime)
}
