use bytes::Bytes;
use value::{Map, Value, list, map};

use super::*;
use crate::envelope::Envelope;
use crate::msgpack::{self, Decode, Packing};
use crate::testing::{bytes, value, vectors};

fn read(input: &Bytes) -> Value {
    msgpack::unpack_bytes(input, Decode::Default).unwrap()
}

fn written(map: Map) -> Bytes {
    msgpack::pack(&map.into(), Packing::Wire).into()
}

#[test]
fn sign_in_requests_of_all_releases() {
    for case in vectors("signin")["requests"].as_array().unwrap() {
        let recorded = bytes(&case["wire_hex"]);
        let Ok(Envelope::Clear(mut clear)) = Envelope::decode(&recorded) else { panic!("clear") };
        assert_eq!(command(&clear.load), Some(AuthRequest::CMD));
        let request = AuthRequest::from_map(clear.load).unwrap();
        assert_eq!(request.id, "vecminion");
        assert!(request.extra.is_empty(), "{:?}", request.extra);
        clear.load = request.into_map();
        // Read and written back: the bytes show that no field is lost and that the order is Salt's.
        assert_eq!(Envelope::Clear(clear).encode(), recorded, "{}", case["name"]);
    }
}

#[test]
fn sign_in_replies_of_all_kinds() {
    for case in vectors("signin")["replies"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let recorded = bytes(&case["wire_hex"]);
        let reply = AuthReply::from_value(read(&recorded));
        assert_eq!(msgpack::pack(&reply.to_value(), Packing::Wire), recorded, "{name}");
        match (&reply, name) {
            (AuthReply::Signed { load, sig }, _) => {
                assert_eq!(load, &bytes(&case["inner_hex"]));
                assert_eq!(sig, &bytes(&case["sig_hex"]));
                let answer = AuthAnswer::decode(load).unwrap();
                assert_eq!(answer.encode(), load, "{name}");
                assert_eq!(answer.nonce(), Some("abcdef0123456789abcdef0123456789"));
                check_verdict(&answer, name);
            }
            (unsigned, "bad enc algo") => assert_eq!(unsigned, &AuthReply::bad_algorithm("enc")),
            (AuthReply::Malformed(text), "bad load") => assert_eq!(text, &Value::from("bad load")),
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
}

fn check_verdict(answer: &AuthAnswer, name: &str) {
    let verdict = match name {
        "pending" => Verdict::Pending,
        "rejected" => Verdict::Rejected,
        "full" => Verdict::Full,
        _ => {
            let AuthAnswer::Accepted(accepted) = answer else { panic!("{name} is accepted") };
            assert_eq!(accepted.session.is_some(), !name.contains("no session"), "{name}");
            assert_eq!(accepted.pub_sig.is_some(), name.contains("pub_sig"), "{name}");
            return assert!(accepted.extra.is_empty());
        }
    };
    let AuthAnswer::Refused(refused) = answer else { panic!("{name} is refused") };
    assert_eq!(refused.verdict, verdict);
}

#[test]
fn publications() {
    let all = vectors("publish");
    let recorded = bytes(&all["load_msgpack_hex"]);
    let publication = Publication::from_value(value(&all["load"])).unwrap();
    assert_eq!(publication.serial, Some(1));
    assert_eq!(publication, Publication::from_value(read(&recorded)).unwrap());
    assert_eq!(written(publication.into_map()), recorded);
    for case in all["messages"].as_array().unwrap() {
        let recorded = bytes(&case["wire_hex"]);
        let message = PublicationMessage::decode(&recorded).unwrap();
        assert_eq!(message.load, bytes(&all["encrypted_load_hex"]));
        assert_eq!(message.sig_algo.as_deref(), case["sig_algo"].as_str());
        assert_eq!(message.encode(), recorded);
    }
}

#[test]
fn file_requests_keep_what_the_channel_added() {
    let all = vectors("request");
    for version in ["v2", "v3"] {
        let recorded = bytes(&all[version]["load_msgpack_hex"]);
        let request = FileHash::from_value(read(&recorded)).unwrap();
        assert_eq!(request.path, "top.sls");
        assert!(request.extra.contains_key("nonce"));
        assert_eq!(written(request.into_map()), recorded);
    }
    let sum = FileSum::from_value(value(&all["v3"]["reply_object"])).unwrap();
    assert_eq!(sum.hash_type, "sha256");
}

#[test]
fn returns_keep_the_order_that_is_signed() {
    let all = vectors("request");
    let recorded = bytes(&all["minion_sign_messages"]["to_sign_msgpack_hex"]);
    let load = msgpack::unpack_bytes(&recorded, Decode::Utf8).unwrap();
    let returned = Return::from_value(load).unwrap();
    assert_eq!((returned.ret.clone(), returned.retcode.clone()), (true.into(), Some(0.into())));
    assert_eq!(msgpack::pack(&returned.to_value(), Packing::Bin), recorded);
}

#[test]
fn pillar_replies() {
    let all = vectors("pillar");
    for name in ["wire_hex", "wire_hex_protocol_v1_unsigned"] {
        let recorded = bytes(&all[name]);
        let reply = PillarReply::from_value(read(&recorded)).unwrap();
        assert_eq!(written(reply.into_map()), recorded);
    }
    let signed = bytes(&all["signed_data_hex"]);
    let content = PillarContent::from_value(read(&signed)).unwrap();
    assert_eq!(content.pillar, value(&all["pillar"]));
    assert_eq!(content.nonce, all["nonce"].as_str().unwrap());
    assert_eq!(written(content.into_map()), signed);
}

#[test]
fn file_chunks_are_read_from_raw_maps() {
    let packed = msgpack::pack(&map! { "data" => "plain text", "dest" => "top.sls" }.into(), Packing::Wire);
    let chunk = FileChunk::from_raw(msgpack::unpack(&packed, Decode::Raw).unwrap()).unwrap();
    assert_eq!(chunk.data, "plain text");
}

#[test]
fn errors_name_load_and_field() {
    let load = map! { "cmd" => "_return", "id" => "../x", "return" => true, "jid" => "req" };
    let error = Return::from_map(load).unwrap_err();
    assert_eq!(error.to_string(), "field \"id\" of Return: minion id \"../x\" contains the character '/'");
    let error = Return::from_map(map! { "id" => "web1", "jid" => "req" }).unwrap_err();
    assert_eq!((error.field, error.problem), ("return", Problem::Missing));
    let error = FileHash::from_map(map! { "path" => 7 }).unwrap_err();
    assert_eq!(error.to_string(), "field \"path\" of FileHash: is a int, not text");
}

#[test]
fn requests_of_minions_tolerate_what_salt_tolerates() {
    let load = map! { "tgt" => "*", "fun" => "x", "tgt_type" => Value::Null, "expr_form" => "list", "id" => "web1" };
    let request = MineGet::from_map(load).unwrap();
    assert_eq!((request.tgt_type.0, request.expr_form.0.as_deref()), (None, Some("list")));
    let load = map! { "path" => list!["up", 7], "loc" => 0, "data" => "text", "size" => 4 };
    let request = FileReceive::from_map(load).unwrap();
    assert_eq!((request.path, request.data), (vec![Text("up".into()), Text("7".into())], "text".into()));
    let known = |known: Value| MissedJobs::from_map(map! { "known" => known }).unwrap().known.0;
    assert_eq!(known(list!["1", 2, "3"]), ["1", "3"]);
    assert_eq!(known("1".into()), Vec::<String>::new());
    assert_eq!(PeerReturns::from_map(map! { "jid" => 7 }).unwrap().jid.as_str(), "7");
    assert_eq!(PeerReturns::from_map(map! {}).unwrap_err().problem, Problem::Missing);
}

#[test]
fn requests_of_saltern_are_written_as_they_are_read() {
    let load = map! { "jid" => "20240229131415678901", "cmd" => "saltern_job" };
    assert_eq!(JobProgress::new("20240229131415678901").into_map(), load);
    let load = map! { "cmd" => "saltern_received", "received" => list!["1"], "started" => list![], "id" => "web1" };
    assert_eq!(ReceivedJobs::from_map(load.clone()).unwrap().into_map(), load);
    let load = map! {
        "cmd" => "saltern_return", "publisher" => map! { "id" => "m" }, "job" => map! {}, "load" => map! { "jid" => "1" },
    };
    assert_eq!(ReturnForPeer::from_map(load.clone()).unwrap().into_map(), load);
}

#[test]
fn events_keep_their_order() {
    let single = map! { "id" => "web1", "cmd" => "_minion_event", "pretag" => Value::Null, "data" => "x", "tag" => "t", "ts" => 1 };
    assert_eq!(MinionEvent::from_map(single.clone()).unwrap().into_map(), single);
}
