//! Looks at every state that a model can reach, nearest first. Knows nothing of what the states mean.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Something that moves in steps.
pub(crate) trait Model {
    type State;
    type Action: Copy;
    type Fault;

    fn first(&self) -> Self::State;
    /// What can happen next, in an order that depends on the state alone.
    fn actions(&self, state: &Self::State, into: &mut Vec<Self::Action>);
    fn next(&self, state: &Self::State, action: Self::Action) -> Self::State;
    /// The same for states from which the same follows.
    fn digest(&self, state: &Self::State) -> u64;
    /// What is wrong with this state; from a wrong state nobody looks on.
    fn fault(&self, state: &Self::State) -> Option<Self::Fault>;
}

/// What a search saw.
pub(crate) struct Seen<M: Model> {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// The length of the longest of the shortest ways to a state.
    pub(crate) depth: usize,
    /// The nearest fault, and the shortest way to it.
    pub(crate) found: Option<(M::Fault, Vec<M::Action>)>,
    /// Whether the search ended for want of room, not of states.
    pub(crate) cut: bool,
}

/// Explores until a fault is found, everything was seen, or `most` states were.
///
/// A state is known by 64 bits of its digest. Two of n states share them with a chance below n^2 / 2^65: one in four
/// hundred thousand for ten million.
pub(crate) fn explore<M: Model>(model: &M, most: usize) -> Seen<M> {
    let first = model.first();
    let mut known: HashSet<u64, BuildHasherDefault<AsItIs>> = HashSet::default();
    known.insert(model.digest(&first));
    let mut tree = Tree(vec![(0, 0)]);
    let mut ahead = VecDeque::from([(first, 0_u32, 0_usize)]);
    let mut seen = Seen { states: 1, steps: 0, depth: 0, found: None, cut: false };
    let mut actions = Vec::new();
    while let Some((state, place, depth)) = ahead.pop_front() {
        seen.depth = depth;
        if let Some(fault) = model.fault(&state) {
            seen.found = Some((fault, tree.way(model, place)));
            return seen;
        }
        actions.clear();
        model.actions(&state, &mut actions);
        for (choice, action) in actions.iter().enumerate() {
            let next = model.next(&state, *action);
            seen.steps += 1;
            if !known.insert(model.digest(&next)) {
                continue;
            }
            if seen.states >= most {
                seen.cut = true;
                return seen;
            }
            seen.states += 1;
            ahead.push_back((next, tree.grow(place, choice), depth + 1));
        }
    }
    seen
}

/// For each state the one that it was first reached from, and by which choice.
struct Tree(Vec<(u32, u16)>);

impl Tree {
    fn grow(&mut self, from: u32, choice: usize) -> u32 {
        let place = u32::try_from(self.0.len()).expect("fewer states than that fit into memory");
        self.0.push((from, u16::try_from(choice).expect("few choices")));
        place
    }

    fn way<M: Model>(&self, model: &M, mut place: u32) -> Vec<M::Action> {
        let mut choices = Vec::new();
        while place != 0 {
            let (from, choice) = self.0[place as usize];
            choices.push(choice);
            place = from;
        }
        let mut state = model.first();
        let walk = choices.into_iter().rev().map(|choice| {
            let mut actions = Vec::new();
            model.actions(&state, &mut actions);
            let action = actions[usize::from(choice)];
            state = model.next(&state, action);
            action
        });
        walk.collect()
    }
}

pub(crate) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = Digest(0x243F_6A88_85A3_08D3);
    value.hash(&mut hasher);
    hasher.finish()
}

/// The same for words, which is much faster than hashing a slice of them.
pub(crate) fn mix(words: impl IntoIterator<Item = u64>) -> u64 {
    let mut hasher = Digest(0xA409_3822_299F_31D0);
    for word in words {
        hasher.word(word);
    }
    hasher.finish()
}

/// Multiply and fold, a word at a time: fast without optimisation too, which tests run without.
struct Digest(u64);

impl Digest {
    fn word(&mut self, word: u64) {
        let (low, high) = (self.0 ^ word).carrying_mul(0x9E37_79B9_7F4A_7C15, 0xF39C_C060_5CED_C835);
        self.0 = high ^ low.rotate_left(29);
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 59);
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.word(u64::from(value));
    }
    fn write_u32(&mut self, value: u32) {
        self.word(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }
    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }
    fn write_isize(&mut self, value: isize) {
        self.word(value.cast_unsigned() as u64);
    }
    fn finish(&self) -> u64 {
        let mut end = Self(self.0);
        end.word(0x1319_8A2E_0370_7344);
        end.0
    }
}

/// Digests need no second hashing.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two jugs of 3 and 5, to be filled, emptied and poured into each other until one holds 4.
    struct Jugs;

    impl Model for Jugs {
        type State = [u64; 2];
        type Action = usize;
        type Fault = ();

        fn first(&self) -> Self::State {
            [0, 0]
        }

        fn actions(&self, _: &Self::State, into: &mut Vec<usize>) {
            into.extend(0..6);
        }

        fn next(&self, state: &Self::State, action: usize) -> Self::State {
            let (most, jug) = ([3, 5], action % 2);
            let mut next = *state;
            match action / 2 {
                0 => next[jug] = most[jug],
                1 => next[jug] = 0,
                _ => {
                    let poured = state[jug].min(most[1 - jug] - state[1 - jug]);
                    next[jug] -= poured;
                    next[1 - jug] += poured;
                }
            }
            next
        }

        fn digest(&self, state: &Self::State) -> u64 {
            mix(*state)
        }

        fn fault(&self, state: &Self::State) -> Option<()> {
            (state[1] == 4).then_some(())
        }
    }

    #[test]
    fn the_shortest_way_is_found() {
        let ((), way) = explore(&Jugs, 100).found.expect("there is one");
        assert_eq!(way.len(), 6);
        assert_eq!(way.iter().fold([0, 0], |state, action| Jugs.next(&state, *action)), [3, 4]);
        assert!(explore(&Jugs, 5).cut);
    }
}
