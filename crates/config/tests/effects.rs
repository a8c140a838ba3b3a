//! The table of options against the code that reads them.
//!
//! The code is read as tokens, without comments, documentation and tests, so that neither a mention nor a test counts as a
//! reader. What is found is each text literal, and each name that is used as a field.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use saltern_config::Role;
use saltern_config::effects::{self, Effect};
use value::Value;

/// The options that code reads.
#[derive(Default)]
struct Read {
    literals: BTreeSet<String>,
    fields: BTreeSet<String>,
}

/// Words that code uses for other things than the option of that name, or only in messages about unsupported options.
const COMMON: &[&str] = &[
    "cluster_mode",
    "discovery",
    "engines",
    "features",
    "grains_dirs",
    // Only the master's cache has a memory.
    "memcache_expire_seconds",
    "memcache_max_items",
    "module_dirs",
    "multiprocessing",
    "outputter_dirs",
    "password",
    "proxy",
    "reactor",
    "render_dirs",
    "rest_tornado",
    "rest_wsgi",
    "returner_dirs",
    "roster",
    "runner_dirs",
    "search",
    "states_dirs",
    "sudo_user",
    "tracing",
    "username",
    "vault",
];

/// Options that only programs beside a master read.
const OF_MASTER: &[&str] =
    &["api_logfile", "api_pidfile", "netapi_enable_clients", "publisher_acl", "rest_cherrypy", "rest_timeout"];

impl Read {
    fn stream(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut place = 0;
        while let Some(token) = tokens.get(place) {
            place += 1;
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    let Some(TokenTree::Group(attribute)) = tokens.get(place) else { continue };
                    if attribute.delimiter() != Delimiter::Bracket {
                        continue;
                    }
                    place += 1;
                    if attribute.stream().to_string().replace(' ', "").contains("cfg(test)") {
                        // Tests mention options that no code reads.
                        place = end_of_item(&tokens, place);
                    }
                }
                // A method of the same name is not a reader of a field.
                TokenTree::Punct(mark) if mark.as_char() == '.' => {
                    let call = matches!(tokens.get(place + 1), Some(TokenTree::Group(group))
                        if group.delimiter() == Delimiter::Parenthesis);
                    if let (Some(TokenTree::Ident(name)), false) = (tokens.get(place), call) {
                        self.fields.insert(name.to_string());
                    }
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if let Some(text) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                        self.literals.insert(text.to_owned());
                    }
                }
                TokenTree::Group(group) => self.stream(group.stream()),
                _ => {}
            }
        }
    }

    fn folder(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let test = stem.ends_with("tests")
                || stem.starts_with("testing")
                || stem.starts_with("replay")
                || stem == "recorded";
            if path.is_dir() && !test {
                self.folder(&path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !test
                && !path.ends_with("config/src/effects.rs")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                self.stream(text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display())));
            }
        }
    }
}

/// The place after the item that an attribute stands before.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    };
    tokens[from..].iter().position(ends).map_or(tokens.len(), |length| from + length + 1)
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns the options that the crates read: `config` by itself, and all others. The swarm is not a minion.
fn read() -> (Read, Read) {
    let (mut own, mut others) = (Read::default(), Read::default());
    for entry in std::fs::read_dir(crates()).unwrap().flatten() {
        let name = entry.file_name();
        // `share` names options that it does not compare, and reads none.
        if name == "swarm" || name == "share" {
            continue;
        }
        let read = if name == "config" { &mut own } else { &mut others };
        read.folder(&entry.path().join("src"));
    }
    (own, others)
}

/// Options of repositories are looked up by their names without the prefix.
fn asked_with_prefix(name: &str, literals: &BTreeSet<String>) -> bool {
    ["gitfs_", "git_pillar_"].iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| literals.contains(rest)))
}

