//! The algorithms that tokens may be signed with, and what verifies each. `none` is none of them.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
};

/// An algorithm of RFC 7518 or RFC 8037.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is called as in the RFC")]
pub enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

/// What an algorithm is made of.
pub(super) enum Method {
    Hmac(hmac::Algorithm),
    Rsa(&'static RsaParameters),
    /// One curve, which the key names.
    Curve,
}

impl Algorithm {
    /// All of them, by the name that a token gives.
    const ALL: [(&'static str, Self); 12] = [
        ("HS256", Self::Hs256),
        ("HS384", Self::Hs384),
        ("HS512", Self::Hs512),
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    /// All that check with the secret that signs (`true`), or all that check with a public key.
    pub fn all(symmetric: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().map(|(_, algorithm)| algorithm).filter(move |one| one.is_symmetric() == symmetric)
    }

    /// The algorithm of this name, in this very case.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(own, algorithm)| (own == name).then_some(algorithm))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find_map(|(name, algorithm)| (algorithm == self).then_some(name)).unwrap_or_default()
    }

    /// Whether the secret that signs verifies too.
    pub fn is_symmetric(self) -> bool {
        matches!(self, Self::Hs256 | Self::Hs384 | Self::Hs512)
    }

    pub(super) fn method(self) -> Method {
        match self {
            Self::Hs256 => Method::Hmac(hmac::HMAC_SHA256),
            Self::Hs384 => Method::Hmac(hmac::HMAC_SHA384),
            Self::Hs512 => Method::Hmac(hmac::HMAC_SHA512),
            Self::Rs256 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Method::Rsa(&RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Method::Rsa(&RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Method::Rsa(&RSA_PSS_2048_8192_SHA512),
            Self::Es256 | Self::Es384 | Self::EdDsa => Method::Curve,
        }
    }
}
