//! What `salt-key` and the wheel functions `key.*` do. Results have the shapes of Salt's.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crypto::{HashType, PrivateKey, PublicKey, RsaError, Signature, clean_key, pem_finger};
use targeting::Glob;
use tracing::error;
use value::{Map, Value, map};
use wire::MinionId;
use wire::msgpack::{self, Packing};

use crate::atomic::{self, Manner, Owner};
use crate::master_keys::sign_public_key;
use crate::{Bank, KeyError, KeyState, KeyStore, MasterKeyOptions, PairOptions, PairPath, request_rotation};

/// Says so when a file holds no key. Returns whether that is so.
fn report_corrupt(path: &Path, text: &str) -> bool {
    let corrupt = PublicKey::from_pem(text.as_bytes()).is_err();
    if corrupt {
        error!("{} holds no RSA public key: the minion cannot sign in until it is deleted or replaced", path.display());
    }
    corrupt
}

/// What a change of keys causes elsewhere.
pub trait Effects: Send + Sync {
    /// Fires an event on the master's bus. When no master is running the event is lost, as with Salt.
    fn fire(&self, tag: &str, data: Map);

    /// Removes the cached data (grains, pillar) of all minions but these.
    fn clean_minion_data(&self, keep: &HashSet<MinionId>);

    /// Tells a minion whose key is about to be deleted to forget its session (`saltutil.revoke_auth`).
    fn revoke_auth(&self, id: &MinionId);
}

/// Causes nothing elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

impl Effects for NoEffects {
    fn fire(&self, _tag: &str, _data: Map) {}

    fn clean_minion_data(&self, _keep: &HashSet<MinionId>) {}

    fn revoke_auth(&self, _id: &MinionId) {}
}

/// What decides about changes of keys. The names are those of Salt's options.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// The master's own keys.
    pub master: MasterKeyOptions,
    /// Where the drop file goes.
    pub cachedir: PathBuf,
    /// The digest of fingerprints.
    pub hash_type: HashType,
    /// Ask for a new AES key after deleting and rejecting.
    pub rotate_aes_key: bool,
    /// Never remove cached data of minions.
    pub preserve_minion_cache: bool,
    /// Do not remove cached data of the minions that are deleted (`--preserve-minions`).
    pub preserve_minions: bool,
    /// The algorithm of signature files.
    pub publish_signing_algorithm: Signature,
}

/// Which keys are meant.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// A shell glob, several separated by commas, or a list of globs.
    Match(&'a Value),
    /// Ids by directory: `{"minions_pre": ["web1"]}`.
    Dict(&'a Map),
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// Where the selected keys are now, by directory.
    pub result: Map,
    /// The ids whose key was moved or removed, with the directory it was in.
    pub done: Vec<(MinionId, Bank)>,
    /// The ids whose file holds no key, and so was not accepted.
    pub invalid: Vec<MinionId>,
    /// Why the master could not be asked for a new AES key, which minions without a key still know. The keys themselves
    /// were changed.
    pub not_rotated: Option<String>,
}

/// What `--gen-keys` makes.
#[derive(Clone, Debug)]
pub struct GenKeys<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// The name of the files, without endings.
    pub name: &'a str,
    /// The size in bits; `None` for the option `keysize`.
    pub bits: Option<u32>,
    /// The account the files belong to.
    pub owner: Owner,
}

/// What `--gen-signature` makes.
#[derive(Clone, Debug, Default)]
pub struct GenSignature<'a> {
    /// The signing key; by default `master_sign.pem`.
    pub private: Option<&'a Path>,
    /// The key to be signed; by default the master's.
    pub public: Option<&'a Path>,
    /// The directory of the signature file; by default `pki_dir`.
    pub directory: Option<&'a Path>,
    /// Make a signing pair if there is none.
    pub auto_create: bool,
    /// The size of that pair.
    pub bits: Option<u32>,
}

/// The keys of a master under the hands of an administrator.
pub struct KeyManager {
    store: KeyStore,
    options: ManagerOptions,
    effects: Box<dyn Effects>,
}

impl KeyManager {
    /// Returns the keys of a store, whose changes cause the effects.
    pub fn new(store: KeyStore, options: ManagerOptions, effects: impl Effects + 'static) -> Self {
        KeyManager { store, options, effects: Box::new(effects) }
    }

