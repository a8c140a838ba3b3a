//! One connection to the server, shared by all requests.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
};

use super::Server;
use crate::banks::Failure;

/// Longer than any request waits, so that the caller decides.
const LONG: Duration = Duration::from_secs(10);

pub(super) struct Connection {
    client: Client,
    open: Mutex<Option<MultiplexedConnection>>,
}

impl Connection {
    pub(super) fn new(server: &Server) -> Result<Self, Failure> {
        let address = match &server.socket {
            Some(path) => ConnectionAddr::Unix(path.clone()),
            None => ConnectionAddr::Tcp(server.host.clone(), server.port),
        };
        // Servers before 7.2 do not know the command that names the client.
        let mut login = RedisConnectionInfo::default().set_db(server.db).set_skip_set_lib_name();
        if let Some(password) = &server.password {
            login = login.set_password(password);
        }
        let info = address.into_connection_info().map_err(Failure::new)?.set_redis_settings(login);
        Ok(Connection { client: Client::open(info).map_err(Failure::new)?, open: Mutex::default() })
    }

    /// Sends commands in one round trip. If the connection was closed since the last request, they are sent again over
    /// another one; all of them can be repeated.
    pub(super) async fn send<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, Failure> {
        let open = self.open().clone();
        if let Some(mut open) = open {
            match commands.query_async(&mut open).await {
                Err(error) if error.is_connection_dropped() || error.is_io_error() => self.reconnect(),
                other => return other.map_err(Failure::new),
            }
        }
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(LONG)).set_response_timeout(Some(LONG));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let mut fresh = connecting.await.map_err(Failure::new)?;
        let answer = commands.query_async(&mut fresh).await.map_err(Failure::new);
        *self.open() = Some(fresh);
        answer
    }

    pub(super) fn reconnect(&self) {
        *self.open() = None;
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
