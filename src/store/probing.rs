//! Reading many ranges of the permuted tables at once.
//!
//! What a probe costs is waiting for memory: for the directory, for the block's place in the cache, for the block, for the rows in it. So each of
//! these steps is a short loop of its own over all probes, and the processor, which looks some hundred instructions ahead, waits for many of
//! them together. What would keep it from that, locks above all, stands in loops of its own too, after the memory is there.

use super::blocks::{Block, Blocks, Decoded};
use super::cache::Held;
use super::directory::Entry;
use super::level::Level;
use super::run::up_to;
use super::search::{guess, partition_point_near};
use super::sorted_set::SetReader;
use crate::error::Result;
use crate::plan::Probe;

/// So many ranges, or parts of them, are in hand at a time.
const TOGETHER: usize = 32;

/// Calls `each` with the rows in the range of each probe that some source puts: in no order, perhaps more than once, and also those that
/// a newer source marks. `reader` reads the table of a number. Returns how many blocks they were in.
pub(super) fn read_ranges<'a>(
    probes: &'a [Probe],
    reader: impl Fn(usize) -> SetReader<'a, u64>,
    mut each: impl FnMut(&Probe, &[u64]),
) -> Result<u64> {
    let Some(first) = probes.first() else { return Ok(0) };
    let mut hand =
        Hand { blocks: reader(first.table).blocks, ranges: Vec::new(), parts: Vec::new(), read: 0 };
    for probe in probes {
        let reader = reader(probe.table);
        let range = probe.first..=probe.last;
        for row in reader.unsorted().0.iter().filter(|row| range.contains(row)) {
            each(probe, std::slice::from_ref(row));
        }
        for run in reader.runs() {
            each(probe, run.puts_within(&range));
        }
        for slot in &reader.set.levels {
            hand.ranges.push(Range { probe, level: &slot.level, chunk: 0 });
        }
        if hand.ranges.len() >= TOGETHER {
            hand.read(&mut each)?;
        }
    }
    hand.read(&mut each)?;
    Ok(hand.read)
}

/// What is read at a time.
struct Hand<'a> {
    blocks: &'a Blocks,
    ranges: Vec<Range<'a>>,
    parts: Vec<Part<'a>>,
    /// How many blocks were read.
    read: u64,
}

/// The range of a probe in a level.
struct Range<'a> {
    probe: &'a Probe,
    level: &'a Level<u64>,
    /// The chunk of the directory it begins in.
    chunk: usize,
}

/// What lies of a range in one block.
struct Part<'a> {
    probe: &'a Probe,
    /// The last row of the block before.
    low: u64,
    entry: &'a Entry<u64>,
    /// Where the block is cached.
    place: Option<usize>,
    rows: Rows<'a>,
    /// Where the range may begin and end.
    guess: usize,
    guess_end: usize,
}

enum Rows<'a> {
    Unread,
    Held(Held<'a>),
    Read(Block<u64>),
}

impl Part<'_> {
    #[inline]
    fn puts(&self) -> &[u64] {
        match &self.rows {
            Rows::Held(held) => match &**held {
                Some(Decoded::Narrow(rows)) => &rows[..self.entry.puts.into()],
                _ => &[],
            },
            Rows::Read(block) => block.puts(),
            Rows::Unread => &[],
        }
    }
}

impl<'a> Hand<'a> {
    /// Reads what is in hand, and leaves nothing.
    fn read(&mut self, each: &mut impl FnMut(&Probe, &[u64])) -> Result<()> {
        for range in &mut self.ranges {
            range.chunk = range.level.chunk_of(range.probe.first);
        }
        for range in std::mem::take(&mut self.ranges) {
            let Range { probe, level, chunk } = range;
            let (mut place, mut low) = level.place_in(chunk, probe.first);
            while let Some(entry) = level.entry(place) {
                self.parts.push(Part {
                    probe,
                    low,
                    entry,
                    place: None,
                    rows: Rows::Unread,
                    guess: 0,
                    guess_end: 0,
                });
                if self.parts.len() == TOGETHER {
                    self.read_parts(each)?;
                }
                if entry.high >= probe.last {
                    break;
                }
                (place, low) = (level.after(place, 1), entry.high);
            }
        }
        self.read_parts(each)
    }

    fn read_parts(&mut self, each: &mut impl FnMut(&Probe, &[u64])) -> Result<()> {
        let cache = &self.blocks.cache;
        for part in &mut self.parts {
            part.place = cache.place(part.entry.id);
        }
        let mut touched = false;
        for place in self.parts.iter().filter_map(|part| part.place) {
            touched |= cache.touch(place);
        }
        std::hint::black_box(touched);
        // What is not there is read before anything is held.
        for part in self.parts.iter_mut().filter(|part| part.place.is_none()) {
            part.rows = Rows::Read(self.blocks.rows("permuted", part.entry)?);
        }
        for part in &mut self.parts {
            let Some(place) = part.place else { continue };
            cache.note_use(place);
            part.rows = match cache.hold(place, part.entry.id) {
                Some(held) => Rows::Held(held),
                // It has just gone.
                None => Rows::Read(self.blocks.rows_once("permuted", part.entry)?),
            };
        }
        for part in &mut self.parts {
            let guess = |row| guess(part.entry.puts.into(), part.low, part.entry.high, row);
            (part.guess, part.guess_end) = (guess(part.probe.first), guess(part.probe.last));
        }
        // A guess is right up to a few lines of memory. What lies far behind it the processor fetches by itself, as it goes through.
        const ROWS_OF_A_LINE: usize = 8;
        const MOST_ROWS: usize = 256 * ROWS_OF_A_LINE;
        let mut near = 0;
        for part in &self.parts {
            let (from, to) =
                (part.guess.saturating_sub(2 * ROWS_OF_A_LINE), part.guess_end + 2 * ROWS_OF_A_LINE);
            let rows = part.puts().get(from..).unwrap_or(&[]);
            let rows = &rows[..rows.len().min(to - from).min(MOST_ROWS)];
            near |= rows.iter().step_by(ROWS_OF_A_LINE).fold(0, |all, row| all | row);
        }
        std::hint::black_box(near);
        for part in &self.parts {
            let puts = part.puts();
            let start = partition_point_near(puts, part.guess, |&row| row < part.probe.first);
            each(part.probe, up_to(&puts[start..], part.probe.last));
        }
        self.read += self.parts.len() as u64;
        self.parts.clear();
        Ok(())
    }
}