    /// The files.
    pub fn store(&self) -> &KeyStore {
        &self.store
    }

    // === Lists ===

    /// `{"minions_pre": […], "minions_rejected": […], "minions": […], "minions_denied": […]}`.
    pub fn list_keys(&self) -> Result<Map, KeyError> {
        let listing = self.store.list()?;
        Ok(Bank::LISTED.into_iter().map(|bank| (bank.directory(), names(listing.ids(bank)))).collect())
    }

    /// `key.list_all`: the same, and the files of the master's own keys under `local`.
    pub fn list_all(&self) -> Result<Map, KeyError> {
        let mut all = self.list_keys()?;
        all.insert("local", self.local_names()?);
        Ok(all)
    }

    /// `key.list`: one class of keys by the beginning of its name: `acc`, `pre` or `un`, `rej`, `den`, `all`.
    pub fn list(&self, class: &str) -> Result<Map, KeyError> {
        let classes = [
            ("acc", Bank::Accepted),
            ("pre", Bank::Pending),
            ("un", Bank::Pending),
            ("rej", Bank::Rejected),
            ("den", Bank::Denied),
        ];
        if class.starts_with("all") {
            return self.list_all();
        }
        let Some((_, bank)) = classes.into_iter().find(|(prefix, _)| class.starts_with(prefix)) else {
            return Ok(Map::new());
        };
        Ok(map! { bank.directory() => names(&self.store.ids(bank)?) })
    }

    /// `key.name_match`, `key.glob_match`: the ids that match, by directory. Only directories with a match are there.
    pub fn glob_match(&self, pattern: &Value) -> Result<Map, KeyError> {
        Ok(matching(pattern, self.list_keys()?))
    }

    /// `key.list_match`: ids by their exact names, by directory.
    pub fn list_match(&self, ids: &Value) -> Result<Map, KeyError> {
        let mut found = Map::new();
        for id in patterns(ids).iter().filter_map(|id| MinionId::new(id.as_str()).ok()) {
            let state = self.store.find(&id)?.map(|key| key.state.bank());
            let denied = self.store.read(Bank::Denied, &id)?.map(|_| Bank::Denied);
            state.into_iter().chain(denied).for_each(|bank| append(&mut found, bank, id.as_str()));
        }
        Ok(found)
    }

    /// Where the ids of a selection are now, whatever directory it names.
    fn dict_match(&self, selection: &Map) -> Result<Map, KeyError> {
        let current = self.store.list()?;
        let mut found = Map::new();
        for (_, ids) in selection {
            for id in sorted(texts(ids)) {
                let glob = Glob::new(&id);
                let banks = [Bank::Accepted, Bank::Pending, Bank::Rejected, Bank::Denied];
                let there = banks.into_iter().filter(|bank| {
                    current.ids(*bank).iter().any(|known| known.as_str() == id || glob.matches(known.as_str()))
                });
                there.for_each(|bank| append(&mut found, bank, &id));
            }
        }
        Ok(found)
    }

    fn selected(&self, selection: &Selection<'_>) -> Result<Map, KeyError> {
        match selection {
            Selection::Match(pattern) => self.glob_match(pattern),
            Selection::Dict(dict) => Ok((*dict).clone()),
        }
    }

    fn now(&self, selection: &Selection<'_>) -> Result<Map, KeyError> {
        match selection {
            Selection::Match(pattern) => self.glob_match(pattern),
            Selection::Dict(dict) => self.dict_match(dict),
        }
    }

    // === Changes ===

    /// `key.accept`, `key.accept_dict`: accepts waiting keys, and those of other directories if asked to.
    pub fn accept(&self, selection: Selection<'_>, also: &[Bank]) -> Result<Changed, KeyError> {
        self.change(selection, Bank::Accepted, also)
    }

    /// `key.reject`, `key.reject_dict`: rejects waiting keys, and those of other directories if asked to.
    pub fn reject(&self, selection: Selection<'_>, also: &[Bank]) -> Result<Changed, KeyError> {
        let mut changed = self.change(selection, Bank::Rejected, also)?;
        changed.not_rotated = self.after_loss(HashSet::new())?;
        Ok(changed)
    }

