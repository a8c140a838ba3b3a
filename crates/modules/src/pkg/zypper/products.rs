//! Products, and packages as files.

use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use super::call::{Zypper, attribute, attributes, parsed};
use super::{below, repos, root_of};
use crate::lowpkg::rpm as lowpkg;
use crate::pkg::yum;

/// Returns the products that are installed, or all that are available.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_products
///     salt '*' pkg.list_products all=True
#[function]
fn list_products(
    ctx: &Context,
    #[default(false)] all: bool,
    #[default(false)] refresh: bool,
    root: Option<String>,
) -> Result<Value> {
    if refresh {
        repos::refresh(ctx, root.as_deref(), &Map::new())?;
    }
    Ok(products(ctx, all, root.as_deref())?.into_iter().map(Value::from).collect())
}

pub(super) fn products(ctx: &Context, all: bool, root: Option<&str>) -> Result<Vec<Map>> {
    // Without the repos the answer comes at once and names the installed ones.
    let words: &[&str] = if all { &["products"] } else { &["--disable-repositories", "products", "-i"] };
    let said = Zypper::looking(root).call(ctx, words)?;
    let answer = parsed(&said.stdout)?;
    let Some(list) = answer.descendants().find(|node| node.has_tag_name("product-list")) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<Map> = list.descendants().filter(|node| node.has_tag_name("product")).map(product).collect();
    for product in &mut found {
        // Registered OEM products keep their release in a separate file.
        if let Some(line) = product.get_str("productline") {
            let path = below(ctx, root, &format!("/var/lib/suseRegister/OEM/{line}"));
            let release = std::fs::read_to_string(&path).unwrap_or_default();
            let release = release.lines().next().unwrap_or_default().trim().to_owned();
            if !release.is_empty() {
                product.insert("release", release);
            }
        }
    }
    Ok(found)
}

fn product(node: roxmltree::Node) -> Map {
    let mut found = Map::new();
    for (key, value) in attributes(node) {
        let text = value.to_string();
        match key.as_str() {
            Some("isbase" | "installed") => drop(found.insert(key, ["true", "1"].contains(&text.as_str()))),
            _ if !text.is_empty() => drop(found.insert(key, text)),
            _ => {}
        }
    }
    let child = |name: &'static str| node.descendants().find(|node| node.has_tag_name(name));
    if let Some(end) = child("endoflife") {
        let end = attributes(end);
        found.insert("eol", attribute(&end, "text"));
        found.insert("eol_t", attribute(&end, "time_t").parse::<i64>().unwrap_or(0));
    }
    found.insert("description", child("description").map(text_of).unwrap_or_default());
    found
}

/// The text of an element in one line.
fn text_of(node: roxmltree::Node) -> String {
    let texts: Vec<&str> = node.children().filter(|child| child.is_text()).filter_map(|child| child.text()).collect();
    texts.join("\n").split('\n').map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Downloads packages without installing them and returns their paths; under ``_error`` those that failed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.download httpd
#[function]
fn download(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: Vec<String> = packages.0.iter().map(Value::to_string).collect();
    if names.is_empty() {
        return Err(Error::invocation("No packages specified"));
    }
    let kwargs = kwargs.given();
    let root = root_of(&kwargs);
    if kwargs.get("refresh").is_some_and(Value::truthy) {
        repos::refresh(ctx, root.as_deref(), &kwargs)?;
    }
    let mut words = vec!["download"];
    words.extend(names.iter().map(String::as_str));
    let said = Zypper { xml: true, ..Zypper::at(root.as_deref()) }.call(ctx, &words)?;
    let mut found = Map::new();
    for (name, entry) in downloads(&said.stdout)? {
        let path = entry.get("path").cloned().unwrap_or_default();
        let how = KwArgs(map! { "root" => root.clone() });
        let right = lowpkg::checksum(ctx, VarArgs(vec![path]), how)?;
        // A broken download is treated as none.
        if right.values().all(Value::truthy) {
            found.insert(name, entry);
        }
    }
    if found.is_empty() {
        return Err(Error::execution(format!("Unable to download packages: {}", names.join(", "))));
    }
    let failed: Vec<&str> = names.iter().map(String::as_str).filter(|name| !found.contains_key(name)).collect();
    if !failed.is_empty() {
        found.insert("_error", format!("The following package(s) failed to download: {}", failed.join(", ")));
    }
    Ok(found)
}

fn downloads(text: &str) -> Result<Vec<(String, Map)>> {
    let answer = parsed(text)?;
    let results = answer.descendants().filter(|node| node.has_tag_name("download-result"));
    let found = results.map(|result| {
        let child = |name: &'static str| result.descendants().find(|node| node.has_tag_name(name));
        let part = |name, key: &str| child(name).and_then(|node| node.attribute(key)).unwrap_or_default();
        let entry = map! {
            "repository-name" => part("repository", "name"), "repository-alias" => part("repository", "alias"),
            "path" => part("localfile", "path"),
        };
        (child("name").and_then(|node| node.text()).unwrap_or_default().to_owned(), entry)
    });
    Ok(found.collect())
}

/// Returns packages that were downloaded but not installed, by name and version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_downloaded
#[function]
fn list_downloaded(ctx: &Context, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    downloaded(ctx, root.as_deref())
}

pub(super) fn downloaded(ctx: &Context, root: Option<&str>) -> Result<Map> {
    yum::downloaded(ctx, Path::new(&below(ctx, root, "/var/cache/zypp/packages")))
}

/// Returns the differences between files and those of their packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.diff /etc/apache2/httpd.conf /etc/sudoers
#[function]
fn diff(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let kwargs = kwargs.given();
    let mut found = Map::new();
    let mut owned: Vec<(String, String)> = Vec::new();
    for path in paths.0.iter().map(Value::to_string) {
        let one = VarArgs(vec![path.as_str().into()]);
        let package = lowpkg::owner(ctx, one, KwArgs(kwargs.clone()))?.to_string();
        if package.is_empty() {
            found.insert(path.as_str(), if Path::new(&path).exists() { "Not managed" } else { "N/A" });
        } else {
            owned.push((package, path));
        }
    }
    if owned.is_empty() {
        return Ok(found);
    }
    let mut names: Vec<Value> = owned.iter().map(|(package, _)| package.as_str().into()).collect();
    names.dedup();
    let files = ctx.call_with("pkg.download", Call { args: names, kwargs })?;
    for (package, path) in owned {
        let file = files.get(&package).and_then(|entry| entry.get("path")).map(Value::to_string);
        let Some(file) = file else {
            found.insert(path, format!("{package} could not be downloaded"));
            continue;
        };
        let text = lowpkg::diff(ctx, file, path.clone())?;
        found.insert(path, if text.is_empty() { "Unchanged".to_owned() } else { text });
    }
    Ok(found)
}
