//! `saltern ldap-check`: a login with LDAP, outside of the master (`auth::ldap`).

use std::process::ExitCode;

use crate::exit_codes;
use crate::pam::{close_inherited, take_socket};

/// Answers one question, on the socket that is the standard input.
pub fn check() -> ExitCode {
    daemon::keep_memory_private(daemon::Children::Own);
    match close_inherited().and_then(|()| take_socket()).and_then(|mut socket| auth::ldap::answer(&mut socket)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            rt::complain!("saltern: error: the LDAP server cannot be asked: {error}");
            ExitCode::from(exit_codes::GENERIC)
        }
    }
}