    /// `key.delete`, `key.delete_dict`: deletes keys in all directories, telling their minions first if asked to.
    pub fn delete(&self, selection: Selection<'_>, revoke_auth: bool) -> Result<Changed, KeyError> {
        let selected = self.selected(&selection)?;
        let mut changed = Changed::default();
        for bank in Bank::LISTED {
            for id in ids(&selected, bank) {
                if revoke_auth && self.options.rotate_aes_key {
                    self.effects.revoke_auth(&id);
                }
                if self.store.remove(&id, bank)? {
                    self.fire("delete", &id, None);
                    changed.done.push((id, bank));
                }
            }
        }
        let kept = if self.options.preserve_minions { ids(&selected, Bank::Accepted) } else { Vec::new() };
        changed.not_rotated = self.after_loss(kept.into_iter().collect())?;
        changed.result = self.now(&selection)?;
        Ok(changed)
    }

    fn change(&self, selection: Selection<'_>, to: Bank, also: &[Bank]) -> Result<Changed, KeyError> {
        let selected = self.selected(&selection)?;
        let mut changed = Changed::default();
        let sources = std::iter::once(Bank::Pending).chain(also.iter().copied());
        for bank in sources.filter(|bank| *bank != to) {
            for id in ids(&selected, bank) {
                self.change_one(id, (bank, to), &mut changed)?;
            }
        }
        changed.result = self.now(&selection)?;
        Ok(changed)
    }

    fn change_one(&self, id: MinionId, (from, to): (Bank, Bank), changed: &mut Changed) -> Result<(), KeyError> {
        let Some(text) = self.store.read(from, &id)? else { return Ok(()) };
        if to == Bank::Accepted && PublicKey::from_pem(text.as_bytes()).is_err() {
            error!("Invalid RSA public key: {id}");
            changed.invalid.push(id);
            return Ok(());
        }
        if self.store.move_key(&id, from, to)? {
            self.fire(to.word(), &id, Some(text.trim()));
            changed.done.push((id, from));
        }
        Ok(())
    }

    fn fire(&self, act: &str, id: &MinionId, public_key: Option<&str>) {
        let mut data = map! { "result" => true, "act" => act, "id" => id.as_str() };
        if let Some(text) = public_key {
            data.insert("pub", text);
        }
        self.effects.fire("salt/key", data);
    }

    /// Minions have lost their keys: their data are old, and the AES key they know is not to be used any longer. Returns
    /// why the master cannot be asked for another.
    fn after_loss(&self, mut keep: HashSet<MinionId>) -> Result<Option<String>, KeyError> {
        if !self.options.preserve_minion_cache {
            let listing = self.store.list()?;
            Bank::ALL.into_iter().for_each(|bank| keep.extend(listing.ids(bank).iter().cloned()));
            self.effects.clean_minion_data(&keep);
        }
        if !self.options.rotate_aes_key {
            return Ok(None);
        }
        let asked = request_rotation(&self.options.cachedir, &self.options.master.id, self.store.owner());
        let Err(refused) = asked else { return Ok(None) };
        let cause = std::error::Error::source(&refused).map_or_else(String::new, |cause| format!(": {cause}"));
        let text = format!(
            "The master could not be asked for a new AES key, so minions whose keys were changed can read its jobs until \
             it makes one: {refused}{cause}"
        );
        Ok(Some(text))
    }

    // === Texts and fingerprints ===

    /// `key.print`: the texts of the keys that match, by directory and id.
    pub fn key_str(&self, pattern: &Value) -> Result<Map, KeyError> {
        self.for_matches(self.glob_match(pattern)?, |path, text| {
            report_corrupt(path, text);
            Value::from(text)
        })
    }

    /// `key.finger`: the fingerprints of the keys that match, by directory and id; the master's own files are matched as
    /// well, under `local`.
    ///
    /// The digest is that of the key's body, which is what other tools and `master_finger` compare.
    pub fn finger(&self, pattern: &Value, hash_type: Option<HashType>) -> Result<Map, KeyError> {
        let kind = hash_type.unwrap_or(self.options.hash_type);
        let mut all = matching(pattern, self.list_all()?);
        let local = all.remove("local");
        let mut fingers = self.for_matches(all, |path, text| match report_corrupt(path, text) {
            // The digest of what is not there looks like any other.
            true => Value::from(format!("no public key in {}", path.display())),
            false => Value::from(pem_finger(text.as_bytes(), kind)),
        })?;
        if let Some(local) = local {
            let mut files = Map::new();
            for name in texts(&local) {
                let finger = crate::finger_file(&self.options.master.pki_dir.join(&name), kind)?;
                files.insert(name, finger);
            }
            fingers.insert("local", files);
        }
        Ok(fingers)
    }

