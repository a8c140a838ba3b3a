//! The configuration of a remote.

use std::collections::BTreeMap;

use value::{Map, Value};

use crate::url::BareUrl;
use crate::{Error, Result, Role, Secret, url, values};

/// The types of references that can become environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefType {
    /// A branch.
    Branch,
    /// A tag.
    Tag,
    /// A commit.
    Sha,
}

impl RefType {
    const ALL: [(RefType, &'static str); 3] =
        [(RefType::Branch, "branch"), (RefType::Tag, "tag"), (RefType::Sha, "sha")];
}

/// Options of a single environment (`gitfs_saltenv`, or `saltenv` of a remote).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaltEnv {
    /// The mountpoint.
    pub mountpoint: Option<String>,
    /// The directory of the repository that is served.
    pub root: Option<String>,
    /// The branch, tag or commit.
    pub reference: Option<String>,
}

/// The credentials of a remote.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password for http.
    pub password: Secret,
    /// The file of the public key for ssh.
    pub pubkey: String,
    /// The file of the private key for ssh.
    pub privkey: String,
    /// The passphrase of the private key.
    pub passphrase: Secret,
    /// True if a password may be sent over `http`.
    pub insecure_auth: bool,
}

/// A remote with its options. The fields have the names of Salt's options.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its role.
    pub role: Role,
    /// The configured URL. It may contain a password, so use [`Remote::id`].
    pub(crate) raw_id: String,
    /// Its URL, without user and password.
    pub(crate) address: String,
    /// The branch of a pillar.
    pub branch: String,
    /// Its configured name, instead of one derived from the URL.
    pub name: Option<String>,
    /// The branch that is the environment `base`.
    pub base: String,
    /// The branch for every environment that has no branch.
    pub fallback: String,
    /// The mountpoint.
    pub mountpoint: String,
    /// The directory that is served.
    pub root: String,
    /// The environment of a pillar.
    pub env: String,
    /// True if certificates are checked.
    pub ssl_verify: bool,
    /// The environments that are served; all if empty.
    pub saltenv_whitelist: Vec<String>,
    /// Environments that are not served.
    pub saltenv_blacklist: Vec<String>,
    /// The refspecs to fetch.
    pub refspecs: Vec<String>,
    /// True if only configured environments are served.
    pub disable_saltenv_mapping: bool,
    /// The types of references that become environments, in the order of look-up.
    pub ref_types: Vec<RefType>,
    /// The interval between updates in seconds.
    pub update_interval: u64,
    /// The http proxy.
    pub proxy: String,
    /// The number of commits of each branch to fetch; all if `None`.
    pub depth: Option<u32>,
    /// The branch for every environment.
    pub all_saltenvs: Option<String>,
    /// Options of single environments of this remote.
    pub saltenv: BTreeMap<String, SaltEnv>,
    /// Options of single environments of all remotes.
    pub global_saltenv: BTreeMap<String, SaltEnv>,
    /// The credentials.
    pub login: Login,
}

const AUTH: [&str; 6] = ["user", "password", "pubkey", "privkey", "passphrase", "insecure_auth"];

impl Role {
    /// Options that a remote can have and that also have a value for all remotes.
    fn overrides(self) -> &'static [&'static str] {
        match self {
            Role::GitFs => &[
                "base",
                "fallback",
                "mountpoint",
                "root",
                "ssl_verify",
                "saltenv_whitelist",
                "saltenv_blacklist",
                "refspecs",
                "disable_saltenv_mapping",
                "ref_types",
                "update_interval",
                "proxy",
                "depth",
            ],
            Role::GitPillar => &[
                "base",
                "env",
                "root",
                "ssl_verify",
                "refspecs",
                "fallback",
                "proxy",
                "ref_types",
                "disable_saltenv_mapping",
                "depth",
            ],
        }
    }

    /// Options that only remotes have.
    fn only(self) -> &'static [&'static str] {
        match self {
            Role::GitFs => &["all_saltenvs", "name", "saltenv"],
            Role::GitPillar => &["name", "mountpoint", "all_saltenvs"],
        }
    }

    /// Returns the names of all options of a remote, in Salt's order.
    fn parameters(self) -> impl Iterator<Item = &'static str> {
        self.overrides().iter().chain(&AUTH).chain(self.only()).copied()
    }

    /// Builds the error of an invalid option.
    pub(crate) fn wrong(self, reason: impl Into<String>) -> Error {
        Error::Config { role: self, reason: reason.into() }
    }
}