#[test]
fn the_effects_agree_with_the_options_that_the_code_reads() {
    let (own, others) = read();
    let typed = saltern_config::typed_fields();
    let mut wrong = Vec::new();
    for (field, option) in &typed {
        if !others.fields.contains(*field) && !own.fields.contains(*field) {
            wrong.push(format!("the field '{field}' ({option}) is read from the configuration and used by nobody"));
        }
    }
    for role in [Role::Master, Role::Minion] {
        for (name, effect) in effects::all(role) {
            let is_typed = typed.iter().any(|(_, option)| *option == name);
            let literal = others.literals.contains(name) || asked_with_prefix(name, &others.literals);
            match effect {
                Effect::Obeyed if !is_typed && !literal && !own.literals.contains(name) => {
                    wrong.push(format!("{role:?} option '{name}' is said to be obeyed and nothing reads it"));
                }
                Effect::None(_) | Effect::Refused(_)
                    if !COMMON.contains(&name)
                        && (role == Role::Master || !OF_MASTER.contains(&name))
                        && others.literals.contains(name) =>
                {
                    wrong.push(format!("{role:?} option '{name}' is said to have no effect and something reads it"));
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_options_page_is_current() {
    let path = crates().parent().unwrap().join("docs/options.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == effects::page(), "{} is stale: its second paragraph says how it is written", path.display());
}

fn loaded(role: Role, text: &str) -> (Result<(), String>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(role.name());
    std::fs::write(&path, text).unwrap();
    // Secrets that everybody can read are reported.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (source, load) = (saltern_config::Source { path: path.clone() }, saltern_config::LoadOptions::default());
    let short = |text: String| text.replace(path.to_str().unwrap(), "FILE");
    let (refused, lines) = match role {
        Role::Master => {
            let config = saltern_config::Master::load(&source, &load).unwrap();
            (config.refuse_unsupported(), [config.ineffective(), config.warnings].concat())
        }
        Role::Minion => {
            let config = saltern_config::Minion::load(&source, &load).unwrap();
            (config.refuse_unsupported(), [config.ineffective(), config.warnings].concat())
        }
    };
    (refused.map_err(|error| short(error.to_string())), lines.into_iter().map(short).collect())
}

#[test]
fn a_file_with_a_secret_of_the_set_is_reported_if_everybody_can_read_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master");
    std::fs::write(&path, "id: a\ncluster_id: set\ncluster_secret: correct horse battery\n").unwrap();
    let lines = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let source = saltern_config::Source { path: path.clone() };
        let config = saltern_config::Master::load(&source, &saltern_config::LoadOptions::default()).unwrap();
        config.ineffective().into_iter().filter(|line| line.contains("every user")).collect::<Vec<_>>()
    };
    assert_eq!(lines(0o640), [""; 0]);
    let file = path.display();
    assert_eq!(
        lines(0o644),
        [format!("config: {file}:3: every user of this host can read 'cluster_secret': chmod 600 {file}")]
    );
}

#[test]
fn configured_options_without_effect_are_reported() {
    let text = "id: a\nrest_tornado: {port: 8000}\nsyndic_master: above\nthoriumenv:\nmy_own: 1\n";
    let (refused, lines) = loaded(Role::Master, text);
    assert_eq!(refused, Ok(()));
    assert_eq!(
        lines,
        [
            "config: FILE:2: option 'rest_tornado' has no effect: salt-api serves only what rest_cherrypy says",
            "config: FILE:3: option 'syndic_master' has no effect: there is no salt-syndic",
        ]
    );
    let (_, lines) = loaded(
        Role::Minion,
        "id: a\nmultiprocessing: false\nmodule_dirs: [/srv/m]\nengines: []\ncluster_mode: false\n",
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[1].ends_with("FILE:3: option 'module_dirs' has no effect: Saltern does not run Python yet"),
        "{lines:?}"
    );
}

#[test]
fn restrictions_that_cannot_be_enforced_stop_the_start() {
    let refusal = |name: &str, line: u32, why: &str| {
        Err(format!(
            "config: FILE:{line}: option '{name}' is not supported ({why}); it restricts access, so nothing starts until it \
             is removed"
        ))
    };
    let (refused, _) = loaded(Role::Minion, "id: a\ndisable_renders: [jinja]\n");
    assert_eq!(refused, refusal("disable_renders", 2, "plug-ins of this kind cannot be disabled"));
    let (refused, _) = loaded(Role::Minion, "sudo_user: ops\nid: a\n");
    assert_eq!(refused, refusal("sudo_user", 1, "running commands through sudo as another user is not supported"));
    let (refused, _) = loaded(Role::Master, "disable_auths: [pam]\nid: a\n");
    assert!(refused.is_err());
    for empty in ["sudo_user: ''", "disable_renders: []"] {
        assert_eq!(loaded(Role::Minion, &format!("id: a\n{empty}\n")).0, Ok(()), "{empty} forbids nothing");
    }
}

#[test]
fn a_reader_names_the_options_by_which_other_masters_decide_about_keys() {
    let reader = "id: a\ncluster_id: prod\ncluster_secret: a text that is long enough\ncluster_role: reader\n";
    let (refused, lines) = loaded(Role::Master, &format!("{reader}auto_accept: True\nopen_mode: False\n"));
    let line =
        "config: FILE:5: option 'auto_accept' has no effect on a reader ('cluster_role'), which decides about no key";
    assert_eq!((refused, lines), (Ok(()), vec![line.to_owned()]));
}

#[test]
fn options_of_links_are_named_beside_a_bus() {
    let set = "id: a\ncluster_id: prod\ncluster_bus: nats://n1\n";
    for option in ["cluster_pool_port: 4600", "cluster_addresses: [m1]"] {
        let name = option.split(':').next().unwrap();
        let (refused, lines) = loaded(Role::Master, &format!("{set}{option}\n"));
        assert_eq!(refused, Ok(()), "{name}");
        assert_eq!(lines, [format!("config: FILE:4: option '{name}' has no effect with 'cluster_bus'")]);
    }
}

#[test]
fn options_of_a_set_are_named_where_there_is_none() {
    for option in [
        "cluster_return_copies: 2",
        "cluster_heartbeat: 1",
        "cluster_pool_port: 4600",
        "cluster_secret: a text that is long enough",
    ] {
        let name = option.split(':').next().unwrap();
        let (refused, lines) = loaded(Role::Master, &format!("id: a\n{option}\n"));
        assert_eq!(refused, Ok(()), "{name}");
        assert!(lines[0].starts_with(&format!("config: FILE:2: option '{name}' has no effect")), "{lines:?}");
        assert_eq!(lines.len(), 1, "{lines:?}");
        let (_, lines) = loaded(Role::Minion, &format!("id: a\n{option}\n"));
        assert!(lines.iter().all(|line| !line.contains("'cluster_id'")), "{lines:?}");
    }
    let (_, lines) = loaded(Role::Master, "id: a\ncluster_peers: [m2]\ncluster_pki_dir: /p\n");
    for salts in [
        "Cluster peers defined without a cluster_id, ignoring.",
        "Cluster pki dir defined without a cluster_id, ignoring.",
    ] {
        assert!(lines.iter().any(|line| line == salts), "{lines:?}");
    }
}

#[test]
fn a_set_without_peers_and_secret_waits_for_others() {
    let (_, lines) = loaded(Role::Master, "id: a\ncluster_id: prod\n");
    let waits = "config: FILE:2: option 'cluster_id' is set without 'cluster_peers' and 'cluster_secret': this master waits for \
                 other masters to connect to it";
    assert!(lines.iter().any(|line| line == waits), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("pki")), "its keys being in pki_dir is normal: {lines:?}");
    let (_, lines) = loaded(Role::Master, "id: a\ncluster_id: prod\ncluster_peers: [m2]\n");
    assert!(!lines.iter().any(|line| line.contains("waits")), "{lines:?}");
}

#[test]
fn the_old_name_of_publisher_acl_works_with_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master");
    let source = saltern_config::Source { path: path.clone() };
    let load = || saltern_config::Master::load(&source, &saltern_config::LoadOptions::default());
    std::fs::write(&path, "id: a\nclient_acl: {fred: [test.*]}\nclient_acl_blacklist: {users: [root]}\n").unwrap();
    let config = load().unwrap();
    assert_eq!(Value::from(config.access.publisher_acl).to_string(), "{'fred': ['test.*']}");
    assert_eq!(Value::from(config.access.publisher_acl_blacklist).to_string(), "{'users': ['root']}");
    assert_eq!(config.warnings.len(), 2, "{:?}", config.warnings);
    std::fs::write(&path, "id: a\nclient_acl: {fred: [test.*]}\npublisher_acl: {eve: ['.*']}\n").unwrap();
    let error = load().err().unwrap().to_string();
    assert!(error.contains("master:2: option 'client_acl'") && error.contains("'publisher_acl'"), "{error}");
}
