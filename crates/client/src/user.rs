//! The name of the local user, and the key that proves it to the master.

use std::io;
use std::path::{Path, PathBuf};

/// Returns the name that is sent with a job: the system user, or `sudo_<name>` if root came through sudo.
pub fn request_user() -> String {
    // The effective user is the one whose rights count when the key is read.
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.name);
    let user = user.unwrap_or_else(|| nix::unistd::geteuid().to_string());
    through_sudo(user, std::env::var("SUDO_USER").ok())
}

fn through_sudo(user: String, sudo: Option<String>) -> String {
    match sudo {
        // As in Salt: the name shows in events and job caches who acted with the rights of root.
        Some(name) if user == "root" => format!("sudo_{name}"),
        _ => user,
    }
}

/// Returns the path of a user's key. Root and sudo use the key of the master's user.
pub fn key_path(cachedir: &Path, user: &str, master_user: &str) -> PathBuf {
    let owner = if user == "root" || user.starts_with("sudo_") { master_user } else { user };
    cachedir.join(format!(".{owner}_key"))
}

/// Reads the key; `None` if this user may not read it, which leaves external authentication.
pub fn read_key(path: &Path) -> Option<String> {
    match std::fs::read_to_string(path) {
        Ok(key) => Some(key),
        Err(error) => {
            let expected = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
            if expected {
                tracing::debug!(path = %path.display(), %error, "the user's key cannot be read");
            } else {
                tracing::error!(path = %path.display(), %error, "failed to read the user's key");
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_uses_the_key_of_the_masters_user() {
        let path = |user, master| key_path(Path::new("/c"), user, master).display().to_string();
        assert_eq!(path("root", "root"), "/c/.root_key");
        assert_eq!(path("root", "salt"), "/c/.salt_key");
        assert_eq!(path("sudo_ann", "salt"), "/c/.salt_key");
        assert_eq!(path("ann", "salt"), "/c/.ann_key");
    }

    #[test]
    fn only_root_is_marked_as_sudo() {
        assert_eq!(through_sudo("root".into(), Some("ann".into())), "sudo_ann");
        assert_eq!(through_sudo("bob".into(), Some("ann".into())), "bob");
        assert_eq!(through_sudo("root".into(), None), "root");
    }
}