/// Looks values up in the remote, then in the options for all remotes.
struct Chosen<'a> {
    role: Role,
    own: &'a Map,
    options: &'a Map,
}

impl Chosen<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.own.get(name) {
            return Some(value.clone());
        }
        let overridden = self.role.overrides().contains(&name) || AUTH.contains(&name) || name == "branch";
        let global = || self.options.get(&format!("{}_{name}", self.role)).filter(|value| !value.is_null()).cloned();
        overridden.then(global).flatten()
    }

    fn text(&self, name: &str) -> String {
        self.get(name).map(|value| values::text(&value)).unwrap_or_default()
    }

    fn some(&self, name: &str) -> Option<String> {
        self.own.get(name).map(values::text)
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let all = self.get(name).map(|value| values::texts(&value)).unwrap_or_default();
        all.into_iter().filter(|text| !text.is_empty()).collect()
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.truthy())
    }

    fn number(&self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        let number = values::number(&value);
        if number.is_none() {
            tracing::error!("Failed to enforce type for key={name} with val={value}, falling back to a string");
        }
        number
    }
}

impl Remote {
    /// Reads one entry of `gitfs_remotes`, or of `git` in `ext_pillar`. A URL that Salt rejects only causes a warning.
    ///
    /// # Errors
    /// If something in the entry is wrong, in Salt's words.
    pub fn read(role: Role, entry: &Value, options: &Map) -> Result<Option<Self>> {
        let (id, own) = match entry {
            // One entry with options: the URL is the key.
            Value::Map(map) => {
                let named = map.iter().map(|(key, own)| (values::text(key), own));
                match named.into_iter().find(|(id, _)| valid(id)) {
                    Some((id, own)) => (id, Some(own)),
                    None => return Ok(None),
                }
            }
            Value::Str(id) => (id.to_string(), None),
            other => (values::text(other), None),
        };
        if own.is_none() && !valid(&id) {
            return Ok(None);
        }
        let given = own.map(values::repack);
        let empty = Map::new();
        let chosen = Chosen { role, own: given.as_ref().unwrap_or(&empty), options };
        let remote = Self::from_chosen(id, &chosen)?;
        if let Some(given) = &given {
            remote.check_parameters(given)?;
        }
        remote.check_login()?;
        Ok(Some(remote))
    }

    fn from_chosen(id: String, chosen: &Chosen) -> Result<Self> {
        let role = chosen.role;
        let (branch, url) = match (role, id.split_once(char::is_whitespace)) {
            // Entries of `git_pillar` begin with the branch: `master https://…`.
            (Role::GitPillar, Some((branch, url))) => (branch.to_owned(), url.trim_start().to_owned()),
            _ => (chosen.text("branch"), id.clone()),
        };
        let BareUrl { url: address, user, password } = url::bare(&url);
        let mut login = Login {
            user: chosen.text("user"),
            password: Secret::new(chosen.text("password")),
            pubkey: chosen.text("pubkey"),
            privkey: chosen.text("privkey"),
            passphrase: Secret::new(chosen.text("passphrase")),
            insecure_auth: chosen.flag("insecure_auth"),
        };
        if let Some(user) = user {
            // Credentials in the URL were meant for it, and may be sent over http.
            login = Login { user, password: password.unwrap_or_default(), insecure_auth: true, ..login };
        }
        let mut remote = Remote {
            role,
            raw_id: id,
            address,
            branch,
            name: chosen.some("name"),
            base: chosen.text("base"),
            fallback: chosen.text("fallback"),
            mountpoint: values::strip_proto(&chosen.text("mountpoint")).trim_matches('/').to_owned(),
            root: chosen.text("root"),
            env: chosen.text("env"),
            // Certificates are checked unless that is switched off explicitly.
            ssl_verify: chosen.get("ssl_verify").is_none_or(|value| value.truthy()),
            saltenv_whitelist: chosen.texts("saltenv_whitelist"),
            saltenv_blacklist: chosen.texts("saltenv_blacklist"),
            refspecs: chosen.texts("refspecs"),
            disable_saltenv_mapping: chosen.flag("disable_saltenv_mapping"),
            ref_types: Vec::new(),
            update_interval: interval(chosen),
            proxy: chosen.text("proxy"),
            depth: depth(chosen),
            all_saltenvs: chosen.some("all_saltenvs"),
            saltenv: saltenvs(chosen.own.get("saltenv")),
            global_saltenv: BTreeMap::new(),
            login,
        };
        remote.ref_types = remote.read_ref_types(&chosen.texts("ref_types"))?;
        if role == Role::GitFs {
            let packed = chosen.options.get("gitfs_saltenv").filter(|value| value.truthy());
            remote.global_saltenv = saltenvs(packed.map(|value| values::repack(value).into()).as_ref());
            remote.let_base_win();
        }
        Ok(remote)
    }