    fn for_matches(&self, matches: Map, make: impl Fn(&Path, &str) -> Value) -> Result<Map, KeyError> {
        let mut out = Map::new();
        for bank in Bank::LISTED.into_iter().filter(|bank| matches.contains_key(bank.directory())) {
            let mut found = Map::new();
            for id in ids(&matches, bank) {
                // Somebody may have removed it since the list was made.
                if let Some(text) = self.store.read(bank, &id)? {
                    found.insert(id.as_str(), make(&self.store.path(bank, &id), &text));
                }
            }
            out.insert(bank.directory(), found);
        }
        Ok(out)
    }

    /// `key.finger_master`: `{"local": {"master.pub": fingerprint}}`.
    pub fn finger_master(&self, hash_type: Option<HashType>) -> Result<Map, KeyError> {
        let kind = hash_type.unwrap_or(self.options.hash_type);
        let finger = crate::finger_file(&self.options.master.pair_path()?.public(), kind)?;
        Ok(map! { "local" => map! { "master.pub" => finger } })
    }

    /// `key.master_key_str`: `{"local": {"<short id>.pub": text}}`.
    pub fn master_key_str(&self) -> Result<Map, KeyError> {
        let path = self.options.master.pair_path()?.public();
        let text = fs::read_to_string(&path).map_err(KeyError::io("read key", &path))?;
        let name = format!("{}.pub", self.options.master.short_id());
        Ok(map! { "local" => map! { name => clean_key(&text) } })
    }

    /// The names of the master's own key files. Links to files beside them are left out: they are the same keys.
    fn local_names(&self) -> Result<Value, KeyError> {
        let directory = &self.options.master.pki_dir;
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            // A master that never ran has no keys, which is no error.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Value::List(Vec::new())),
            Err(error) => return Err(KeyError::io("list keys in", directory)(error)),
        };
        let named = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let keys = named.filter(|name| {
            let link = fs::read_link(directory.join(name));
            let beside =
                link.is_ok_and(|to| to.parent().is_some_and(|at| at.as_os_str().is_empty() || at == directory));
            (name.ends_with(".pem") || name.ends_with(".pub")) && !beside && !name.starts_with('.')
        });
        Ok(sorted(keys.collect()).into_iter().collect())
    }

    // === New keys ===

    /// `key.gen_accept`: makes a pair and accepts its public half under an id; the private half is only returned. An id
    /// that has a key keeps it, and the result is empty, unless `force`.
    pub fn gen_accept(&self, id: &MinionId, bits: u32, force: bool) -> Result<Map, KeyError> {
        if !force && self.store.find(id)?.is_some() {
            return Ok(Map::new());
        }
        let path = self.store.path(Bank::Accepted, id);
        let pair = generate_pair(bits).map_err(|source| KeyError::Make { path, source })?;
        self.store.put(id, KeyState::Accepted, pair.get_str("pub").unwrap_or_default().trim())?;
        Ok(pair)
    }

    /// `key.gen_keys`: makes the files of a pair, unless they exist, and returns the fingerprint.
    pub fn gen_keys(&self, wanted: &GenKeys<'_>) -> Result<String, KeyError> {
        let path = PairPath::new(wanted.directory, wanted.name)?;
        let bits = wanted.bits.unwrap_or(self.options.master.keysize);
        let pair = path.load_or_create(PairOptions { bits, passphrase: None, owner: wanted.owner })?;
        Ok(pair.fingerprint(self.options.hash_type))
    }

    /// `key.gen_signature`: signs the master's public key into a file. Returns true, false when there is such a file
    /// already, or a sentence about what is missing.
    pub fn gen_signature(&self, wanted: &GenSignature<'_>) -> Result<Value, KeyError> {
        let master = &self.options.master;
        let public = match wanted.public {
            Some(path) if !path.is_file() => return Ok(format!("Public-key {} does not exist", path.display()).into()),
            Some(path) => path.to_owned(),
            None => master.pair_path()?.public(),
        };
        let private = match wanted.private {
            Some(path) if !path.is_file() => return Ok(format!("Private-key {} does not exist", path.display()).into()),
            Some(path) => path.to_owned(),
            None => master.sign_path()?.private(),
        };
        if !private.is_file() {
            if !wanted.auto_create {
                return Ok("No usable private-key found".into());
            }
            let options = master.sign_options();
            master.sign_path()?.create(PairOptions { bits: wanted.bits.unwrap_or(options.bits), ..options })?;
        }
        if !public.is_file() {
            return Ok("No usable public-key found".into());
        }
        self.write_signature(&private, &public, wanted.directory.unwrap_or(&master.pki_dir)).map(Value::from)
    }

    fn write_signature(&self, private: &Path, public: &Path, directory: &Path) -> Result<bool, KeyError> {
        let path = directory.join(self.options.master.signature_name());
        if path.exists() {
            error!("{} already exists at expected location", path.display());
            return Ok(false);
        }
        let pem = fs::read(private).map_err(KeyError::io("read key", private))?;
        let key = PrivateKey::from_pem(&pem, self.options.master.signing_key_pass.as_deref());
        let key = key.map_err(|source| KeyError::Unreadable { path: private.to_owned(), source })?;
        let text = fs::read_to_string(public).map_err(KeyError::io("read key", public))?;
        let signature = sign_public_key(&key, &text, self.options.publish_signing_algorithm)?;
        let manner = Manner { mode: 0o400, owner: self.store.owner(), durable: true };
        atomic::write(&path, signature.as_bytes(), manner).map_err(KeyError::io("write signature", &path))?;
        Ok(true)
    }

    /// Writes `minions/.key_cache`, the list of accepted ids that Salt before 3008 reads with `key_cache: sched`.
    pub fn write_key_cache(&self) -> Result<(), KeyError> {
        let path = self.store.bank_path(Bank::Accepted).join(".key_cache");
        let packed = msgpack::pack(&names(&self.store.ids(Bank::Accepted)?), Packing::Bin);
        let manner = Manner { mode: 0o600, owner: self.store.owner(), durable: false };
        atomic::write(&path, &packed, manner).map_err(KeyError::io("write", &path))
    }
}

