//! The configuration of a remote for `git`: a file without secrets, and environment variables with them.

use std::path::Path;

use store::disk::{self, Writing};

use crate::url::{self, Transport};
use crate::{Remote, Result, Secret};

/// The file that marks a complete copy made by Saltern.
pub(crate) const MARK: &str = "saltern";

/// A credential helper that answers with user and password from environment variables.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \"$SALTERN_GIT_USER\" \
                      \"$SALTERN_GIT_PASSWORD\"; }; f";

/// Writes the configuration file of a repository.
pub(crate) fn write(remote: &Remote, repository: &Path) -> Result<()> {
    disk::write(&repository.join("config"), text(remote).as_bytes(), Writing::PRIVATE)?;
    // Last, so that a repository with the mark has its configuration.
    disk::write(&repository.join(MARK), b"1\n", Writing::SHARED)?;
    Ok(())
}

fn text(remote: &Remote) -> String {
    let mut lines = vec![
        "[core]".to_owned(),
        line("repositoryformatversion", "0"),
        line("bare", "true"),
        "[gc]".to_owned(),
        // A clean-up in the background would outlive the fetch and its lock.
        line("autoDetach", "false"),
        "[maintenance]".to_owned(),
        line("autoDetach", "false"),
        "[remote \"origin\"]".to_owned(),
        line("url", &remote.address),
    ];
    lines.extend(remote.refspecs.iter().map(|refspec| line("fetch", refspec)));
    lines.push("[http]".to_owned());
    lines.push(line("sslVerify", if remote.ssl_verify { "true" } else { "false" }));
    if gives_password(remote)
        // The helper is bound to scheme, host and port. After a redirect to another host git does not ask it.
        && let Some(origin) = url::origin(&remote.address)
    {
        lines.push(format!("[credential {}]", quoted(origin)));
        // An empty helper clears the list: helpers of the system must neither answer nor store this password.
        lines.push(line("helper", ""));
        lines.push(line("helper", HELPER));
    }
    lines.join("\n") + "\n"
}

fn gives_password(remote: &Remote) -> bool {
    let login = &remote.login;
    matches!(url::transport(&remote.address), Transport::Http | Transport::Https)
        && (!login.user.is_empty() || !login.password.is_empty())
}

fn line(name: &str, value: &str) -> String {
    format!("\t{name} = {}", quoted(value))
}

fn quoted(value: &str) -> String {
    let mut out = String::from("\"");
    for letter in value.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            // Control characters have no place in a URL or a name.
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Answers ssh's question for the passphrase, and no other: ssh asks the same way whether to trust a host, and repeats that
/// until it gets yes or no.
const PASSPHRASE_HELPER: &str = "#!/bin/sh
case $1 in
    *assphrase*) printf '%s\\n' \"$SALTERN_GIT_PASSPHRASE\" ;;
    *) exit 1 ;;
esac
";

/// Returns the environment variables of a fetch.
pub(crate) fn environment(remote: &Remote, work: &Path) -> Result<Vec<(&'static str, Secret)>> {
    let login = &remote.login;
    let mut variables = Vec::new();
    if gives_password(remote) {
        variables.push(("SALTERN_GIT_USER", Secret::new(&login.user)));
        variables.push(("SALTERN_GIT_PASSWORD", login.password.clone()));
    }
    if !remote.proxy.is_empty() {
        // `HTTP_PROXY` in capitals is missing on purpose: curl ignores it.
        for name in ["http_proxy", "https_proxy", "HTTPS_PROXY"] {
            variables.push((name, Secret::new(&remote.proxy)));
        }
    }
    if url::transport(&remote.address) == Transport::Ssh && !login.privkey.is_empty() {
        variables.push(("GIT_SSH_COMMAND", Secret::new(ssh(&login.privkey))));
        if !login.passphrase.is_empty() {
            let helper = work.join("passphrase");
            // The file contains no secret; the passphrase reaches it through the environment.
            disk::make_directory(work)?;
            disk::write(&helper, PASSPHRASE_HELPER.as_bytes(), Writing { mode: 0o700, sync: false })?;
            variables.push(("SSH_ASKPASS", Secret::new(helper.to_string_lossy())));
            // Older releases of ssh run the helper only if there is a display.
            variables.push(("DISPLAY", Secret::new(":0")));
            variables.push(("SALTERN_GIT_PASSPHRASE", login.passphrase.clone()));
        }
    }
    Ok(variables)
}

/// The host must be in `known_hosts`, because there is no user to confirm its key.
fn ssh(key: &str) -> String {
    let key = key.replace('\'', "'\\''");
    format!("ssh -o ConnectTimeout=30 -o NumberOfPasswordPrompts=1 -o IdentitiesOnly=yes -i '{key}'")
}

#[cfg(test)]
mod tests {
    use value::{Value, list, map};

    use super::*;
    use crate::Role;

    fn remote(entry: impl Into<Value>, options: value::Map) -> Remote {
        Remote::read(Role::GitFs, &entry.into(), &options).unwrap().unwrap()
    }

    #[test]
    fn the_configuration_file_has_no_password() {
        let options = map! { "gitfs_refspecs" => list!["+refs/heads/*:refs/remotes/origin/*"] };
        let remote = remote("https://me:geheim@example.org/a.git", options);
        let text = text(&remote);
        assert!(text.contains("\turl = \"https://example.org/a.git\"\n"), "{text}");
        assert!(text.contains("[credential \"https://example.org\"]\n\thelper = \"\"\n"), "{text}");
        assert!(!text.contains("geheim") && !format!("{remote:?}").contains("\"geheim\""), "{text}");
        let variables = environment(&remote, Path::new("/none")).unwrap();
        assert_eq!(variables[1].1.reveal(), "geheim");
        assert!(!format!("{variables:?}").contains("geheim"));
    }

    #[test]
    fn only_the_passphrase_prompt_is_answered() {
        let asked = |question: &str| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", PASSPHRASE_HELPER, "sh", question]).env("SALTERN_GIT_PASSPHRASE", "a 'b\\n");
            let output = shell.output().unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(asked("Enter passphrase for key '/etc/salt/id': "), (true, "a 'b\\n\n".to_owned()));
        let host = "The authenticity of host 'h' can't be established. Are you sure you want to continue connecting (yes/no)? ";
        assert_eq!(asked(host), (false, String::new()));
        assert_eq!(asked("me@h's password: "), (false, String::new()));
    }

    #[test]
    fn values_are_quoted() {
        assert_eq!(line("url", "a\"b\\c\n[x]"), "\turl = \"a\\\"b\\\\c\\n[x]\"");
    }
}
