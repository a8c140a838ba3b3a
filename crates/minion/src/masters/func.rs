//! `master_type: func`: a function of a module names the masters, once, before any connection.

use std::sync::Arc;

use config::{MasterAddress, MasterType};
use exec::{Call, Context};
use tracing::info;
use value::Value;

use crate::Error;

/// Returns the masters that the options name, or that their function names.
///
/// # Errors
/// When there is no such function, it fails, or what it returns names no masters.
pub async fn masters(config: &config::Minion, ctx: &Context) -> Result<Vec<MasterAddress>, Error> {
    if config.links.master_type != MasterType::Func {
        return Ok(config.masters.clone());
    }
    let fun = config.links.master.as_str().unwrap_or_default();
    let registry = ctx.agent.registry();
    // `find`, not `find_permitted`: the operator's own configuration names the function.
    if registry.find(fun).is_err() {
        return Err(Error::MasterFunction(format!("Failed to load module {fun}")));
    }
    let named = fun.to_owned();
    let value = ctx.apart(move |ctx| Arc::clone(&ctx.agent).registry().call(ctx, &named, Call::default())).await;
    let value = value.map_err(|reason| Error::MasterFunction(format!("{fun} failed: {reason}")))?;
    let masters = read(config, fun, &value)?;
    info!("Evaluated master from module: {fun}");
    Ok(masters)
}

fn read(config: &config::Minion, fun: &str, value: &Value) -> Result<Vec<MasterAddress>, Error> {
    if !matches!(value, Value::Str(_) | Value::List(_)) {
        return Err(Error::MasterFunction(format!("{value} returned from {fun} is not a string")));
    }
    let links = &config.links;
    let read = config::parse_masters(value, links.master_uri_format, links.master_port);
    read.map_err(|must| Error::MasterFunction(format!("{fun} must return {must}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::{Module, Result, function, testing};
    use value::{list, map};

    /// Names one.
    #[function]
    fn one() -> Result<String> {
        Ok("10.0.0.1:4510".to_owned())
    }

    /// Names two.
    #[function]
    fn two() -> Result<Value> {
        Ok(list!["a", "b"])
    }

    /// Names none.
    #[function]
    fn none() -> Result<Value> {
        Ok(7.into())
    }

    static MODULE: Module = Module::new("where", "", &[&NONE, &ONE, &TWO]);

    async fn named(fun: &str) -> std::result::Result<Vec<String>, String> {
        let options = map! { "master_type" => "func", "master" => fun, "id" => "m" };
        let config = config::Minion::from_options(options).unwrap();
        let (ctx, _) = testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let named = masters(&config, &ctx).await;
        named.map(|all| all.iter().map(ToString::to_string).collect()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_function_names_one_master_or_several() {
        assert_eq!(named("where.one").await, Ok(vec!["10.0.0.1:4510".to_owned()]));
        assert_eq!(named("where.two").await, Ok(vec!["a:4506".to_owned(), "b:4506".to_owned()]));
        assert_eq!(named("where.none").await, Err("7 returned from where.none is not a string".to_owned()));
        assert_eq!(named("where.lost").await, Err("Failed to load module where.lost".to_owned()));
    }
}
