//! Why logins do not work.

use std::io;
use std::path::PathBuf;

/// A problem with `external_auth`, or with what a backend reads.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend does not exist here.
    #[error(
        "external_auth: the backend '{0}' is not supported; supported are 'auto', 'file', 'ldap', 'pam', 'rest' and 'sharedsecret'"
    )]
    Backend(String),
    /// The keeper of PAM does not run.
    #[error("external_auth: the helper for the backend 'pam' could not be started")]
    NoKeeper,
    /// PAM cannot tell whether a password is right.
    #[error("external_auth: the backend 'pam': {0}")]
    Pam(String),
    /// An option of the backend `ldap` cannot be obeyed.
    #[error("auth.ldap.{option}: {problem}")]
    LdapOption {
        /// The option, without `auth.ldap.`.
        option: &'static str,
        /// What is wrong, as the end of a sentence.
        problem: String,
    },
    /// No LDAP server can tell whether a password is right.
    #[error("external_auth: the backend 'ldap': {0}")]
    Ldap(String),
    /// There is no address to ask.
    #[error("external_auth: the backend 'rest' needs '^url', an address that begins with https:// or http://")]
    Url,
    /// The web server cannot tell whether a password is right.
    #[error("external_auth: the backend 'rest': {0}")]
    Rest(String),
    /// Nobody knows which entries users have.
    #[error("eauth_acl_module: '{0}' is not supported; only 'rest' has entries of its own")]
    AclModule(String),
    /// Nobody can be asked for entries.
    #[error("eauth_acl_module: 'rest' needs the backend 'rest' in external_auth")]
    NoServer,
    /// The part of a backend has another form.
    #[error("external_auth: '{0}' must be a map of users and lists of functions")]
    NotAMap(String),
    /// There is no secret, or it can be guessed.
    #[error(
        "external_auth: the backend 'sharedsecret' needs the option 'sharedsecret', a text of at least {0} characters"
    )]
    SharedSecret(usize),
    /// An option of the backend `file` cannot be obeyed.
    #[error("external_auth: the backend 'file': '^{option}' {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong, as the end of a sentence.
        problem: String,
    },
    /// Other users may change the passwords.
    #[error("external_auth: everybody may write {}; take that right away from others", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("external_auth: failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file has a line that cannot be used.
    #[error("external_auth: {}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}
