//! The console: pages for people, rendered here, on the same port as the interface for programs.
//!
//! Each page is whole without JavaScript; the script adds live parts and keys. A page shows what the session's user may know, which
//! the master decides for each request. All text of minions, users and events goes through [`text`].

mod access;
mod again;
mod assets;
mod decisions;
mod door;
mod drift;
mod events;
mod form;
mod highstate;
mod job;
mod jobs;
mod keys;
mod layout;
mod manual;
mod minion;
mod minions;
mod output;
mod overview;
mod publish;
mod run;
mod states;
mod text;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};

use self::form::Fields;
use self::view::View;
use crate::accept::reads_gzip;
use crate::api::{Api, Caller};
use crate::exchange::{Client, Peer, text as header_text};
use crate::failure::Failure;
use crate::logins::CLIENT;
use crate::origin::may_use_cookie;
use crate::{cookie, incoming, pack};

/// What a browser may load and do: nothing but the console's own files, and no script in a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; \
                      trusted-types saltern";

/// How long a page may take. A master that takes longer does not answer.
const LONGEST_PAGE: Duration = Duration::from_secs(5);

/// What a page answers.
pub enum Answer {
    /// A page.
    Page(StatusCode, Markup),
    /// Another address below the console.
    Moved(String),
    /// Another address below the console, with a cookie.
    Cookie(String, String),
    /// A text to keep, with the name of its file.
    File(String, String),
    /// A style sheet, a script or an icon.
    Asset(&'static assets::Asset),
}

impl From<Markup> for Answer {
    fn from(page: Markup) -> Self {
        Answer::Page(StatusCode::OK, page)
    }
}

/// A request for a page.
struct PageRequest<'a> {
    /// True for a form that was sent.
    posts: bool,
    /// The parts of the path below the console.
    path: Vec<&'a str>,
    /// The fields of the address.
    query: Fields,
    /// The fields of the form.
    form: Fields,
    caller: Option<Caller>,
}

/// Answers a request for the console.
pub async fn serve(api: Arc<Api>, rest: String, request: Request) -> Response {
    api.count();
    let base = format!("{}/console", api.options.prefix);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let gzip = reads_gzip(header_text(request.headers(), "accept-encoding"));
    let mut client = Client::of(&request);
    let answer = match received(&api, &base, &rest, request, &mut client).await {
        Ok(answer) => answer,
        Err(failure) => refused(&base, &failure),
    };
    let response = packed(answer, gzip);
    tracing::info!("{client}{method} {path}: {}", response.status().as_u16());
    response
}

/// Checks a request, reads its form and makes the page. Notes in `client` who the user is.
async fn received(
    api: &Arc<Api>,
    base: &str,
    rest: &str,
    request: Request,
    client: &mut Client,
) -> Result<Answer, Failure> {
    let address = request.extensions().get::<Peer>().map(|peer| peer.0).ok_or_else(Failure::unexpected)?;
    if !api.options.serves(&address.to_string()) {
        return Err(Failure::new(403, "Bad IP"));
    }
    let posts = request.method() == Method::POST;
    if !posts && !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Failure::new(405, "Specified method is invalid for this resource"));
    }
    let path: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    if let ["assets", name] = path.as_slice() {
        return assets::find(name).map(Answer::Asset).ok_or_else(|| Failure::new(404, "There is no such file"));
    }
    let provenance = incoming::provenance(request.headers());
    if posts && !may_use_cookie(provenance) {
        return Err(Failure::new(403, "A page of another site may not send this form"));
    }
    let caller = api.caller(None, cookie::session_id(request.headers()).as_deref(), address).await?;
    client.note(caller.as_ref());
    let query = Fields::parse(request.uri().query().unwrap_or_default().as_bytes())?;
    let form = match posts {
        true => {
            let (parts, body) = request.into_parts();
            let room = api.body_rooms.of(caller.as_ref().map(|caller| &caller.session));
            let (body, _kept) = incoming::read_body(&parts.headers, body, api.options.most_body, &room).await?;
            form::read(header_text(&parts.headers, "content-type"), &body)?
        }
        false => Fields::default(),
    };
    let request = PageRequest { posts, path, query, form, caller };
    CLIENT.scope(address, answered(api, base, request, address)).await
}

async fn answered(
    api: &Arc<Api>,
    base: &str,
    request: PageRequest<'_>,
    address: std::net::IpAddr,
) -> Result<Answer, Failure> {
    match (request.posts, request.path.as_slice()) {
        (false, ["login"]) => return Ok(door::show(api, base, &request.query, None)),
        (true, ["login"]) => return door::log_in(api, base, &request.form, request.caller.as_ref(), address).await,
        _ => {}
    }
    let Some(caller) = &request.caller else {
        return match (request.posts, request.path.as_slice()) {
            (true, ["logout"]) | (false, _) => Ok(to_door(base, &request)),
            (true, _) => Ok(door::show(api, base, &request.query, Some(&Failure::new(401, ENDED)))),
        };
    };
    if let (true, ["logout"]) = (request.posts, request.path.as_slice()) {
        api.log_out(caller).await;
        return Ok(Answer::Cookie(format!("{base}/login"), cookie::no_cookie(api.options.tls.is_some())));
    }
    let view = View::new(api, caller, base, &request.query);
    match in_time(&view, &request).await {
        Ok(answer) => Ok(answer),
        // The master refuses a token that was revoked; then it is the session that has ended, and not a right that is missing.
        Err(failure) if failure.status == 401 && !api.is_confirmed(caller).await? => match request.posts {
            true => Ok(door::show(api, base, &request.query, Some(&Failure::new(401, ENDED)))),
            false => Ok(to_door(base, &request)),
        },
        Err(failure) => Ok(view.failed(&failure, !request.posts)),
    }
}