    /// A `ref` for `base` among the environments of a remote is its `base`.
    fn let_base_win(&mut self) {
        let Some(reference) = self.saltenv.get_mut("base").and_then(|env| env.reference.take()) else { return };
        if reference != self.base {
            tracing::warn!(
                "The 'base' environment has been defined in the 'saltenv' param for {role} remote {} and will override the \
                 branch/tag specified by {role}_base (or a per-remote 'base' parameter).",
                self.id(),
                role = self.role,
            );
            self.base = reference;
        }
    }

    fn read_ref_types(&self, names: &[String]) -> Result<Vec<RefType>> {
        let find = |name: &String| RefType::ALL.iter().find(|(_, known)| *known == name.to_lowercase());
        let wrong: Vec<_> = names.iter().filter(|name| find(name).is_none()).map(|name| name.to_lowercase()).collect();
        if !wrong.is_empty() {
            return Err(self.role.wrong(format!(
                "The following ref_types for {} remote '{}' are invalid: {}. The supported values are: branch, tag, sha",
                self.role,
                self.id(),
                wrong.join(", ")
            )));
        }
        Ok(names.iter().filter_map(find).map(|(kind, _)| *kind).collect())
    }

    /// Returns the configured URL without the password.
    pub fn id(&self) -> String {
        url::hidden(&self.raw_id)
    }

    /// Returns the URL without the password.
    pub fn url(&self) -> String {
        let url = match (self.role, self.raw_id.split_once(char::is_whitespace)) {
            (Role::GitPillar, Some((_, url))) => url.trim_start(),
            _ => &self.raw_id,
        };
        url::hidden(url)
    }

    fn check_parameters(&self, given: &Map) -> Result<()> {
        let (role, id) = (self.role, self.id());
        if given.is_empty() {
            return Err(role.wrong(format!(
                "Invalid per-remote configuration for {role} remote '{id}'. If no per-remote parameters are being \
                 specified, there may be a trailing colon after the URL, which should be removed. Check the master \
                 configuration file."
            )));
        }
        if role == Role::GitPillar && self.branch != "__env__" && given.contains_key("base") {
            return Err(role.wrong(format!(
                "Invalid per-remote configuration for {role} remote '{id}'. base can only be specified if __env__ is \
                 specified as the branch name."
            )));
        }
        let unknown = given.text_keys().find(|name| !role.parameters().any(|known| known == *name));
        let Some(unknown) = unknown else { return Ok(()) };
        let valid = role.parameters().collect::<Vec<_>>().join(", ");
        let more = match role {
            Role::GitFs => " See the GitFS Walkthrough in the Salt documentation for further information.",
            Role::GitPillar => "",
        };
        Err(role.wrong(format!(
            "Invalid {role} configuration parameter '{unknown}' in remote '{id}'. Valid parameters are: {valid}.{more}"
        )))
    }

