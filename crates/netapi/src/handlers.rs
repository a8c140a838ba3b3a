//! What each route does.

use std::sync::Arc;

use axum::http::header::{self, HeaderName};
use axum::http::{Method, StatusCode};
use value::{Map, Value, map};

use crate::api::Api;
use crate::exchange::{ReceivedRequest, Reply, Resource};
use crate::failure::Failure;
use crate::low::{self, BUILT};
use crate::{cookie, events, files, hook, keys};

/// Answers a request.
///
/// # Errors
/// When the request is wrong or not permitted, or the master does not answer.
pub async fn handle(api: &Arc<Api>, resource: Resource, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let posts = request.method == Method::POST;
    match (resource, posts) {
        (Resource::Root | Resource::Run, false) => Ok(welcome()),
        (Resource::Root, true) => {
            let token = request.logged_in()?.session.token.as_str();
            Ok(map! { "return" => run_all(api, request.commands()?, Some(token)).await? }.into())
        }
        (Resource::Run, true) => {
            let commands = request.commands()?;
            for command in &commands {
                api.check_address(command, request.address).await?;
            }
            Ok(map! { "return" => run_all(api, commands, None).await? }.into())
        }
        (Resource::Login, false) => Ok(please_log_in()),
        (Resource::Login, true) => log_in(api, request).await,
        (Resource::Logout, _) => log_out(api, request).await,
        (Resource::Minions, false) => minions(api, request).await,
        (Resource::Minions, true) if request.rest.is_empty() => publish(api, request).await,
        (Resource::Minions, true) => Err(Failure::new(404, "Nothing matches the given URI")),
        (Resource::Jobs, _) if request.rest.is_empty() => jobs(api, request).await,
        (Resource::Jobs, _) => job(api, request).await,
        (Resource::Keys, false) => keys::show(api, request).await,
        (Resource::Keys, true) => keys::make(api, request).await,
        (Resource::Token, _) => tokens(api, request).await,
        (Resource::Events, _) => {
            let caller = request.confirmed(api).await?.clone();
            events::stream(api.clone(), caller).await
        }
        // Served before: its answer is no answer to a request with a body.
        (Resource::WebSocket, _) => Err(Failure::unexpected()),
        (Resource::Hook, _) => hook::fire(api, request).await,
        (Resource::Static | Resource::App | Resource::Favicon, _) => file(api, resource, request).await,
        (Resource::Stats, _) => {
            if api.options.statistics_login {
                request.confirmed(api).await?;
            }
            Ok(api.statistics().into())
        }
    }
}

fn welcome() -> Reply {
    map! { "return" => "Welcome", "clients" => BUILT.map(Value::from).to_vec() }.into()
}

fn please_log_in() -> Reply {
    let more = vec![(header::WWW_AUTHENTICATE, "Session".to_owned())];
    Reply::Data(StatusCode::OK, map! { "status" => Value::Null, "return" => "Please log in" }.into(), more)
}

async fn log_in(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let login =
        request.commands()?.into_iter().next().ok_or_else(|| Failure::bad_request("Lowstates must be a list"))?;
    let (id, told) = api.log_in(&login, request.address).await?;
    // The old session goes on, as in Salt: other programs may use it. It never becomes that of the new login.
    let made = cookie::session_cookie(&id, api.now(), api.options.tls.is_some());
    let more = vec![(HeaderName::from_static("x-auth-token"), id), (header::SET_COOKIE, made)];
    Ok(Reply::Data(StatusCode::OK, map! { "return" => vec![told] }.into(), more))
}

async fn log_out(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    api.log_out(request.logged_in()?).await;
    let more = vec![(header::SET_COOKIE, cookie::no_cookie(api.options.tls.is_some()))];
    Ok(Reply::Data(StatusCode::OK, map! { "return" => "Your token has been cleared" }.into(), more))
}

