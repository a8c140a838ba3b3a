//! The arguments of a state that the engine takes for itself.

/// Kinds of requisites, in the order in which they weigh when the order of states is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Runs when the other failed.
    Onfail,
    /// The same, when one of several failed.
    OnfailAny,
    /// The same, when all of several failed.
    OnfailAll,
    /// Runs after the other, if that did not fail.
    Require,
    /// The same, if one of several did not fail.
    RequireAny,
    /// Runs when the other changed something.
    Onchanges,
    /// The same, when one of several changed something.
    OnchangesAny,
    /// Requires the other, and reacts to its changes.
    Watch,
    /// The same with one of several.
    WatchAny,
    /// Runs before the other, if that is going to change something.
    Prereq,
    /// The other end of `prereq`.
    Prerequired,
    /// Reacts to changes of the other at the end of the run.
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

    /// Those that tie one chunk to another, in the order in which they are looked at.
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

    /// Returns the word in SLS files.
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

    /// Returns the kind without `_any` and `_all`.
    pub fn base(self) -> Kind {
        match self {
            Kind::OnfailAny | Kind::OnfailAll => Kind::Onfail,
            Kind::RequireAny => Kind::Require,
            Kind::OnchangesAny => Kind::Onchanges,
            Kind::WatchAny => Kind::Watch,
            other => other,
        }
    }

    /// Returns how much it weighs.
    pub fn weight(self) -> i32 {
        self as i32
    }
}

/// Says whether an argument is a requisite that must be a list of references.
pub fn is_requisite(word: &str) -> bool {
    word == "onfail_stop" || Kind::ALL.iter().any(|kind| kind.word() == word)
}

/// Requisites that are declared at the other end.
pub const REQUISITES_IN: [&str; 6] = ["onchanges_in", "onfail_in", "prereq_in", "watch_in", "require_in", "listen_in"];

/// Further arguments that the engine takes for itself.
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

/// Says whether the engine takes an argument for itself, so that it is no surplus of the function's.
pub fn is_internal(word: &str) -> bool {
    is_requisite(word) || REQUISITES_IN.contains(&word) || RUNTIME.contains(&word)
}
