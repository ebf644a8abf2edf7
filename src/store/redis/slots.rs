//! Which node of a cluster has which slots, and which slot a key falls into. Pure.

use std::collections::BTreeMap;
use std::fmt;

use redis::{FromRedisValue, Value, from_redis_value};

use super::StoreError;
use super::faults::unavailable;
use super::settings::{Node, listed};

/// How many slots there are.
const SLOTS: u16 = 16_384;

/// The slots and who has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shares {
    /// In the order of the slots.
    shares: Vec<Share>,
    /// Nodes that follow one of these.
    replicas: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Share {
    first: u16,
    last: u16,
    primary: Node,
}

impl Shares {
    /// Takes the reply to `CLUSTER SLOTS` apart, which `asked` gave.
    pub(super) fn read(reply: Vec<Vec<Value>>, asked: &Node) -> Result<Self, StoreError> {
        let wrong = || unavailable("a node answered with something else than its cluster's slots");
        let mut shares = Vec::with_capacity(reply.len());
        let mut replicas = Vec::new();
        for share in reply {
            let mut parts = share.into_iter();
            let (Some(first), Some(last)) = (number(parts.next()), number(parts.next())) else { return Err(wrong()) };
            let mut nodes = parts.filter_map(|node| read_node(node, asked));
            let primary = nodes.next().ok_or_else(wrong)?;
            replicas.extend(nodes);
            shares.push(Share { first, last, primary });
        }
        shares.sort_by_key(|share| share.first);
        replicas.sort();
        Ok(Self { shares, replicas })
    }

    /// Who has a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Node> {
        let after = self.shares.partition_point(|share| share.first <= slot);
        let share = self.shares[..after].last()?;
        (slot <= share.last).then_some(&share.primary)
    }

    /// Each primary once, with the slot that its share begins with, in that order.
    pub(super) fn turns(&self) -> Vec<(u16, &Node)> {
        let mut first: BTreeMap<&Node, u16> = BTreeMap::new();
        for share in &self.shares {
            first.entry(&share.primary).or_insert(share.first);
        }
        let mut turns: Vec<_> = first.into_iter().map(|(node, first)| (first, node)).collect();
        turns.sort_unstable();
        turns
    }

    /// All nodes, primaries first.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.turns().into_iter().map(|(_, node)| node).chain(&self.replicas)
    }

    /// Whether the node has slots.
    pub(super) fn has(&self, node: &Node) -> bool {
        self.shares.iter().any(|share| share.primary == *node)
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let primaries: Vec<_> = self.turns().into_iter().map(|(_, node)| node.clone()).collect();
        f.write_str(&listed(&primaries))
    }
}

fn number<T: FromRedisValue>(value: Option<Value>) -> Option<T> {
    from_redis_value(value?).ok()
}

/// A node as `CLUSTER SLOTS` writes it: host, port, and more that does not matter here.
fn read_node(value: Value, asked: &Node) -> Option<Node> {
    let mut parts = from_redis_value::<Vec<Value>>(value).ok()?.into_iter();
    let host: Option<String> = from_redis_value(parts.next()?).ok()?;
    // A node that does not know its own name means the one under which it was reached.
    let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.host.clone());
    Some(Node { host, port: number(parts.next())? })
}

/// The slot of a key: of what stands between its first braces, if anything does, else of all of it.
pub(super) fn slot(key: &[u8]) -> u16 {
    let tagged = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tagged.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16) -> Node {
        Node { host: "10.0.0.1".to_owned(), port }
    }

    fn share(first: i64, last: i64, ports: &[i64]) -> Vec<Value> {
        let nodes = ports.iter().map(|port| {
            Value::Array(vec![
                Value::BulkString(b"10.0.0.1".to_vec()),
                Value::Int(*port),
                Value::BulkString(b"id".to_vec()),
            ])
        });
        [Value::Int(first), Value::Int(last)].into_iter().chain(nodes).collect()
    }

    #[test]
    fn keys_fall_into_slots_as_the_cluster_specification_says() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"og:}a{b"), crc16(b"og:}a{b") % SLOTS);
    }

    #[test]
    fn each_slot_has_its_owner_and_each_primary_its_turn() {
        let told = vec![share(200, 299, &[1, 3]), share(0, 99, &[2]), share(100, 149, &[1])];
        let shares = Shares::read(told, &node(1)).unwrap();
        let cases =
            [(0, Some(2)), (99, Some(2)), (100, Some(1)), (149, Some(1)), (150, None), (250, Some(1)), (300, None)];
        for (slot, port) in cases {
            assert_eq!(shares.owner(slot), port.map(node).as_ref(), "{slot}");
        }
        assert_eq!(shares.turns(), [(0, &node(2)), (100, &node(1))]);
        assert_eq!(shares.nodes().cloned().collect::<Vec<_>>(), [node(2), node(1), node(3)]);
        assert!(shares.has(&node(1)) && !shares.has(&node(3)));
    }

    #[test]
    fn a_node_without_a_name_is_the_one_that_was_asked() {
        let nameless = |host| vec![Value::Int(0), Value::Int(9), Value::Array(vec![host, Value::Int(7)])];
        for host in [Value::Nil, Value::BulkString(vec![]), Value::BulkString(b"?".to_vec())] {
            let shares = Shares::read(vec![nameless(host)], &node(1)).unwrap();
            assert_eq!(shares.owner(3), Some(&node(7)));
        }
        assert!(Shares::read(vec![vec![Value::Int(0)]], &node(1)).is_err());
    }
}
