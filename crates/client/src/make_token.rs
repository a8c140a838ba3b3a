//! Asks the master for a token.

use value::{Map, Value};
use wire::envelope::Envelope;

use crate::local::{Error, LocalClient};
use crate::proof::Login;

impl LocalClient {
    /// Asks the master for a token. Returns `None` if it refuses the login.
    ///
    /// # Errors
    /// When the master cannot be asked.
    pub async fn make_token(&self, login: &Login) -> Result<Option<String>, Error> {
        let answer = self.ask_for_token(login.fields()).await?;
        Ok(answer.get("token").and_then(Value::as_str).filter(|token| !token.is_empty()).map(str::to_owned))
    }

    /// Asks the master for a token with these fields, and returns the answer: the map of the token, or an empty text.
    ///
    /// # Errors
    /// When the master cannot be asked.
    pub async fn ask_for_token(&self, mut fields: Map) -> Result<Value, Error> {
        self.check_running()?;
        fields.insert("cmd", "mk_token");
        self.send(Envelope::clear(fields)).await
    }
}
