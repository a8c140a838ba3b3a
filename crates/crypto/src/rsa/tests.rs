use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use wire::loads::{AuthAnswer, AuthReply, AuthRequest, PillarReply, SignedPillar};
use wire::msgpack::{self, Decode};

use super::*;
use crate::Crypticle;
use crate::testing::{bytes, pair, value, vectors};

#[test]
fn key_files_are_written_as_they_were_read() {
    for (name, key) in vectors("keys")["keys"].as_object().unwrap() {
        let (private, public) = pair(name);
        assert_eq!(private.to_pem(None).unwrap(), key["private_pem"].as_str().unwrap());
        assert_eq!(public.to_pem(), key["public_pem"].as_str().unwrap());
        assert_eq!(private.public(), public);
        assert_eq!(PublicKey::from_pem(key["clean_public_pem"].as_str().unwrap().as_bytes()).unwrap(), public);
    }
}

#[test]
fn every_form_of_key_file_is_read() {
    let (private, public) = pair("minion");
    let rsa = private.rsa().unwrap();
    let cipher = Cipher::aes_256_cbc();
    for (pem, passphrase) in [
        (private.0.private_key_to_pem_pkcs8().unwrap(), None),
        (private.0.private_key_to_pem_pkcs8_passphrase(cipher, b"pass").unwrap(), Some("pass")),
        (private.to_pem(Some("pass")).unwrap().into_bytes(), Some("pass")),
        (private.to_pem(None).unwrap().replace('\n', "\r\n").into_bytes(), None),
    ] {
        let read = PrivateKey::from_pem(&pem, passphrase).unwrap();
        assert_eq!(read.public(), public);
        // A missing passphrase must fail instead of waiting for one on the terminal.
        if passphrase.is_some() {
            assert!(matches!(PrivateKey::from_pem(&pem, Some("wrong")), Err(RsaError::PrivateKey(_))));
            assert!(matches!(PrivateKey::from_pem(&pem, None), Err(RsaError::PrivateKey(_))));
        }
    }
    assert!(private.to_pem(Some("pass")).unwrap().contains("Proc-Type: 4,ENCRYPTED"));
    for pem in [rsa.public_key_to_pem_pkcs1().unwrap(), public.to_pem().replace('\n', "\r\n").into_bytes()] {
        assert_eq!(PublicKey::from_pem(&pem).unwrap(), public);
    }
}

#[test]
fn other_texts_than_rsa_keys_are_refused() {
    let curve = openssl::ec::EcGroup::from_curve_name(openssl::nid::Nid::X9_62_PRIME256V1).unwrap();
    let elliptic = PKey::from_ec_key(openssl::ec::EcKey::generate(&curve).unwrap()).unwrap();
    for pem in [b"".to_vec(), b"-----BEGIN PUBLIC KEY-----\nAAAA".to_vec(), elliptic.public_key_to_pem().unwrap()] {
        assert!(matches!(PublicKey::from_pem(&pem), Err(RsaError::PublicKey(_))));
        assert!(matches!(PrivateKey::from_pem(&pem, None), Err(RsaError::PrivateKey(_))));
    }
    // 512 bits can be factored on one machine.
    let short = Rsa::generate(512).unwrap();
    assert!(matches!(PublicKey::from_pem(&short.public_key_to_pem().unwrap()), Err(RsaError::Size(512))));
    assert!(matches!(PrivateKey::generate(1), Err(RsaError::Size(1))));
    let elliptic = elliptic.private_key_to_pem_pkcs8().unwrap();
    assert!(matches!(PrivateKey::from_pem(&elliptic, None), Err(RsaError::PrivateKey(_))));
}