/// Opens the file that a route stands for.
async fn file(api: &Arc<Api>, resource: Resource, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let (shared, rest) = (api.clone(), request.rest.clone());
    let opened = api.blocking(move || {
        let options = &shared.options;
        match (resource, &options.files, &options.app, &options.favicon) {
            (Resource::Static, Some(files), ..) => files::open_below(&files.place, &rest),
            (Resource::App, _, Some(app), _) => files::open_named("app", &app.file),
            (Resource::Favicon, .., Some(icon)) => files::open_named("favicon", icon),
            _ => Err(Failure::new(404, "Nothing matches the given URI")),
        }
    });
    let opened = opened.await.map_err(|failure| match failure.status {
        404 => Failure::not_found(&request.path),
        _ => failure,
    })?;
    let modified = opened.modified.map(cookie::httpdate);
    // Clients send the time that they were told.
    match request.header("if-modified-since") {
        Some(since) if modified.as_deref() == Some(since) => Ok(Reply::Unchanged(since.to_owned())),
        _ => Ok(Reply::File(opened, modified)),
    }
}

/// Carries out commands, one after the other. The first that fails is the answer; those before it have happened.
async fn run_all(api: &Arc<Api>, commands: Vec<Map>, token: Option<&str>) -> Result<Vec<Value>, Failure> {
    let today = today(api);
    let mut returns = Vec::new();
    for command in commands {
        let command = low::read(command, token, &api.options.clients, &today)?;
        returns.extend(api.link.run(command).await?);
    }
    Ok(returns)
}

/// Returns how job ids of today begin.
fn today(api: &Api) -> String {
    let now = jiff::Timestamp::try_from(api.now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::fmt::strtime::format("%Y%m%d", now).unwrap_or_default()
}

async fn minions(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let token = request.logged_in()?.session.token.as_str();
    let target = if request.rest.is_empty() { "*" } else { request.rest.as_str() };
    let command = map! { "client" => "local", "tgt" => target, "fun" => "grains.items" };
    Ok(map! { "return" => run_all(api, vec![command], Some(token)).await? }.into())
}

async fn publish(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let token = request.logged_in()?.session.token.as_str();
    let mut commands = request.commands()?;
    for command in &mut commands {
        command.insert("client", "local_async");
    }
    let published = run_all(api, commands, Some(token)).await?;
    let jids = published.iter().filter_map(|job| job.get("jid")?.as_str());
    let links: Vec<Map> = jids.map(|jid| map! { "href" => format!("{}/jobs/{jid}", api.options.prefix) }).collect();
    let answer = map! { "return" => published, "_links" => map! { "jobs" => links } };
    Ok(Reply::Data(StatusCode::ACCEPTED, answer.into(), Vec::new()))
}

async fn jobs(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let listed = api.call(&request.logged_in()?.session.token, "runner", "jobs.list_jobs", Map::new()).await?;
    Ok(map! { "return" => vec![listed] }.into())
}

async fn job(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let token = &request.logged_in()?.session.token;
    if !wire::Jid::is_valid(&request.rest) {
        return Err(Failure::bad_request("The path has no valid job id"));
    }
    let info = api.call(token, "runner", "jobs.list_job", map! { "jid" => request.rest.as_str() }).await?;
    let result = info.get("Result").and_then(Value::as_map);
    let returns: Map = result
        .into_iter()
        .flatten()
        .map(|(id, result)| (id.clone(), result.get("return").cloned().unwrap_or_default()))
        .collect();
    Ok(map! { "info" => vec![info], "return" => vec![returns] }.into())
}

/// Makes tokens for users who may call the runner `auth.mk_token`.
async fn tokens(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let mut made = Vec::new();
    for login in request.commands()? {
        let mut credentials = Map::new();
        for name in ["username", "password", "eauth"] {
            let text = login
                .get_str(name)
                .ok_or_else(|| Failure::bad_request("Require \"username\", \"password\", and \"eauth\" params"))?;
            credentials.insert(name, text);
        }
        low::check_enabled("runner", &api.options.clients)?;
        made.push(api.make_token(credentials, request.address).await?.into());
    }
    Ok(Reply::Data(StatusCode::OK, Value::List(made), Vec::new()))
}