impl std::fmt::Debug for KeyManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyManager").field("store", &self.store).finish_non_exhaustive()
    }
}

/// `key.gen`: makes a pair that is kept nowhere: `{"priv": …, "pub": …}`. Sizes below 2048 become 2048.
pub fn generate_pair(bits: u32) -> Result<Map, RsaError> {
    let private = PrivateKey::generate(bits.max(2048))?;
    Ok(map! { "priv" => private.to_pem(None)?, "pub" => private.public().to_pem() })
}

// === Selecting ===

/// Keeps the ids that match one of the patterns, and the directories that have any.
fn matching(pattern: &Value, all: Map) -> Map {
    let globs: Vec<Glob> = patterns(pattern).iter().map(|pattern| Glob::new(pattern)).collect();
    let mut found = Map::new();
    for (bank, ids) in all {
        let fitting = |id: &String| globs.iter().any(|glob| glob.matches(id));
        let ids: Vec<String> = texts(&ids).into_iter().filter(fitting).collect();
        if !ids.is_empty() {
            found.insert(bank, ids);
        }
    }
    found
}

/// A text is split at commas; a list is taken as it is.
fn patterns(selection: &Value) -> Vec<String> {
    match selection {
        Value::List(_) => texts(selection),
        other => other.to_string().split(',').map(str::to_owned).collect(),
    }
}