/// Makes a page within its time. What a form starts is waited for: a page that gives up would say nothing about it.
async fn in_time(view: &View<'_>, request: &PageRequest<'_>) -> Result<Answer, Failure> {
    let is_download = matches!(request.path.as_slice(), ["jobs", _, "returns", _]);
    if request.posts || is_download {
        return page(view, request).await;
    }
    match tokio::time::timeout(LONGEST_PAGE, page(view, request)).await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::warn!("the master does not answer within {LONGEST_PAGE:?}: no page");
            Err(Failure::no_master())
        }
    }
}

async fn page(view: &View<'_>, request: &PageRequest<'_>) -> Result<Answer, Failure> {
    match (request.posts, request.path.as_slice()) {
        (false, []) => overview::show(view).await,
        (false, ["minions"]) => minions::show(view, &request.query).await,
        (false, ["minions", id]) => minion::show(view, id, &request.query).await,
        (true, ["minions", id]) => minion::ask(view, id, &request.form).await,
        (false, ["keys"]) => keys::show(view, &request.query).await,
        (true, ["keys"]) => keys::decide(view, &request.form).await,
        (false, ["keys", "decisions"]) => decisions::show(view, &request.query).await,
        (true, ["keys", "undo"]) => decisions::undo(view, &request.form).await,
        (true, ["keys", "settle"]) => decisions::settle(view, &request.form).await,
        (false, ["jobs"]) => jobs::show(view, &request.query).await,
        (false, ["jobs", jid]) => job::show(view, jid, &request.query).await,
        (false, ["jobs", jid, "returns", id]) => job::download(view, jid, id).await,
        (true, ["jobs", jid, "kill"]) => job::kill(view, jid).await,
        (false, ["highstate"]) => highstate::latest(view).await,
        (false, ["highstate", jid]) => highstate::show(view, jid, &request.query).await,
        (false, ["drift", kind]) => drift::show(view, kind).await,
        (false, ["events"]) => events::show(view).await,
        (false, ["run"]) => run::show(view, &request.query).await,
        (true, ["run"]) => run::run(view, &request.form).await,
        (false, ["access"]) => access::show(view).await,
        _ => Err(Failure::new(404, "There is no such page")),
    }
}

/// What the login says about a form that was sent without a session.
const ENDED: &str = "Your session has ended. Nothing was done with the form: log in and send it again.";

/// Leads to the login, and from there back to the page.
fn to_door(base: &str, request: &PageRequest<'_>) -> Answer {
    let mut back = request.path.iter().map(|part| text::in_path(part)).collect::<Vec<_>>().join("/");
    if let Some(query) = request.query.packed().filter(|_| !request.posts) {
        back = format!("{back}?{query}");
    }
    match request.posts || back.is_empty() {
        true => Answer::Moved(format!("{base}/login")),
        false => Answer::Moved(format!("{base}/login?next={}", text::in_path(&back))),
    }
}

fn refused(base: &str, failure: &Failure) -> Answer {
    let body = html! {
        p { (text::inline(&failure.message)) }
        a.button href={ (base) "/" } { "To the console" }
    };
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Answer::Page(status, layout::door(base, pack::reason(failure.status), &body))
}

fn packed(answer: Answer, gzip: bool) -> Response {
    let mut more: Vec<(HeaderName, String)> = Vec::new();
    let mut status = StatusCode::OK;
    let (kind, body) = match answer {
        Answer::Page(said, page) => {
            status = said;
            ("text/html;charset=utf-8", compressed(page.into_string().into_bytes(), gzip, &mut more))
        }
        Answer::Moved(place) => {
            status = StatusCode::SEE_OTHER;
            more.push((header::LOCATION, place));
            ("text/plain;charset=utf-8", Vec::new())
        }
        Answer::Cookie(place, cookie) => {
            status = StatusCode::SEE_OTHER;
            more.extend([(header::LOCATION, place), (header::SET_COOKIE, cookie)]);
            ("text/plain;charset=utf-8", Vec::new())
        }
        Answer::File(name, text) => {
            more.push((header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")));
            ("text/plain;charset=utf-8", compressed(text.into_bytes(), gzip, &mut more))
        }
        Answer::Asset(asset) => {
            more.push((header::CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()));
            more.push((header::VARY, "Accept-Encoding".to_owned()));
            match asset.packed.as_ref().filter(|_| gzip) {
                Some(packed) => {
                    more.push((header::CONTENT_ENCODING, "gzip".to_owned()));
                    (asset.kind, packed.clone())
                }
                None => (asset.kind, asset.text.to_vec()),
            }
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in more {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

/// Compresses a page, if the browser reads that and the page is long enough.
fn compressed(body: Vec<u8>, gzip: bool, more: &mut Vec<(HeaderName, String)>) -> Vec<u8> {
    more.push((header::VARY, "Accept-Encoding".to_owned()));
    let packed = std::str::from_utf8(&body).ok().filter(|_| gzip).and_then(pack::gzip);
    match packed {
        Some(packed) => {
            more.push((header::CONTENT_ENCODING, "gzip".to_owned()));
            packed
        }
        None => body,
    }
}
