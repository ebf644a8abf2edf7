//! What it costs to believe a token: by its signature, for each algorithm, and from memory. `cargo bench --bench tokens`.

#![expect(clippy::unwrap_used, reason = "a benchmark may fail where it stands")]

#[path = "../../tests/support/issuer.rs"]
mod issuer;

use std::sync::Arc;
use std::time::Duration;

use issuer::{Signer, jwks};
use oncegate::clock::Clock;
use oncegate::jwt::{Algorithm, KeySet, Origin, Proof, Reading, Rules, Secret, Settings, Verifier};
use oncegate::keys::Carrier;
use oncegate::telemetry::Metrics;
use serde_json::json;

const ROUNDS: u32 = 2_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    println!("microseconds for one token, mean of {ROUNDS}");
    for algorithm in ["RS256", "PS256", "ES256", "ES384", "EdDSA", "HS256"] {
        let secret = [7; 32];
        let (signer, proof) = if algorithm == "HS256" {
            (Signer::secret(&secret), Proof::Secrets(vec![Secret::new(secret).unwrap()]))
        } else {
            let signer = Signer::new("k", algorithm);
            let proof = keys(&signer);
            (signer, proof)
        };
        let token = signer.token(algorithm, &claims());
        let costs = [0, 1 << 20].map(|cache| {
            let verifier = verifier(proof.clone(), cache);
            let believe = || runtime.block_on(verifier.believe(token.as_bytes(), Clock::wall())).unwrap();
            believe();
            let begun = Clock::instant();
            (0..ROUNDS).for_each(|_| drop(believe()));
            begun.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
        });
        println!("{algorithm:<6} {:7.1} by its signature, {:5.1} with a cache", costs[0], costs[1]);
    }
}

fn claims() -> serde_json::Value {
    let seconds = Clock::wall().0 / 1_000;
    json!({
        "iss": "https://id.example/realms/shop", "sub": "7f3a52b0-6a2c-4a3e-9a52-1c1f0a4d8b11", "aud": ["orders-api"],
        "exp": seconds + 3_600, "iat": seconds, "jti": "5a1d3c8e", "scope": "openid orders:write profile",
        "realm_access": { "roles": ["customer", "offline_access"] }, "email": "somebody@shop.example",
    })
}

fn keys(signer: &Signer) -> Proof {
    let second = Duration::from_secs(1);
    let reading = Reading { refresh: second, pause: second, timeout: second, size_limit: 1 << 16 };
    let set = Arc::new(KeySet::read(jwks(&[signer]).as_bytes()).unwrap());
    Proof::Keys(Origin::File { path: "nowhere".into(), set }, reading)
}

fn verifier(proof: Proof, cache: usize) -> Verifier {
    let settings = Settings {
        proof,
        carrier: Carrier::Bearer,
        algorithms: Algorithm::all(true).chain(Algorithm::all(false)).collect(),
        rules: Rules::default(),
        size_limit: 8 << 10,
        cache,
    };
    Verifier::new(settings, Arc::new(Metrics::new().unwrap()))
}