#[test]
fn x931_vectors() {
    for case in vectors("x931")["cases"].as_array().unwrap() {
        let (private, public) = pair(case["signer"].as_str().unwrap());
        let (message, signature) = (bytes(&case["message_hex"]), bytes(&case["signature_hex"]));
        assert_eq!(x931::pad(&message, 256).unwrap(), bytes(&case["encoded_block_hex"]));
        assert_eq!(private.sign_x931(&message).unwrap(), signature);
        assert_eq!(public.recover_x931(&signature).unwrap(), message);
        let mut changed = signature.to_vec();
        changed[100] ^= 1;
        assert_eq!(public.recover_x931(&changed), None);
        // Wrong lengths and numbers above the modulus must fail without a panic.
        assert_eq!(public.recover_x931(&signature[1..]), None);
        assert_eq!(public.recover_x931(&[0xff; 256]), None);
    }
    let (private, public) = pair("minion");
    assert!(public.verify_tok(&private.tok().unwrap()));
    assert!(!pair("master").1.verify_tok(&private.tok().unwrap()));
    assert!(matches!(private.sign_x931(&[0; 255]), Err(RsaError::TooLong(255))));
}

#[test]
fn x931_recovers_messages_of_any_length() {
    let (private, public) = pair("minion");
    // At and around the longest message, where the padding shrinks to nothing. The bytes equal the padding's.
    for len in [0, 1, 20, 100, 252, 253, 254] {
        let message = vec![0xbb; len];
        assert_eq!(public.recover_x931(&private.sign_x931(&message).unwrap()).unwrap(), message);
    }
}

#[test]
fn sign_in_requests() {
    let all = vectors("signin");
    let (master, _) = pair("master");
    for case in all["requests"].as_array().unwrap() {
        let Ok(wire::envelope::Envelope::Clear(clear)) = wire::envelope::Envelope::decode(&bytes(&case["wire_hex"]))
        else {
            panic!("a clear envelope")
        };
        let request = AuthRequest::from_map(clear.load).unwrap();
        assert_eq!(PublicKey::from_pem(request.pub_key.as_bytes()).unwrap(), pair("minion").1);
        let Some(token) = request.token else { continue };
        let algorithm: Encryption = case["enc_algo"].as_str().unwrap().parse().unwrap();
        assert_eq!(master.decrypt(algorithm, &token).unwrap(), all["token_plain_ascii"].as_str().unwrap().as_bytes());
    }
}

#[test]
fn sign_in_replies() {
    let all = vectors("signin");
    let (minion, master) = (pair("minion").0, pair("master").1);
    let text = |name: &str| all[name].as_str().unwrap().as_bytes().to_vec();
    for case in all["replies"].as_array().unwrap().iter().filter(|case| case["sig_algo"].is_string()) {
        let reply = AuthReply::from_value(msgpack::unpack(&bytes(&case["wire_hex"]), Decode::Default).unwrap());
        let AuthReply::Signed { load, sig } = reply else { panic!("signed") };
        let signature: Signature = case["sig_algo"].as_str().unwrap().parse().unwrap();
        let encryption: Encryption = case["enc_algo"].as_str().unwrap().parse().unwrap();
        assert!(master.verify(signature, &load, &sig));
        assert_eq!(pair("master").0.sign(signature, &load).unwrap(), sig);
        let AuthAnswer::Accepted(accepted) = AuthAnswer::decode(&load).unwrap() else { continue };
        let decrypt = |ciphertext: &Bytes| minion.decrypt(encryption, ciphertext).unwrap();
        assert_eq!(decrypt(&accepted.aes), text("master_aes_key_string"));
        assert!(accepted.session.as_ref().is_none_or(|session| decrypt(session) == text("session_key_string")));
        assert!(accepted.token.as_ref().is_none_or(|token| decrypt(token) == text("token_plain_ascii")));
        let aes = KeyString::parse(&decrypt(&accepted.aes)).unwrap();
        assert!(master.verify_key_string(&aes, &accepted.sig.unwrap()));
        if let Some(line) = accepted.pub_sig {
            let signature_of_key = STANDARD.decode(line.trim()).unwrap();
            assert!(pair("master_sign").1.verify(signature, accepted.pub_key.as_bytes(), &signature_of_key));
        }
    }
}

#[test]
fn the_signature_file() {
    let all = vectors("misc");
    let signature = STANDARD.decode(all["master_pubkey_signature_file"]["text"].as_str().unwrap().trim()).unwrap();
    let key = crate::clean_key(&pair("master").1.to_pem());
    assert_eq!(pair("master_sign").0.sign(Signature::Pkcs1v15Sha1, key.as_bytes()).unwrap(), signature);
}

