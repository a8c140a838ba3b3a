//! `smtp` — sends each return as a mail.

mod dialog;
mod gpg;
mod mail;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use render::{NoFiles, Renderer, Request};
use std::path::PathBuf;
use std::sync::Arc;
use value::{Map, Value};

use crate::{Error, Options, Result, Returner, World};
use dialog::Server;
use mail::Mail;

/// The options. `tls_verify` is not one of Salt's.
const NAMES: [&str; 13] = [
    "from",
    "to",
    "host",
    "port",
    "username",
    "password",
    "subject",
    "gpgowner",
    "fields",
    "tls",
    "renderer",
    "template",
    "tls_verify",
];

/// The text of a mail without a template.
const TEMPLATE: &str = "id: {{id}}\r\nfunction: {{fun}}\r\nfunction args: {{fun_args}}\r\njid: {{jid}}\r\n\
                        return: {{return}}\r\n";

/// Sends mails.
pub struct Smtp;

impl Returner for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["smtp_return"]
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(send(world, ret))
    }

    fn events<'a>(&'a self, world: &'a World, events: &'a [Value]) -> Option<BoxFuture<'a, Result<()>>> {
        Some(Box::pin(async move {
            for data in events.iter().filter_map(|event| event.get("data")?.as_map()).filter(|data| !data.is_empty()) {
                send(world, data).await?;
            }
            Ok(())
        }))
    }
}

async fn send(world: &World, ret: &Map) -> Result<()> {
    let options = Options::find(world, "smtp", &NAMES, Map::new(), Some(ret))?;
    let to: Vec<String> = options.required("to")?.split(',').map(|to| to.trim().to_owned()).collect();
    let from = options.required("from")?;
    let server = Server {
        host: options.required("host")?,
        port: options.number("port")?.unwrap_or(25),
        // Salt compares with `is True`: a text such as "yes" does not turn TLS on.
        tls: options.get("tls").and_then(Value::as_bool) == Some(true),
        verify: options.get("tls_verify").is_none_or(Value::truthy),
        login: options.text("username").zip(options.text("password")),
    };
    let (subject, mut body) = rendered(world, &options, ret).await?;
    if let Some(owner) = options.text("gpgowner") {
        body = gpg::encrypted(&owner, &to, &body).await?;
    }
    let now = Timestamp::try_from(world.rt.now()).map_err(Error::failed)?.to_zoned(TimeZone::system());
    let mail = Mail { from: &from, to: &to, subject: &subject, body: &body, date: now };
    dialog::send(&server, &from, &to, &mail.text()).await
}

/// The subject and the text of the mail.
async fn rendered(world: &World, options: &Options, ret: &Map) -> Result<(String, String)> {
    let engine = options.text("renderer").unwrap_or_else(|| "jinja".to_owned());
    let mut subject = options.text("subject").unwrap_or_else(|| "Email from Salt".to_owned());
    for field in options.text("fields").unwrap_or_default().split(',') {
        // A field that the return does not have is skipped, not an error.
        if let Some(value) = ret.get(field) {
            subject.push_str(&format!(" {value}"));
        }
    }
    let (ctx, template, ret) = (world.context().clone(), options.text("template").map(PathBuf::from), ret.clone());
    let rendering = world.rt.blocking(move || {
        // A template from the configuration must not fetch files from the master.
        let renderer = Renderer::new(ctx, Arc::new(NoFiles));
        let subject = render(&renderer, &engine, &subject, None, &ret)?;
        let body = match template {
            None => render(&renderer, &engine, TEMPLATE, None, &ret)?,
            Some(path) => {
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| {
                    Error::option(format!("smtp.template: failed to read {}: {error}", path.display()))
                })?;
                render(&renderer, &engine, &text, Some(path), &ret)?
            }
        };
        Ok((subject, body))
    });
    rendering.await.map_err(Error::failed)?
}

fn render(renderer: &Renderer, engine: &str, text: &str, path: Option<PathBuf>, ret: &Map) -> Result<String> {
    let request =
        Request { text, path: path.as_deref(), default: Some(engine), context: Some(ret), ..Request::default() };
    let rendered = renderer.render(&request).map_err(Error::failed)?;
    match rendered {
        // A template that renders to nothing gives an empty map.
        Value::Map(map) if map.is_empty() => Ok(String::new()),
        other => Ok(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;
    use crate::testing;

    async fn parts(opts: Map) -> (String, String) {
        let world = testing::world(map! { "smtp" => opts });
        let options = Options::find(&world, "smtp", &NAMES, Map::new(), None).unwrap();
        rendered(&world, &options, &testing::ret()).await.unwrap()
    }

    #[tokio::test]
    async fn subject_and_text_are_templates_over_the_fields_of_the_return() {
        let (subject, body) = parts(map! { "subject" => "{{ fun }}:", "fields" => "id,none,jid" }).await;
        assert_eq!(subject, "test.echo: web1 20240229131415678901");
        let expected = "id: web1\r\nfunction: test.echo\r\nfunction args: ['x']\r\njid: 20240229131415678901\r\n\
                        return: {'a': [1, 'ä']}\r\n";
        assert_eq!(body.trim_end(), expected.trim_end());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mail.j2");
        std::fs::write(&path, "User {{ user }}\n").unwrap();
        let (subject, body) = parts(map! { "template" => path.to_str().unwrap() }).await;
        assert_eq!((subject.as_str(), body.trim_end()), ("Email from Salt", "User root"));
    }

    #[tokio::test]
    async fn missing_options_are_named() {
        let error = Smtp.give(&testing::world(map! { "smtp.to" => "a@b" }), &testing::ret()).await.unwrap_err();
        assert_eq!(error.to_string(), "option 'smtp.from' is missing");
    }
}
