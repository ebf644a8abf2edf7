//! The members of an object, and their order. What they are worth is not looked at.

use super::span::{AT_ONCE, Span, copy};

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
    /// How many bytes it takes, with the colon in it and the comma behind it.
    pub(super) fn length(&self) -> usize {
        self.name.end - self.name.start + self.value.end - self.value.start + 2
    }
}

/// Whether an object that stands there has these members, in their order, and nothing else.
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
pub(super) type Places = [u64; FEW];

/// Sorts members by name, and tells whether two have the same. Few are not moved but for names that begin alike.
pub(super) fn sort(members: &mut [Member], text: &[u8]) -> (Places, bool) {
    let mut places = [0; FEW];
    let mut apart = members.len() <= FEW;
    if apart {
        for (at, member) in members.iter().enumerate() {
            let (order, mut place) = (member.order | at as u64, at % FEW);
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

/// Writes an object of these members, but for the ignored ones. It takes the place of what was made of it, from `made` on.
pub(super) fn put_together(members: &[Member], places: &Places, out: &mut Vec<u8>, made: usize) -> Span {
    let start = out.len();
    let length: usize = members.iter().map(Member::length).sum();
    out.resize(start + length + 2 + AT_ONCE, 0);
    let (done, free) = out.split_at_mut(start);
    free[0] = b'{';
    let mut end = 1;
    for at in 0..members.len() {
        let place = places.get(at).map_or(at, |place| usize::from(place.to_le_bytes()[0]));
        let Member { name, value, .. } = members[place];
        if value == Span::NOWHERE {
            continue;
        }
        if value.start == name.end + 1 {
            end = copy(done, Span { start: name.start, end: value.end }, free, end);
        } else {
            end = copy(done, name, free, end);
            free[end] = b':';
            end = copy(done, value, free, end + 1);
        }
        free[end] = b',';
        end += 1;
    }
    // In the place of the last comma.
    end = end.max(2);
    free[end - 1] = b'}';
    if start > made {
        out.copy_within(start..start + end, made);
    }
    out.truncate(made + end);
    Span { start: made, end: made + end }
}
