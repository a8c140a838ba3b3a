//! Encrypts mails with the program `gpg`.

use std::process::Stdio;
use std::time::Duration;

use nix::unistd::User;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tracing::error;

use super::mail::address;
use crate::{Error, Result};

/// The timeout of gpg.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the text encrypted for some recipients, with the keys of a user. If that fails, the text says so instead.
///
/// # Errors
/// If there is no such user, or gpg cannot be run; nothing is sent then.
pub async fn encrypted(owner: &str, to: &[String], text: &str) -> Result<String> {
    let user = User::from_name(owner).map_err(Error::failed)?;
    let user = user.ok_or_else(|| Error::option(format!("smtp.gpgowner: there is no user {owner}")))?;
    let mut command = Command::new("gpg");
    command.arg("--homedir").arg(user.dir.join(".gnupg"));
    // Keys were chosen by the operator; without `always`, gpg refuses keys it has not seen signed.
    command.args(["--batch", "--no-tty", "--trust-model", "always", "--armor", "--encrypt"]);
    for reader in to {
        command.arg("--recipient").arg(address(reader));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let cannot = |error: std::io::Error| Error::failed(format!("gpg cannot be run, nothing is sent: {error}"));
    let mut child = command.spawn().map_err(cannot)?;
    let mut input = child.stdin.take().ok_or_else(|| Error::failed("gpg has no input"))?;
    let text = text.to_owned();
    let feeding = async move {
        // A gpg that ends early reports the reason itself.
        let _ = input.write_all(text.as_bytes()).await;
    };
    // Both at once: gpg blocks when its output pipe is full, and would then stop reading the input.
    let both = async { tokio::join!(feeding, child.wait_with_output()).1 };
    let output = tokio::time::timeout(TIMEOUT, both).await;
    let output = output.map_err(|_| Error::failed("gpg does not end, nothing is sent"))?.map_err(cannot)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    error!("smtp_return: Encryption failed, only an error message will be sent");
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    // As in Salt: the recipients learn that something failed, but get nothing in the clear.
    Ok(format!("Encryption failed, the return data was not sent.\r\n\r\n{}\r\n{reason}", output.status))
}
