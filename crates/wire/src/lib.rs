//! Bytes without sockets: ZMTP, TCP and IPC frames, MessagePack, envelopes and loads.
