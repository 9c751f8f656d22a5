//! Numbers that look random and are the same in each run, and what the caller chooses of them by environment
//! variables.

/// Numbers that one number gives.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, by the method called splitmix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A place in a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.index(from.len())]
    }
}

/// The seed that the caller has chosen by `SIMDB_SEED`, or this one.
pub(crate) fn seed_or(usual: u64) -> u64 {
    match std::env::var("SIMDB_SEED") {
        Ok(text) => text.parse().expect("SIMDB_SEED is a number"),
        Err(_) => usual,
    }
}

/// Whether the caller has chosen the long run of the stand.
pub(crate) fn is_long_run() -> bool {
    std::env::var("SIMDB_STAND").is_ok_and(|run| run == "long")
}

/// How much a test does: as much as the caller has chosen by an environment variable of this name, or in a long run of
/// the stand, or as usual.
pub(crate) fn amount(name: &str, usual: usize, long: usize) -> usize {
    chosen_amount(name, long).unwrap_or(usual)
}

/// How much the caller has chosen that a test does, by an environment variable of this name or as a long run.
pub(crate) fn chosen_amount(name: &str, long: usize) -> Option<usize> {
    match std::env::var(name) {
        Ok(text) => Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is a number")),
        ),
        Err(_) => is_long_run().then_some(long),
    }
}
