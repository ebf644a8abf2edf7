//! The members of an object, and their order. What they are worth is not looked at.

use super::span::Span;

/// Of so many members the order can be told without moving them.
const FEW: usize = 16;

/// One member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) name: Span,
    /// Nowhere, when it is ignored.
    pub(super) value: Span,
}

impl Member {
    /// How many bytes it takes, with the colon in it and the comma behind it.
    pub(super) fn length(&self) -> usize {
        self.name.end - self.name.start + self.value.end - self.value.start + 2
    }
}

/// Whether an object that stands there has these members, in their order, and nothing else.
pub(super) fn are(members: &[Member], object: Span, text: &[u8]) -> bool {
    let (mut next, mut last) = (object.start + 1, 0);
    for Member { name, value } in members {
        if name.start != next || value.start != name.end + 1 {
            return false;
        }
        let order = order(*name, text);
        if order <= last {
            return false;
        }
        (next, last) = (value.end + 1, order);
    }
    next == object.end || (members.is_empty() && next + 1 == object.end)
}

/// The first seven bytes of a name and of the quote behind it, with room for one byte more. Where these differ, names are
/// in their order.
#[inline]
fn order(name: Span, text: &[u8]) -> u64 {
    let text = &text[name.start + 1..];
    let first = text.first_chunk().copied().unwrap_or_else(|| {
        let mut first = [0; 8];
        first[..text.len()].copy_from_slice(text);
        first
    });
    // What stands behind a short name is none of it.
    let beyond = 8 * 9_usize.saturating_sub(name.end - name.start).max(1);
    u64::from_be_bytes(first) >> beyond << beyond
}

/// Sorts members by name, and tells whether two have the same. Of few each place says in its lowest byte which one belongs
/// there, but for names that begin alike: those are moved, as many are.
pub(super) fn sort(members: &mut [Member], text: &[u8]) -> ([u64; FEW], bool) {
    let mut places = [0; FEW];
    let mut apart = members.len() <= FEW;
    if apart {
        for (at, member) in members.iter().enumerate() {
            let (order, mut place) = (order(member.name, text) | at as u64, at % FEW);
            while place > 0 && places[place - 1] > order {
                places[place] = places[place - 1];
                place -= 1;
            }
            places[place] = order;
            apart &= place == 0 || places[place - 1] >> 8 < order >> 8;
        }
    }
    if apart {
        return (places, false);
    }
    for (at, place) in places.iter_mut().enumerate() {
        *place = at as u64;
    }
    let spelled = |member: &Member| member.name.of(text);
    members.sort_unstable_by(|a, b| spelled(a).cmp(spelled(b)));
    (places, members.windows(2).any(|pair| spelled(&pair[0]) == spelled(&pair[1])))
}