    fn check_login(&self) -> Result<()> {
        use url::Transport;
        let (role, id, login) = (self.role, self.id(), &self.login);
        let configured = [&login.user, &login.pubkey, &login.privkey].iter().any(|text| !text.is_empty())
            || !login.password.is_empty()
            || !login.passphrase.is_empty();
        if !configured {
            return Ok(());
        }
        match url::transport(&self.address) {
            // Salt does not check credentials of local repositories, which need none.
            Transport::Local => Ok(()),
            Transport::Other => {
                let kind = self.address.split("://").next().unwrap_or_default().to_lowercase();
                Err(role
                    .wrong(format!("Invalid configuration for {role} remote '{id}'. Unsupported transport '{kind}'.")))
            }
            Transport::Ssh => self.check_keys(),
            kind @ (Transport::Http | Transport::Https) => {
                let missing: Vec<_> = [("user", login.user.is_empty()), ("password", login.password.is_empty())]
                    .into_iter()
                    .filter_map(|(name, missing)| missing.then_some(name))
                    .collect();
                match missing.len() {
                    2 => Ok(()),
                    // The URL may contain a token as the user name alone.
                    1 if !login.insecure_auth || login.user.is_empty() => Err(role.wrong(format!(
                        "Incomplete authentication information for {role} remote '{id}'. Missing parameters: {}",
                        missing.join(", ")
                    ))),
                    _ if kind == Transport::Http && !login.insecure_auth => Err(role.wrong(format!(
                        "Invalid configuration for {role} remote '{id}'. Authentication is disabled by default on http \
                         remotes. Either set {role}_insecure_auth to True in the master configuration file, set a \
                         per-remote config option named 'insecure_auth' to True, or use https or ssh-based \
                         authentication."
                    ))),
                    _ if login.user.contains('\n') || login.password.reveal().contains('\n') => {
                        Err(role.wrong(format!("the user or password of {role} remote '{id}' has more than one line")))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    fn check_keys(&self) -> Result<()> {
        let (role, id, login) = (self.role, self.id(), &self.login);
        if login.privkey.is_empty() && login.pubkey.is_empty() && login.passphrase.is_empty() {
            return Ok(());
        }
        if !url::names_user(&self.address) {
            return Err(
                role.wrong(format!("Keypair specified for {role} remote '{id}', but remote URL is missing a username"))
            );
        }
        if login.privkey.is_empty() {
            return Err(role.wrong(format!(
                "Incomplete authentication information for {role} remote '{id}'. Missing parameters: privkey"
            )));
        }
        let keys = [("pubkey", &login.pubkey), ("privkey", &login.privkey)];
        for (kind, path) in keys.into_iter().filter(|(_, path)| !path.is_empty()) {
            if !std::path::Path::new(path).is_file() {
                return Err(role.wrong(format!(
                    "SSH {kind} ({path}) for {role} remote '{id}' could not be found, path may be incorrect. Note that it \
                     may be necessary to clear git_pillar locks to proceed once this is resolved and the master has been \
                     started back up. A warning will be logged if this is the case, with instructions."
                )));
            }
        }
        Ok(())
    }
}

fn valid(id: &str) -> bool {
    let valid = url::is_valid(id);
    if !valid {
        tracing::warn!("Found bad url data {}", value::python::repr_str(&url::hidden(id)));
    }
    valid
}

/// Returns the update interval. As in Salt, 0 means the default.
fn interval(chosen: &Chosen) -> u64 {
    const DEFAULT: u64 = 60;
    let number = match chosen.role {
        Role::GitFs => chosen.number("update_interval"),
        Role::GitPillar => chosen.options.get("git_pillar_update_interval").and_then(values::number),
    };
    number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0).unwrap_or(DEFAULT)
}

/// As in Salt, only the provider `gitcli` limits the depth for all remotes.
fn depth(chosen: &Chosen) -> Option<u32> {
    let provider = chosen.options.get(&format!("{}_provider", chosen.role)).map(values::text).unwrap_or_default();
    let limited = provider.eq_ignore_ascii_case("gitcli") || chosen.own.contains_key("depth");
    let depth = limited.then(|| chosen.number("depth")).flatten()?;
    u32::try_from(depth).ok().filter(|depth| *depth > 0)
}

fn saltenvs(value: Option<&Value>) -> BTreeMap<String, SaltEnv> {
    let Some(envs) = value.and_then(Value::as_map) else { return BTreeMap::new() };
    let read = |(env, own): (&Value, &Value)| {
        let own = own.as_map()?;
        let text = |name: &str| own.get(name).map(values::text);
        let mountpoint = text("mountpoint").map(|path| values::strip_proto(&path).to_owned());
        Some((values::text(env), SaltEnv { mountpoint, root: text("root"), reference: text("ref") }))
    };
    envs.iter().filter_map(read).collect()
}
