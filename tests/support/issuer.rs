//! An issuer of JSON Web Tokens for tests: keys of every kind, the set that lists them, and tokens good and bad.
#![allow(dead_code, reason = "each test uses a part of it")]

use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RsaEncoding, RsaKeyPair,
};
use aws_lc_rs::{hmac, rand::SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key that signs, and what it is called.
pub(crate) struct Signer {
    pub(crate) name: String,
    key: Key,
}

enum Key {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Secret(Vec<u8>),
}

pub(crate) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The set that lists these keys.
pub(crate) fn jwks(signers: &[&Signer]) -> String {
    json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() }).to_string()
}

impl Signer {
    /// A key of the kind that an algorithm needs.
    pub(crate) fn new(name: &str, algorithm: &str) -> Self {
        let key = match &algorithm[..2] {
            "RS" | "PS" => Key::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
            "ES" if algorithm == "ES256" => {
                Key::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
            }
            "ES" => Key::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap()),
            "Ed" => Key::Ed(Ed25519KeyPair::generate().unwrap()),
            _ => panic!("{algorithm}"),
        };
        Self { name: name.to_owned(), key }
    }

    pub(crate) fn secret(secret: &[u8]) -> Self {
        Self { name: "secret".to_owned(), key: Key::Secret(secret.to_vec()) }
    }

    /// The public key, as a set lists it.
    pub(crate) fn jwk(&self) -> Value {
        let curve = |name: &str, point: &[u8]| {
            let (x, y) = point[1..].split_at(point.len() / 2);
            json!({ "kty": "EC", "crv": name, "kid": self.name, "x": base64url(x), "y": base64url(y) })
        };
        match &self.key {
            Key::Rsa(pair) => {
                // PKCS#1 in DER: with 2048 bits, the modulus has its place, and the exponent is 65537.
                let modulus = &pair.public_key().as_ref()[9..265];
                json!({ "kty": "RSA", "kid": self.name, "use": "sig", "n": base64url(modulus), "e": "AQAB" })
            }
            Key::P256(pair) => curve("P-256", pair.public_key().as_ref()),
            Key::P384(pair) => curve("P-384", pair.public_key().as_ref()),
            Key::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.name, "x": base64url(pair.public_key()) })
            }
            Key::Secret(secret) => json!({ "kty": "oct", "kid": self.name, "k": base64url(secret) }),
        }
    }

    /// A token with these claims.
    pub(crate) fn token(&self, algorithm: &str, claims: &Value) -> String {
        self.signed(algorithm, &json!({ "alg": algorithm, "typ": "JWT", "kid": self.name }), &claims.to_string())
    }

    /// A token with this header and payload, signed as `algorithm` says, whatever the header does.
    pub(crate) fn signed(&self, algorithm: &str, header: &Value, payload: &str) -> String {
        let message = format!("{}.{}", base64url(header.to_string()), base64url(payload));
        let signature = self.sign(algorithm, message.as_bytes());
        format!("{message}.{}", base64url(signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            Key::Rsa(pair) => {
                let mut bytes = vec![0; pair.public_modulus_len()];
                pair.sign(encoding(algorithm), &random, message, &mut bytes).unwrap();
                bytes
            }
            Key::P256(pair) | Key::P384(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Key::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Key::Secret(secret) => {
                let digest = match algorithm {
                    "HS256" => hmac::HMAC_SHA256,
                    "HS384" => hmac::HMAC_SHA384,
                    _ => hmac::HMAC_SHA512,
                };
                hmac::sign(&hmac::Key::new(digest, secret), message).as_ref().to_vec()
            }
        }
    }
}

fn encoding(algorithm: &str) -> &'static dyn RsaEncoding {
    match algorithm {
        "RS256" => &signature::RSA_PKCS1_SHA256,
        "RS384" => &signature::RSA_PKCS1_SHA384,
        "RS512" => &signature::RSA_PKCS1_SHA512,
        "PS256" => &signature::RSA_PSS_SHA256,
        "PS384" => &signature::RSA_PSS_SHA384,
        "PS512" => &signature::RSA_PSS_SHA512,
        _ => panic!("{algorithm}"),
    }
}
