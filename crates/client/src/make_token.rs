//! Asks the master for a token.

use value::Value;
use wire::envelope::Envelope;

use crate::local::{Error, LocalClient};
use crate::proof::Login;

impl LocalClient {
    /// Asks the master for a token. Returns `None` if it refuses the login.
    ///
    /// # Errors
    /// When the master cannot be asked.
    pub async fn make_token(&self, login: &Login) -> Result<Option<String>, Error> {
        let mut load = login.fields();
        load.insert("cmd", "mk_token");
        let answer = self.send(Envelope::clear(load)).await?;
        Ok(answer.get("token").and_then(Value::as_str).filter(|token| !token.is_empty()).map(str::to_owned))
    }
}
