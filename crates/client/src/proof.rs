//! How a client proves who its user is.

use std::fmt;

use value::{Map, map};

/// The proof that goes with each request.
#[derive(Clone, Default)]
pub enum Proof {
    /// The key of the local user.
    #[default]
    Key,
    /// A token of an earlier login.
    Token(String),
    /// A login.
    Login(Login),
}

/// A login with `external_auth`.
#[derive(Clone)]
pub struct Login {
    /// The backend.
    pub backend: String,
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
}

// Neither tokens nor passwords are printed.
impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::Key => "Key",
            Proof::Token(_) => "Token(…)",
            Proof::Login(_) => "Login(…)",
        })
    }
}

impl Proof {
    /// Returns whether the user is a local one, with a key.
    pub fn is_key(&self) -> bool {
        matches!(self, Proof::Key)
    }

    /// Returns the fields of a request that carry the proof, apart from the key.
    pub(crate) fn fields(&self) -> Map {
        match self {
            Proof::Key => Map::new(),
            Proof::Token(token) => map! { "token" => token.as_str() },
            Proof::Login(login) => login.fields(),
        }
    }
}

impl Login {
    pub(crate) fn fields(&self) -> Map {
        map! {
            "eauth" => self.backend.as_str(), "username" => self.username.as_str(), "password" => self.password.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_sent_and_never_printed() {
        let login = Login { backend: "file".into(), username: "fred".into(), password: "secret".into() };
        let fields = map! { "eauth" => "file", "username" => "fred", "password" => "secret" };
        assert_eq!(Proof::Login(login.clone()).fields(), fields);
        assert_eq!(Proof::Token("abc".into()).fields(), map! { "token" => "abc" });
        assert!(Proof::Key.fields().is_empty() && Proof::Key.is_key());
        let printed = format!("{:?} {:?}", Proof::Login(login), Proof::Token("abc".into()));
        assert!(!printed.contains("secret") && !printed.contains("abc"), "{printed}");
    }
}
