//! Networks of peers. Whom they are trusted with is for others to say.

use std::fmt;
use std::net::IpAddr;

/// A network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, `::1/128`, or a lone address.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(most), |digits| digits.parse().ok())?;
        (prefix <= most).then_some(Self { address, prefix })
    }

    /// Whether `peer` is inside.
    pub fn contains(&self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(peer)) => {
                let shift = 32 - u32::from(self.prefix);
                u32::from(net).checked_shr(shift).unwrap_or(0) == u32::from(peer).checked_shr(shift).unwrap_or(0)
            }
            (IpAddr::V6(net), IpAddr::V6(peer)) => {
                let shift = 128 - u32::from(self.prefix);
                u128::from(net).checked_shr(shift).unwrap_or(0) == u128::from(peer).checked_shr(shift).unwrap_or(0)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
