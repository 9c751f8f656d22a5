//! Power cuts: the files that one could leave, chosen by a number.
//!
//! Synced data is there. Of what was done since the last sync, each write is lost, whole, or torn, at a sector or at
//! any byte, and a change of the length is lost or comes without the writes. They come in any order.

use std::ops::Range;

use super::random::Random;
use crate::store::{Event, Image};

const SECTOR: usize = 512;

/// A file as far as it is synced, and what was done with it since then.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsynced {
    pub(super) synced: Image,
    pub(super) changes: Vec<Event>,
}

impl Unsynced {
    /// A file that is there as a whole.
    pub(super) fn new(synced: Image) -> Self {
        Self {
            synced,
            changes: Vec::new(),
        }
    }

    /// Something more is done with the file.
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::Write { .. } | Event::SetLength(_) => self.changes.push(event.clone()),
            Event::Sync => {
                for event in self.changes.drain(..) {
                    self.synced.apply(&event);
                }
            }
            Event::Begun(_) | Event::Acknowledged(_) => {}
        }
    }

    /// A file that a power cut could leave now, and what it has of the changes that were not synced.
    pub(super) fn cut(&self, random: &mut Random) -> (Image, String) {
        let kind = *random.pick(&Kind::ALL);
        let mut arrived = Vec::new();
        for (index, event) in self.changes.iter().enumerate() {
            let is_last = index + 1 == self.changes.len();
            if let Some(part) = kind.part_of(event, is_last, random) {
                arrived.push((index, event, part));
            }
        }
        if kind.is_reordered() {
            for index in (1..arrived.len()).rev() {
                arrived.swap(index, random.below(index as u64 + 1) as usize);
            }
        }
        let mut image = self.synced.clone();
        let mut what = format!("{kind:?} of {} changes, arrived:", self.changes.len());
        for (index, event, part) in arrived {
            part.apply(event, &mut image);
            what += &format!(" {index} {part:?}");
        }
        (image, what)
    }
}

/// The commits that were begun and acknowledged up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Commits {
    pub(super) acknowledged: usize,
    pub(super) begun: usize,
}

impl Commits {
    /// Which commits a file may have as the last one. `next` is the next one that is acknowledged later.
    pub(super) fn allowed(&self, next: Option<usize>) -> Range<usize> {
        let next = next.unwrap_or(self.acknowledged);
        self.acknowledged..self.begun.max(next) + 1
    }
}

/// The events of a storage, read from the beginning to a moment.
pub(super) struct Moment<'e> {
    events: &'e [Event],
    at: usize,
    file: Unsynced,
    commits: Commits,
}

impl<'e> Moment<'e> {
    /// The beginning of events that change a file.
    pub(super) fn new(file: Image, events: &'e [Event]) -> Self {
        Self {
            events,
            at: 0,
            file: Unsynced::new(file),
            commits: Commits::default(),
        }
    }

    /// Goes on to the moment before the event of this number.
    pub(super) fn go_to(&mut self, at: usize) {
        for event in &self.events[self.at..at] {
            match event {
                Event::Acknowledged(commits) => self.commits.acknowledged = *commits,
                Event::Begun(commits) => self.commits.begun = *commits,
                change => self.file.add(change),
            }
        }
        self.at = at;
    }

    /// Which commits the file may have as the last one.
    pub(super) fn commits(&self) -> Range<usize> {
        let mut later = self.events[self.at..].iter();
        let next = later.find_map(|event| match event {
            Event::Acknowledged(commits) => Some(*commits),
            _ => None,
        });
        self.commits.allowed(next)
    }

    pub(super) fn file(&self) -> &Unsynced {
        &self.file
    }

    /// A file that a power cut could leave at this moment, and what it has of the changes that were not synced.
    pub(super) fn cut(&self, random: &mut Random) -> (Image, String) {
        self.file.cut(random)
    }
}

/// A kind of power cut.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Each change is there or not, in any order.
    Subset,
    /// All changes but a few are there, in any order.
    MostOf,
    /// Only a few changes are there, in any order.
    FewOf,
    /// All changes are there. The last is torn at a byte.
    Last,
    /// Each write is lost, whole or torn, in any order.
    Torn,
    /// Only the changes of the length are there, or some of them.
    Lengths,
    /// Only the writes are there.
    Writes,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Subset,
        Self::MostOf,
        Self::FewOf,
        Self::Last,
        Self::Torn,
        Self::Lengths,
        Self::Writes,
    ];

    fn is_reordered(self) -> bool {
        matches!(self, Self::Subset | Self::MostOf | Self::FewOf | Self::Torn)
    }

    /// The part of a change that arrives. `None` if nothing of it does.
    fn part_of(self, event: &Event, is_last: bool, random: &mut Random) -> Option<Part> {
        let is_length = matches!(event, Event::SetLength(_));
        let arrives = match self {
            Self::Subset => random.one_in(2),
            Self::MostOf => !random.one_in(6),
            Self::FewOf => random.one_in(6),
            Self::Last => true,
            Self::Torn => !random.one_in(4),
            Self::Lengths => is_length && !random.one_in(4),
            Self::Writes => !is_length,
        };
        let is_torn = match self {
            Self::Last => is_last,
            Self::Torn => random.one_in(2),
            _ => false,
        };
        match event {
            Event::Write { data, .. } if arrives && is_torn => Some(Part::of(data.len(), random)),
            _ => arrives.then_some(Part::Whole),
        }
    }
}

/// What arrives of a change.
#[derive(Clone, Debug)]
enum Part {
    Whole,
    /// The bytes up to one of them, or from one on.
    Bytes(Range<usize>),
    /// Some of the sectors: those whose bits are set, over and over.
    Sectors(u64),
}

impl Part {
    /// A part of a write of this length.
    fn of(length: usize, random: &mut Random) -> Self {
        let byte = random.below(length as u64 + 1) as usize;
        match random.below(4) {
            0 => Self::Bytes(0..byte),
            1 => Self::Bytes(byte..length),
            2 => Self::Bytes(0..byte / SECTOR * SECTOR),
            _ => Self::Sectors(random.next()),
        }
    }

    fn apply(&self, event: &Event, image: &mut Image) {
        let Event::Write { offset, data } = event else {
            image.apply(event);
            return;
        };
        for part in self.ranges(data.len()) {
            image.apply(&Event::Write {
                offset: offset + part.start as u64,
                data: data[part].to_vec(),
            });
        }
    }

    /// The bytes of a write of this length that arrive.
    fn ranges(&self, length: usize) -> Vec<Range<usize>> {
        match self {
            Self::Whole => std::iter::once(0..length).collect(),
            Self::Bytes(part) => vec![part.clone()],
            Self::Sectors(sectors) => {
                let starts = (0..length).step_by(SECTOR).enumerate();
                let arrived = starts.filter(|(sector, _)| sectors >> (sector % 64) & 1 == 1);
                arrived
                    .map(|(_, start)| start..(start + SECTOR).min(length))
                    .collect()
            }
        }
    }
}
