//! The `#[function]` attribute.
//!
//! It generates the code that binds arguments, and nothing else. From
//!
//! ```text
//! /// Returns the text it was given.
//! #[function]
//! fn echo(ctx: &Context, text: String, #[default(1)] times: i64, kwargs: KwArgs) -> Result<String> { … }
//! ```
//!
//! it leaves the function as it is and adds `pub static ECHO: Function` with the name, the documentation, the
//! parameters with their defaults, and a `body` that takes each argument in its type. The context parameter may be
//! left out. Parameters behind `VarArgs` can only be given by name. `#[function(name = "list", out = "highstate")]`
//! sets Salt's name and the outputter. A function that only waits may be an `async fn`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{FnArg, ItemFn, LitStr, Pat, PatType, Type, parse_macro_input};

/// Generates the table entry of an execution function. See the documentation of the crate.
#[proc_macro_attribute]
pub fn function(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let mut settings = Settings::default();
    let parser = syn::meta::parser(|meta| settings.parse(&meta));
    parse_macro_input!(attributes with parser);
    let item = parse_macro_input!(item as ItemFn);
    expand(&settings, item).unwrap_or_else(|error| error.to_compile_error()).into()
}

#[derive(Default)]
struct Settings {
    name: Option<LitStr>,
    out: Option<LitStr>,
}

impl Settings {
    fn parse(&mut self, meta: &syn::meta::ParseNestedMeta) -> syn::Result<()> {
        if meta.path.is_ident("name") {
            self.name = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("out") {
            self.out = Some(meta.value()?.parse()?);
        } else {
            return Err(meta.error("expected `name` or `out`"));
        }
        Ok(())
    }
}

/// The generated code for the parameters.
#[derive(Default)]
struct Parameters {
    context: Option<Tokens>,
    params: Vec<Tokens>,
    takes: Vec<Tokens>,
    names: Vec<Tokens>,
    varargs: Option<String>,
    kwargs: Option<String>,
}

fn expand(settings: &Settings, mut item: ItemFn) -> syn::Result<Tokens> {
    let doc = documentation(&item);
    let parameters = parameters(&mut item)?;
    let ident = &item.sig.ident;
    // Functions of Salt that are named like a keyword of Rust are raw identifiers, or end in an underscore.
    let plain = ident.to_string().trim_start_matches("r#").to_owned();
    let constant = format_ident!("{}", plain.trim_end_matches('_').to_uppercase());
    let name = settings.name.as_ref().map_or_else(|| plain.trim_end_matches('_').to_owned(), LitStr::value);
    let out = option(settings.out.as_ref().map(LitStr::value));
    let (varargs, kwargs) = (option(parameters.varargs), option(parameters.kwargs));
    let context = parameters.context.as_ref().map_or_else(|| quote!(), |context| quote!(<#context>));
    let Parameters { params, takes, names, .. } = parameters;
    let body = match item.sig.asyncness {
        None => quote!(Plain(|ctx, mut bound| {
            let _ = (&ctx, &mut bound);
            #(#takes)*
            self::#ident(#(#names),*).map(::core::convert::Into::into)
        })),
        Some(_) => quote!(Async(|ctx, mut bound| ::std::boxed::Box::pin(async move {
            let _ = (&ctx, &mut bound);
            #(#takes)*
            self::#ident(#(#names),*).await.map(::core::convert::Into::into)
        }))),
    };
    let summary = format!("The table entry of `{name}`.");
    // Absolute paths only: the code must compile whatever the module imports or defines.
    Ok(quote! {
        #[allow(clippy::too_many_arguments, reason = "the signature is Salt's")]
        #item

        #[doc = #summary]
        pub static #constant: ::exec::Function #context = ::exec::Function {
            name: #name,
            doc: #doc,
            params: &[#(#params),*],
            varargs: #varargs,
            kwargs: #kwargs,
            out: #out,
            body: ::exec::Body::#body,
        };
    })
}

fn option(text: Option<String>) -> Tokens {
    text.map_or_else(|| quote!(None), |text| quote!(Some(#text)))
}

fn documentation(item: &ItemFn) -> String {
    let lines = item.attrs.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    // The compiler keeps the space behind `///`, and users see this text.
    let lines: Vec<String> = lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned()).collect();
    lines.join("\n")
}

fn parameters(item: &mut ItemFn) -> syn::Result<Parameters> {
    let mut found = Parameters::default();
    for input in &mut item.sig.inputs {
        let FnArg::Typed(argument) = input else {
            return Err(syn::Error::new_spanned(input, "an execution function has no self"));
        };
        add_parameter(&mut found, argument)?;
    }
    Ok(found)
}

fn add_parameter(found: &mut Parameters, argument: &mut PatType) -> syn::Result<()> {
    let default = take_default(argument)?;
    let ident = match argument.pat.as_ref() {
        Pat::Ident(pattern) => pattern.ident.clone(),
        other => return Err(syn::Error::new_spanned(other, "a parameter needs a name")),
    };
    let kind = argument.ty.as_ref();
    let name = ident.to_string().trim_start_matches("r#").to_owned();
    // One underscore makes a word of Rust's a name; a second one is Salt's.
    let name = name.strip_suffix('_').map(str::to_owned).unwrap_or(name);
    if let Type::Reference(reference) = kind {
        let context = &reference.elem;
        found.context = Some(quote!(#context));
        found.names.push(quote!(ctx));
        return Ok(());
    }
    match last_segment(kind).as_deref() {
        Some("VarArgs") => {
            found.varargs = Some(name);
            found.takes.push(quote!(let #ident = bound.take_varargs();));
        }
        Some("KwArgs") => {
            found.kwargs = Some(name);
            found.takes.push(quote!(let #ident = bound.take_kwargs();));
        }
        kind_name => {
            let take = match (&default, kind_name) {
                // States and templates often pass null for a text that was not given to them. It means the default
                // then.
                (Some(default), Some("String")) => quote!(bound.take_text(#name, || ::value::Value::from(#default))),
                _ => quote!(bound.take::<#kind>(#name)),
            };
            let default = match (default, kind_name) {
                (Some(default), _) => quote!(Some(|| ::value::Value::from(#default))),
                // As in Python's `name=None`: an optional parameter can always be omitted.
                (None, Some("Option")) => quote!(Some(|| ::value::Value::Null)),
                (None, _) => quote!(None),
            };
            // As in Python, a parameter behind `*args` cannot be reached by position.
            let keyword_only = found.varargs.is_some();
            found.params.push(quote!(::exec::Param {
                name: #name, default: #default, keyword_only: #keyword_only
            }));
            found.takes.push(quote!(let #ident = #take?;));
        }
    }
    found.names.push(quote!(#ident));
    Ok(())
}

fn take_default(argument: &mut PatType) -> syn::Result<Option<syn::Expr>> {
    let place = argument.attrs.iter().position(|attribute| attribute.path().is_ident("default"));
    place.map(|place| argument.attrs.remove(place).parse_args()).transpose()
}

fn last_segment(kind: &Type) -> Option<String> {
    match kind {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}
