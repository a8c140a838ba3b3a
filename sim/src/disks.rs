//! What happens to directories of masters: they are lost, they come back from a backup, and key files are wiped.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crypto::MemberKey;
use share::Node;

/// How old the times of restored files are. Programs that restore backups set them.
const BACKUP_AGE: Duration = Duration::from_secs(3_600);

/// A member key follows from its number, so that the order of the members does as well.
fn member_key(number: usize) -> MemberKey {
    MemberKey::from_random([number as u8 + 1; crypto::MEMBER_KEY_LEN]).expect("any bytes are a key")
}

/// Returns the node of a member key.
pub fn node(number: usize) -> Node {
    Node::of_key(&member_key(number).public())
}

/// Writes a member key in place of an earlier one.
pub fn write_member_key(pki: &Path, number: usize) {
    let key = member_key(number);
    let file = keys::MemberKeyPath::new(pki, keys::Owner::NOBODY).file();
    let directory = file.parent().expect("the key is in a directory");
    remove(directory);
    fs::create_dir_all(directory).expect("a directory in memory");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).expect("a directory in memory");
    fs::write(&file, key.to_pem().expect("keys can be written")).expect("a file in memory");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).expect("a file in memory");
}

/// Removes a directory with all that is in it, if it is there.
pub fn remove(directory: &Path) {
    if directory.exists() {
        fs::remove_dir_all(directory).expect("a directory in memory");
    }
}

/// Copies a directory as a backup program does: the files keep their rights, and have times of the past.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory in memory");
    for entry in fs::read_dir(from).expect("a directory in memory") {
        let entry = entry.expect("a directory in memory");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().expect("a file in memory").is_dir() {
            copy(&from, &to);
            continue;
        }
        fs::write(&to, fs::read(&from).expect("a file in memory")).expect("a file in memory");
        let file = fs::File::options().write(true).open(&to).expect("a file in memory");
        file.set_modified(SystemTime::now() - BACKUP_AGE).expect("a file in memory");
        fs::set_permissions(&to, entry.metadata().expect("a file in memory").permissions()).expect("a file in memory");
    }
    let permissions = fs::metadata(from).expect("a directory in memory").permissions();
    fs::set_permissions(to, permissions).expect("a directory in memory");
}
