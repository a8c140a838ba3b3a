//! Calling functions within a job: by the entry of the table, or by name.

use value::{Map, Value};

use crate::function::{Body, Bound, Function};
use crate::registry::Registry;
use crate::{Call, Context, Error, Result, bind, bind_within};

impl Function<Context> {
    /// Calls the function from a plain one.
    ///
    /// # Errors
    /// Those of the function.
    pub fn call(&self, ctx: &Context, bound: Bound) -> Result<Value> {
        // Each call is a place where a killed job ends, so it begins nothing new.
        ctx.unless_killed();
        match self.body {
            Body::Plain(call) => call(ctx, bound),
            Body::Async(call) => ctx.wait(call(ctx, bound)),
        }
    }
}

impl Registry<Context> {
    /// Calls a function by name within a job.
    ///
    /// # Errors
    /// When there is no such function, the arguments do not fit, or the function fails.
    pub fn call(&self, ctx: &Context, fun: &str, call: Call) -> Result<Value> {
        let function = self.find(fun).map_err(|why| Error::NotAvailable(why.0))?;
        let bound = bind(function, call, &ctx.job.published())?;
        function.call(ctx, bound)
    }
}

impl Context {
    /// Calls another function by its Salt name, in the same job.
    pub fn call(&self, fun: &str, args: Vec<Value>) -> Result<Value> {
        self.call_with(fun, Call { args, kwargs: Map::new() })
    }

    /// Like [`Context::call`], with keyword arguments. As in Salt, the fields of the job are not passed on: a function
    /// that takes any keyword can distinguish a call by an operator from one by another function.
    pub fn call_with(&self, fun: &str, call: Call) -> Result<Value> {
        let agent = self.agent.clone();
        let function = agent.registry().find(fun).map_err(|why| Error::NotAvailable(why.0))?;
        let bound = bind_within(function, call)?;
        function.call(self, bound)
    }

    /// Calls a function whose name came from outside: from a template, a state's arguments, a configuration. Unlike
    /// [`Context::call_with`], within what `whitelist_modules` permits.
    pub fn call_permitted(&self, fun: &str, call: Call) -> Result<Value> {
        let agent = self.agent.clone();
        let function = agent.registry().find_permitted(fun).map_err(|why| Error::NotAvailable(why.0))?;
        let bound = bind_within(function, call)?;
        function.call(self, bound)
    }

    /// Calls a state function by its name, such as `file.managed`, and returns its result. As in Salt, `test` and
    /// everything else of the call is that of the caller.
    pub fn call_state(&self, fun: &str, call: Call) -> Result<Value> {
        let agent = self.agent.clone();
        let function = agent.states().find(fun).map_err(|why| Error::NotAvailable(why.0))?;
        let bound = bind_within(function, call)?;
        function.call(self, bound)
    }

    /// Calls a function by its Salt name for an asynchronous caller, on a thread for blocking work.
    ///
    /// # Errors
    /// As [`Context::call_with`].
    pub async fn call_apart(&self, fun: &str, call: Call) -> Result<Value> {
        let fun = fun.to_owned();
        self.apart(move |ctx| ctx.call_with(&fun, call)).await
    }
}
