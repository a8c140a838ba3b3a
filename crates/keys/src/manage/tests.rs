use std::fs;
use std::sync::{Arc, Mutex};

use crypto::{HashType, PublicKey};
use value::{Map, Value, list, map};
use wire::MinionId;

use super::selection::{names, sorted};
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
fn only_the_keys_that_were_seen_are_changed() {
    let Place { manager, dir: _dir, .. } = place();
    let seen = manager.store().read(Bank::Pending, &"web2".parse().unwrap()).unwrap().unwrap();
    let seen = crypto::pem_finger(seen.as_bytes(), manager.options.hash_type).to_uppercase();
    let expected = [("web2", seen.as_str()), ("web3", "aa:bb"), ("web4", "aa:bb")];
    let manager = manager.expecting(expected.map(|(id, finger)| (id.to_owned(), finger.to_owned())).into());
    let dict = map! { "minions_pre" => list!["web2", "web3"] };
    let changed = manager.accept(Selection::Dict(&dict), &[]).unwrap();
    assert_eq!(changed.done, [("web2".parse().unwrap(), Bank::Pending)]);
    let dict = map! { "minions_rejected" => list!["web4"], "minions" => list!["DB1", "web2"] };
    let changed = manager.delete(Selection::Dict(&dict), false).unwrap();
    let gone = |id: &str| (id.parse().unwrap(), Bank::Accepted);
    assert_eq!(changed.done, [gone("DB1"), gone("web2")], "of other ids nothing was seen");
    assert_eq!(
        text(manager.list_all().unwrap().remove("minions_rejected").unwrap()) + &text(manager.list("pre").unwrap()),
        "['web4']{'minions_pre': ['web3']}"
    );
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
    // A file where a directory should be fails for root as well, unlike missing permissions.
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
    let (last, first) = place.recorder.take().split_last().map(|(last, first)| (last.clone(), first.to_vec())).unwrap();
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
