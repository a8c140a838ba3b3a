//! The handler of each command.

use value::map;
use wire::Command;
use wire::command::Origin;

use super::{
    Answer, Handler, MasterRequest, alive, event, file, functions, held, mine, missed, opts, peer, peer_return, pillar,
    publish, resources, return_, revoke, sharing, status, syndic, token,
};

/// Returns the handler of a command. `None` if it is unknown, or if another kind of sender sends it.
pub fn handler(cmd: &str, origin: Origin) -> Option<Handler> {
    Command::from_name(cmd).filter(|command| command.origin() == origin).map(handler_of)
}

fn handler_of(command: Command) -> Handler {
    match command {
        Command::Ping => ping,
        Command::Publish => publish::handle,
        Command::Runner => functions::runner,
        Command::Wheel => functions::wheel,
        Command::GetToken => token::get,
        Command::MakeToken => token::make,
        Command::Alive => alive::handle,
        Command::Away => alive::away,
        Command::HeldJobs => held::list,
        Command::JobProgress => held::job,
        Command::DropJob => held::drop_job,
        Command::Sharing => sharing::handle,
        Command::Status => status::handle,
        Command::Return => return_::handle,
        Command::MinionEvent => event::handle,
        Command::ServeFile => file::serve,
        Command::FileHash
        | Command::FileHashAndStat
        | Command::FileFind
        | Command::FileList
        | Command::FileListEmptyDirs
        | Command::DirList
        | Command::SymlinkList
        | Command::FileEnvs => file::handle,
        Command::FileReceive => file::receive,
        Command::Pillar => pillar::handle,
        Command::MasterOpts => opts::options,
        Command::MasterTops => opts::tops,
        Command::Mine => mine::store,
        Command::MineGet => mine::get,
        Command::MineDelete => mine::delete,
        Command::MineFlush => mine::flush,
        Command::SyndicReturn => syndic::handle,
        Command::RegisterResources => resources::handle,
        Command::PeerPublish => peer::publish,
        Command::PeerPublishAndWait => peer::publish_and_wait,
        Command::PeerRunner => peer::runner,
        Command::PeerReturns => peer::returns,
        Command::ReturnForPeer => peer_return::handle,
        Command::RevokeAuth => revoke::handle,
        Command::MissedJobs => missed::missed,
        Command::ReceivedJobs => missed::received,
    }
}

/// The largest `ping` that is sent back, in bytes, because anyone can send one.
const ECHO: u64 = 1 << 10;

/// Sends the load back, or only the command if the load is large.
fn ping(ask: MasterRequest) -> Answer {
    if crate::bounds::map_size(&ask.load) <= ECHO { ask.load.into() } else { map! { "cmd" => "ping" }.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_others_are_unknown() {
        assert!(handler("_return", Origin::Minion).is_some());
        assert!(handler("_return", Origin::Program).is_none(), "anybody could return anything");
        assert!(handler("publish", Origin::Minion).is_none());
        assert!(handler("_auth", Origin::Program).is_none());
    }
}