fn texts(ids: &Value) -> Vec<String> {
    ids.as_list().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// The ids of a directory in a selection; what is no id can have no file.
fn ids(selected: &Map, bank: Bank) -> Vec<MinionId> {
    let named = selected.get(bank.directory()).map(texts).unwrap_or_default();
    named.into_iter().filter_map(|id| MinionId::new(id).ok()).collect()
}

fn names(ids: &[MinionId]) -> Value {
    ids.iter().map(MinionId::as_str).collect()
}

fn append(found: &mut Map, bank: Bank, id: &str) {
    if let Value::List(ids) = found.entry_or_insert_with(bank.directory(), || Value::List(Vec::new())) {
        ids.push(id.into());
    }
}

/// Without regard to letter case, as Salt sorts ids.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use value::list;

    use super::*;
    use crate::testing::{private_pem, public_key, vectors};
    use crate::{DropFile, take_rotation_request};

    /// Remembers what happened.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    impl Recorder {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }

        fn note(&self, what: String) {
            self.0.lock().unwrap().push(what);
        }
    }

    impl Effects for Recorder {
        fn fire(&self, tag: &str, data: Map) {
            assert_eq!((tag, data.get("result")), ("salt/key", Some(&true.into())));
            let with_key = if data.contains_key("pub") { " with key" } else { "" };
            self.note(format!("{} {}{with_key}", data.get_str("act").unwrap(), data.get_str("id").unwrap()));
        }

        fn clean_minion_data(&self, keep: &HashSet<MinionId>) {
            self.note(format!("keep {:?}", sorted(keep.iter().map(ToString::to_string).collect())));
        }

        fn revoke_auth(&self, id: &MinionId) {
            self.note(format!("revoke {id}"));
        }
    }

    struct Place {
        dir: tempfile::TempDir,
        recorder: Recorder,
        manager: KeyManager,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path(), Owner::NOBODY);
        store.prepare().unwrap();
        let options = ManagerOptions {
            master: MasterKeyOptions::new(dir.path(), "salt_master"),
            cachedir: dir.path().to_owned(),
            hash_type: HashType::Sha256,
            rotate_aes_key: true,
            preserve_minion_cache: false,
            preserve_minions: false,
            publish_signing_algorithm: "PKCS1v15-SHA1".parse().unwrap(),
        };
        let recorder = Recorder::default();
        let manager = KeyManager::new(store, options, recorder.clone());
        let place = Place { dir, recorder, manager };
        for (bank, id) in [
            (Bank::Accepted, "web1"),
            (Bank::Accepted, "DB1"),
            (Bank::Pending, "web2"),
            (Bank::Pending, "web3"),
            (Bank::Rejected, "web4"),
            (Bank::Denied, "web1"),
        ] {
            place.key(bank, id, &public_key(0));
        }
        place
    }

    impl Place {
        fn key(&self, bank: Bank, id: &str, text: &str) {
            fs::write(self.dir.path().join(bank.directory()).join(id), text).unwrap();
        }

        fn drop_file(&self) -> DropFile {
            take_rotation_request(self.dir.path(), "salt_master").unwrap()
        }
    }

    fn text(value: impl Into<Value>) -> String {
        value.into().to_string()
    }

    #[test]
    fn lists_have_the_shapes_of_salt() {
        let place = place();
        fs::write(place.dir.path().join("salt.pem"), private_pem(1)).unwrap();
        fs::write(place.dir.path().join("salt.pub"), public_key(1)).unwrap();
        std::os::unix::fs::symlink("salt.pub", place.dir.path().join("master.pub")).unwrap();
        let all = "{'minions_pre': ['web2', 'web3'], 'minions_rejected': ['web4'], 'minions': ['DB1', 'web1'], \
                   'minions_denied': ['web1'], 'local': ['salt.pem', 'salt.pub']}";
        assert_eq!(text(place.manager.list_all().unwrap()), all);
        for (class, expected) in [
            ("accepted", "{'minions': ['DB1', 'web1']}"),
            ("un", "{'minions_pre': ['web2', 'web3']}"),
            ("pre", "{'minions_pre': ['web2', 'web3']}"),
            ("rej", "{'minions_rejected': ['web4']}"),
            ("den", "{'minions_denied': ['web1']}"),
            ("all", all),
            ("what", "{}"),
        ] {
            assert_eq!(text(place.manager.list(class).unwrap()), expected);
        }
    }

    #[test]
    fn keys_are_matched_by_globs_and_names() {
        let Place { manager, dir: _dir, .. } = place();
        for (pattern, expected) in [
            (Value::from("web[12]"), "{'minions_pre': ['web2'], 'minions': ['web1'], 'minions_denied': ['web1']}"),
            (Value::from("web2,DB*"), "{'minions_pre': ['web2'], 'minions': ['DB1']}"),
            (list!["web4", "nobody"], "{'minions_rejected': ['web4']}"),
            (Value::from("nobody"), "{}"),
        ] {
            assert_eq!(text(manager.glob_match(&pattern).unwrap()), expected);
        }
        let found = manager.list_match(&"web1,web4,../x,nobody".into()).unwrap();
        assert_eq!(text(found), "{'minions': ['web1'], 'minions_denied': ['web1'], 'minions_rejected': ['web4']}");
    }

    #[test]
    fn accepting_looks_at_waiting_keys_unless_told_otherwise() {
        let place = place();
        place.key(Bank::Pending, "broken", "nonsense");
        let all = Value::from("*");
        let changed = place.manager.accept(Selection::Match(&all), &[]).unwrap();
        assert_eq!(text(names(&changed.invalid)), "['broken']");
        assert_eq!(place.recorder.take(), ["accepted web2 with key", "accepted web3 with key"]);
        assert_eq!(text(place.manager.list("acc").unwrap()), "{'minions': ['DB1', 'web1', 'web2', 'web3']}");
        assert_eq!(place.drop_file(), DropFile::Nothing);
        let dict = map! { "minions_rejected" => list!["web4"], "minions_denied" => list!["web1"] };
        let changed = place.manager.accept(Selection::Dict(&dict), &[Bank::Rejected, Bank::Denied]).unwrap();
        assert_eq!(text(changed.result), "{'minions': ['web4', 'web1']}");
    }

    #[test]
    fn rejecting_shuts_out() {
        let place = place();
        let pattern = Value::from("web*");
        let changed = place.manager.reject(Selection::Match(&pattern), &[Bank::Accepted]).unwrap();
        assert_eq!(
            text(changed.result),
            "{'minions_rejected': ['web1', 'web2', 'web3', 'web4'], 'minions_denied': ['web1']}"
        );
        assert_eq!(
            place.recorder.take(),
            [
                "rejected web2 with key",
                "rejected web3 with key",
                "rejected web1 with key",
                "keep [\"DB1\", \"web1\", \"web2\", \"web3\", \"web4\"]"
            ]
        );
        assert_eq!(place.drop_file(), DropFile::Request);
    }

    #[test]
    fn a_key_is_deleted_although_the_master_cannot_be_asked() {
        let mut place = place();
        let delete = |place: &Place, id: &str| place.manager.delete(Selection::Match(&id.into()), false).unwrap();
        // No master has run there, so that no minion knows an AES key of it.
        place.manager.options.cachedir = place.dir.path().join("nothing/here");
        let changed = delete(&place, "web1");
        assert_eq!((changed.done.is_empty(), changed.not_rotated), (false, None));
        let file = place.dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        place.manager.options.cachedir = file;
        let changed = delete(&place, "web2");
        assert_eq!(changed.done.len(), 1);
        assert!(changed.not_rotated.unwrap().contains("file/.dfn: Not a directory"));
    }

    #[test]
    fn deleting_cleans_up() {
        let mut place = place();
        let pattern = Value::from("web1,web2");
        place.manager.options.preserve_minions = true;
        let changed = place.manager.delete(Selection::Match(&pattern), true).unwrap();
        assert_eq!((text(changed.result), changed.done.len()), ("{}".to_owned(), 3));
        let (last, first) =
            place.recorder.take().split_last().map(|(last, first)| (last.clone(), first.to_vec())).unwrap();
        assert_eq!(first, ["revoke web2", "delete web2", "revoke web1", "delete web1", "revoke web1", "delete web1"]);
        assert_eq!(last, "keep [\"DB1\", \"web1\", \"web3\", \"web4\"]");
        assert_eq!(place.drop_file(), DropFile::Request);
        (place.manager.options.rotate_aes_key, place.manager.options.preserve_minion_cache) = (false, true);
        let dict = map! { "minions" => list!["DB1", "nobody", "../../x"], "nonsense" => 7 };
        place.manager.delete(Selection::Dict(&dict), true).unwrap();
        assert_eq!(place.recorder.take(), ["delete DB1"]);
        assert_eq!(place.drop_file(), DropFile::Nothing);
    }

    #[test]
    fn a_file_without_a_key_has_no_fingerprint() {
        let place = place();
        let path = place.dir.path().join("minions/web1");
        fs::write(&path, "-----BEGIN PUBLIC KEY-----\nnonsense\n").unwrap();
        let fingers = place.manager.finger(&"web1".into(), None).unwrap();
        let shown = fingers.get("minions").and_then(|found| found.get("web1")).and_then(Value::as_str).unwrap();
        assert_eq!(shown, format!("no public key in {}", path.display()));
    }

    #[test]
    fn texts_and_fingerprints() {
        let place = place();
        fs::write(place.dir.path().join("master.pem"), private_pem(1)).unwrap();
        fs::write(place.dir.path().join("master.pub"), public_key(1) + "\n").unwrap();
        let recorded = |key: &str, field: &str| vectors("keys")["keys"][key][field].as_str().unwrap().to_owned();
        let finger = recorded("minion", "finger_path_sha256");
        let master = recorded("master", "finger_path_sha256");
        let private = recorded("master", "finger_private_path_sha256");
        let printed = place.manager.key_str(&"web2".into()).unwrap();
        assert_eq!(printed, map! { "minions_pre" => map! { "web2" => public_key(0) } });
        let fingers = place.manager.finger(&"web1,master*".into(), None).unwrap();
        assert_eq!(
            fingers,
            map! {
                "minions" => map! { "web1" => finger.as_str() },
                "minions_denied" => map! { "web1" => finger.as_str() },
                "local" => map! { "master.pem" => private, "master.pub" => master.as_str() },
            }
        );
        let md5 = place.manager.finger(&"DB1".into(), Some(HashType::Md5)).unwrap();
        assert_eq!(md5.get("minions").unwrap().get("DB1").unwrap().as_str().unwrap().len(), 47);
        let local = |name: &str, value: String| map! { "local" => map! { name => value } };
        assert_eq!(place.manager.finger_master(None).unwrap(), local("master.pub", master));
        assert_eq!(place.manager.master_key_str().unwrap(), local("salt.pub", public_key(1)));
    }

    #[test]
    fn a_pair_is_made_and_accepted() {
        let place = place();
        let id = MinionId::new("new1").unwrap();
        let pair = place.manager.gen_accept(&id, 512, false).unwrap();
        let public = place.manager.store.read(Bank::Accepted, &id).unwrap().unwrap();
        assert_eq!(public, pair.get_str("pub").unwrap().trim());
        assert!(pair.get_str("priv").unwrap().starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
        assert_eq!(PublicKey::from_pem(public.as_bytes()).unwrap().bits(), 2048);
        assert_eq!(place.manager.gen_accept(&id, 2048, false).unwrap(), Map::new());
        let wanted = GenKeys { directory: place.dir.path(), name: "m1", bits: None, owner: Owner::NOBODY };
        let finger = place.manager.gen_keys(&wanted).unwrap();
        assert_eq!(place.manager.gen_keys(&wanted).unwrap(), finger);
        assert!(place.manager.gen_keys(&GenKeys { name: "../m1", ..wanted }).is_err());
    }

    #[test]
    fn the_signature_is_written_once() {
        let place = place();
        let sign = |wanted: GenSignature<'_>| place.manager.gen_signature(&wanted).unwrap();
        assert_eq!(sign(GenSignature::default()), "No usable private-key found".into());
        fs::write(place.dir.path().join("master_sign.pem"), private_pem(2)).unwrap();
        assert_eq!(sign(GenSignature::default()), "No usable public-key found".into());
        let missing = GenSignature { public: Some(Path::new("/nonexistent")), ..GenSignature::default() };
        assert_eq!(sign(missing), "Public-key /nonexistent does not exist".into());
        fs::write(place.dir.path().join("master.pem"), private_pem(1)).unwrap();
        fs::write(place.dir.path().join("master.pub"), public_key(1)).unwrap();
        assert_eq!(sign(GenSignature::default()), true.into());
        assert_eq!(sign(GenSignature::default()), false.into());
        let written = fs::read_to_string(place.dir.path().join("salt_master_pubkey_signature")).unwrap();
        assert_eq!(written, vectors("misc")["master_pubkey_signature_file"]["text"].as_str().unwrap());
    }

    #[test]
    fn the_key_cache_lists_accepted_ids() {
        let place = place();
        place.manager.write_key_cache().unwrap();
        let packed = fs::read(place.dir.path().join("minions/.key_cache")).unwrap();
        assert_eq!(packed, b"\x92\xa3DB1\xa4web1");
        assert_eq!(place.manager.store.ids(Bank::Accepted).unwrap().len(), 2);
    }
}
