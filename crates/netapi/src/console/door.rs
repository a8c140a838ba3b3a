//! The login.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use maud::html;
use value::map;

use super::form::Fields;
use super::text::inline;
use super::{Answer, layout};
use crate::api::{Api, Caller};
use crate::cookie;
use crate::failure::Failure;

/// Shows the form, and what was wrong with the last attempt.
pub fn show(api: &Api, base: &str, fields: &Fields, failure: Option<&Failure>) -> Answer {
    let backends = api.backends();
    let chosen = fields.get("eauth").unwrap_or_default();
    let body = html! {
        @if let Some(failure) = failure { div.notice.bad role="alert" { (inline(&failure.message)) } }
        @if backends.is_empty() {
            div.notice.warn { "Nobody can log in: the option external_auth of the master is empty." }
        }
        form.fields method="post" action={ (base) "/login" } {
            input type="hidden" name="next" value=(fields.get("next").unwrap_or_default());
            label { "User" input name="username" required autofocus autocomplete="username" autocapitalize="none"
                value=(fields.get("username").unwrap_or_default()); }
            label { "Password" input name="password" type="password" required autocomplete="current-password"; }
            @if let [only] = backends.as_slice() {
                input type="hidden" name="eauth" value=(only);
            } @else if !backends.is_empty() {
                label { "Backend" select name="eauth" {
                    @for backend in &backends { option selected[backend == chosen] { (inline(backend)) } }
                } }
            }
            button.main { "Log in" }
        }
    };
    let status = failure.and_then(|failure| StatusCode::from_u16(failure.status).ok()).unwrap_or(StatusCode::OK);
    Answer::Page(status, layout::door(base, "Log in", &body))
}

/// Logs a user in. The session has a new id, and whoever had the old one is logged out.
///
/// # Errors
/// When the master does not answer.
pub async fn log_in(
    api: &Arc<Api>,
    base: &str,
    form: &Fields,
    caller: Option<&Caller>,
    address: IpAddr,
) -> Result<Answer, Failure> {
    let login = map! {
        "username" => form.get("username").unwrap_or_default(), "password" => form.exact("password"),
        "eauth" => form.get("eauth").unwrap_or_default(),
    };
    let id = match api.log_in(&login, address).await {
        Ok((id, _)) => id,
        Err(failure) if matches!(failure.status, 401 | 429) => {
            return Ok(show(api, base, form, Some(&in_words(failure))));
        }
        Err(failure) => return Err(failure),
    };
    if let Some(old) = caller.and_then(|caller| caller.id.as_deref()) {
        api.end_session(old).await;
    }
    let place = format!("{base}/{}", form.get("next").filter(|next| is_page(next)).unwrap_or_default());
    Ok(Answer::Cookie(place, cookie::session_cookie(&id, api.now(), api.options.tls.is_some())))
}

fn in_words(failure: Failure) -> Failure {
    match failure.message.starts_with("Could not authenticate") {
        true => Failure::new(failure.status, "The user or the password is wrong, or the user has no rights."),
        false => failure,
    }
}

/// Returns whether a text is an address below the console: it is put behind the console's own address, so it cannot lead elsewhere
/// unless it has parts that go up.
fn is_page(next: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/?=&%+*:@,".contains(&byte);
    next.len() < 2000
        && next.bytes().all(plain)
        && !next.starts_with('/')
        && !next.to_ascii_lowercase().replace("%2e", ".").split(['/', '?']).any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_pages_of_the_console_only() {
        for page in ["jobs/20261126160511953300", "minions?q=web&after=a%20b", ""] {
            assert!(is_page(page), "{page}");
        }
        for other in
            ["/evil", "//evil.example", "..", "../x", "a/../../x", "a\\b", "a\r\nb", "x?../..", "a/%2E%2e/x", "é"]
        {
            assert!(!is_page(other), "{other}");
        }
    }
}