#[test]
fn signatures_of_publications_and_returns() {
    let all = vectors("publish");
    let load = bytes(&all["encrypted_load_hex"]);
    for case in all["messages"].as_array().unwrap().iter().filter(|case| case["sig_algo"].is_string()) {
        let message = wire::loads::PublicationMessage::decode(&bytes(&case["wire_hex"])).unwrap();
        let algorithm: Signature = message.sig_algo.unwrap().parse().unwrap();
        assert!(pair("master").1.verify(algorithm, &load, &message.sig.clone().unwrap()));
        assert_eq!(pair("master").0.sign(algorithm, &load).unwrap(), message.sig.unwrap());
    }
    let signed = &vectors("request")["minion_sign_messages"];
    let signature = pair("minion").0.sign(Signature::Pkcs1v15Sha1, &bytes(&signed["to_sign_msgpack_hex"])).unwrap();
    assert_eq!(signature, bytes(&signed["sig_hex"]));
}

#[test]
fn pillar_replies() {
    let all = vectors("pillar");
    let decode = |hex: &str| msgpack::unpack_bytes(&bytes(&all[hex]), Decode::Default).unwrap();
    let (minion, master) = (pair("minion").0, pair("master").1);
    let open = |reply: &PillarReply| {
        let key = KeyString::parse(&minion.decrypt(Encryption::OaepSha1, &reply.key).unwrap()).unwrap();
        assert_eq!(key.expose(), all["one_time_key_string"].as_str().unwrap());
        Crypticle::new(&key).unwrap().open(&reply.pillar, None, Decode::Default).unwrap()
    };
    let signed = SignedPillar::from_value(open(&PillarReply::from_value(decode("wire_hex")).unwrap())).unwrap();
    assert_eq!(signed.data, bytes(&all["signed_data_hex"]));
    assert!(master.verify(Signature::Pkcs1v15Sha1, &signed.data, &signed.sig));
    let plain = open(&PillarReply::from_value(decode("wire_hex_protocol_v1_unsigned")).unwrap());
    assert_eq!(plain, value(&all["pillar"]));
}

#[test]
fn the_tcp_client_id() {
    let all = vectors("tcp");
    let frame = wire::tcp::Frame::decode(&bytes(&all["publish_client_id_frame_hex"])).unwrap();
    let Ok(wire::envelope::Envelope::Sealed(sealed)) = wire::envelope::Envelope::from_value(frame.body) else {
        panic!("a sealed envelope")
    };
    let key = KeyString::parse(all["publish_client_id_crypticle_key"].as_str().unwrap().as_bytes()).unwrap();
    let load = Crypticle::new(&key).unwrap().open(&sealed.load, None, Decode::Default).unwrap();
    assert_eq!(load.get("tok").unwrap().as_bytes().unwrap(), bytes(&all["tok_hex"]));
    assert!(pair("minion").1.verify_tok(&bytes(&all["tok_hex"])));
}

#[test]
fn encryption_and_signatures_round_trip() {
    let (private, public) = pair("minion");
    for algorithm in [Encryption::OaepSha1, Encryption::OaepSha224] {
        let sealed = public.encrypt(algorithm, b"key").unwrap();
        assert_eq!(private.decrypt(algorithm, &sealed).unwrap(), b"key");
        assert!(matches!(pair("master").0.decrypt(algorithm, &sealed), Err(RsaError::Decrypt(_))));
        assert!(matches!(public.encrypt(algorithm, &[0; 300]), Err(RsaError::Encrypt { len: 300, .. })));
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    for algorithm in [Signature::Pkcs1v15Sha1, Signature::Pkcs1v15Sha224] {
        let signature = private.sign(algorithm, b"message").unwrap();
        assert!(public.verify(algorithm, b"message", &signature));
        assert!(!public.verify(algorithm, b"massage", &signature));
        assert!(!public.verify(algorithm, b"message", b""));
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    assert_eq!("OAEP-MD5".parse::<Encryption>(), Err(UnsupportedAlgorithm("OAEP-MD5".into())));
}

#[test]
fn new_keys_have_the_requested_size_and_are_not_printed() {
    let key = PrivateKey::generate(1024).unwrap();
    assert_eq!(key.public().bits(), 1024);
    assert_eq!(format!("{key:?}"), "PrivateKey(1024 bits)");
}
