//! Functions that all init systems with scripts share: they run the script of a service with a command.

/// Defines `start`, `stop`, `restart`, `reload` and `status` of a module. The place of use must have `script(ctx, name,
/// command)`, which runs a script and returns whether it succeeded, and `all(ctx)`, the names of services.
// A macro and no function, since the functions' tables must be in each module.
macro_rules! run_scripts {
    () => {
        /// Starts a service.
        ///
        /// CLI Example:
        ///
        /// .. code-block:: bash
        ///
        ///     salt '*' service.start <service name>
        #[function]
        fn start(ctx: &Context, name: String) -> Result<bool> {
            script(ctx, &name, "start")
        }

        /// Stops a service.
        ///
        /// CLI Example:
        ///
        /// .. code-block:: bash
        ///
        ///     salt '*' service.stop <service name>
        #[function]
        fn stop(ctx: &Context, name: String) -> Result<bool> {
            script(ctx, &name, "stop")
        }

        /// Restarts a service.
        ///
        /// CLI Example:
        ///
        /// .. code-block:: bash
        ///
        ///     salt '*' service.restart <service name>
        #[function]
        fn restart(ctx: &Context, name: String) -> Result<bool> {
            script(ctx, &name, "restart")
        }

        /// Reloads the configuration of a service.
        ///
        /// CLI Example:
        ///
        /// .. code-block:: bash
        ///
        ///     salt '*' service.reload <service name>
        #[function(name = "reload")]
        fn reload(ctx: &Context, name: String) -> Result<bool> {
            script(ctx, &name, "reload")
        }

        /// Returns whether a service runs; for a pattern a map. With ``sig`` whether processes of that name run.
        ///
        /// CLI Example:
        ///
        /// .. code-block:: bash
        ///
        ///     salt '*' service.status <service name>
        #[function]
        fn status(
            ctx: &Context,
            name: String,
            #[default(::value::Value::Null)] sig: ::value::Value,
        ) -> Result<::value::Value> {
            if sig.truthy() {
                return super::runs_as(ctx, &sig);
            }
            let names = match super::is_pattern(&name) {
                true => all(ctx)?.into_iter().filter(|known| targeting::fnmatch(known, &name)).collect(),
                false => vec![name.clone()],
            };
            let mut found = Vec::new();
            for service in names {
                let runs = script(ctx, &service, "status")?;
                found.push((service, runs));
            }
            Ok(super::answer(&name, found))
        }
    };
}

pub(super) use run_scripts;
