//! Clear commands of local users beside `publish`: tokens, runners and wheel functions.

use value::{Map, Value};

use super::field::load;

load! {
    /// Asks for the data of a token.
    pub struct GetToken {
        cmd "get_token";
        /// The token.
        pub token: String,
    }
}

load! {
    /// Asks for a token. The credentials of the `eauth` are in `extra`.
    pub struct MakeToken {
        cmd "mk_token";
        /// The kind of authentication.
        pub eauth: String,
        /// The requested lifetime of the token in seconds.
        pub token_expire: Option<Value>,
    }
}

macro_rules! called_function {
    ($(#[$meta:meta])* $name:ident, $cmd:literal) => {
        load! {
            $(#[$meta])*
            pub struct $name {
                cmd $cmd;
                /// The function.
                pub fun: String,
                /// Positional arguments.
                pub arg: Option<Value>,
                /// Keyword arguments.
                pub kwarg: Option<Map>,
                /// The local user.
                pub user: Option<String>,
                /// The local user's key.
                pub key: Option<String>,
                /// A token instead of the key.
                pub token: Option<String>,
                /// A kind of external authentication instead of the key; its credentials are in `extra`.
                pub eauth: Option<String>,
            }
        }
    };
}

called_function!(
    /// Run a runner; the result comes as an event.
    RunnerRequest, "runner"
);
called_function!(
    /// Run a wheel function and wait for it; its keyword arguments may also be in `extra`.
    WheelRequest, "wheel"
);
