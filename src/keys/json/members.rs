//! The members of an object, and their order. What they are worth is not looked at.

#![expect(clippy::inline_always, reason = "what is done for each member costs less than a call")]

use super::made::{Made, Span, copy};

/// Of so many members the order can be told without moving them.
const FEW: usize = 16;

/// One member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// What its name is like: see `string::order`.
    pub(super) order: u64,
    pub(super) name: Span,
    /// Nowhere, when it is ignored.
    pub(super) value: Span,
}

impl Member {
    /// Appends it to what was made, but an ignored one. Where that ends.
    #[inline(always)]
    fn copy(&self, text: &[u8], made: &mut [u8], end: usize) -> usize {
        let Self { name, value, .. } = *self;
        if value.start == name.end + 1 {
            return copy(text, made, end, Span { end: value.end, ..name }, b',');
        }
        if value == Span::NOWHERE {
            return end;
        }
        let end = copy(text, made, end, name, b':');
        copy(text, made, end, value, b',')
    }
}

/// Whether an object that stands there has these members, in their order, and nothing else.
#[inline(always)]
pub(super) fn are(members: &[Member], object: Span) -> bool {
    let (mut next, mut last) = (object.start + 1, 0);
    for Member { order, name, value } in members {
        if name.start != next || value.start != name.end + 1 || *order <= last {
            return false;
        }
        (next, last) = (value.end + 1, *order);
    }
    next == object.end || (members.is_empty() && next + 1 == object.end)
}

/// For each place of few members, in the lowest byte, which one belongs there.
#[derive(Default)]
pub(super) struct Places {
    of: [u64; FEW],
    /// How many there are.
    count: usize,
}

impl Places {
    /// Whether these members too are in their order in these places, as those of a list's objects mostly are.
    #[inline(always)]
    fn fit(&self, members: &[Member]) -> bool {
        let mut last = 0;
        for place in self.of.iter().take(self.count) {
            let order = members.get(which(*place)).map_or(0, |member| member.order);
            if order <= last {
                return false;
            }
            last = order;
        }
        self.count == members.len()
    }

    /// Finds the places of few members; none where names begin alike.
    fn find(&mut self, members: &[Member]) -> Option<()> {
        self.count = 0;
        if members.len() > FEW {
            return None;
        }
        for (at, member) in members.iter().enumerate() {
            let (order, mut place) = (member.order | at as u64, at % FEW);
            while place > 0 && self.of[place - 1] > order {
                self.of[place] = self.of[place - 1];
                place -= 1;
            }
            self.of[place] = order;
            if place > 0 && self.of[place - 1] >> 8 == order >> 8 {
                return None;
            }
        }
        self.count = members.len();
        Some(())
    }
}

fn which(place: u64) -> usize {
    usize::from(place.to_le_bytes()[0])
}

/// Writes an object of these members, which in the text has this length, but for the ignored ones. It takes the place of
/// what was made of it, from `place` on. Tells too whether two have the same name.
#[inline(never)]
pub(super) fn put_together(
    members: &mut [Member],
    places: &mut Places,
    length: usize,
    text: &[u8],
    made: &mut Made<'_>,
    place: usize,
) -> (Span, bool) {
    let few = places.fit(members) || places.find(members).is_some();
    let twice = !few && sort(members, text, made.bytes());
    let (bytes, mut end) = made.open(length + made.end() - place);
    if few {
        for place in places.of.iter().take(members.len()) {
            end = members[which(*place)].copy(text, bytes, end);
        }
    } else {
        end = members.iter().fold(end, |end, member| member.copy(text, bytes, end));
    }
    (made.moved(end, place), twice)
}

/// Sorts any members by name, and tells whether two have the same.
fn sort(members: &mut [Member], text: &[u8], made: &[u8]) -> bool {
    let name = |member: &Member| member.name.of(text, made);
    members.sort_unstable_by(|a, b| name(a).cmp(name(b)));
    members.windows(2).any(|pair| name(&pair[0]) == name(&pair[1]))
}
