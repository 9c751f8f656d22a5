//! Shared list: a long list of which each version shares most items with the version before.
//!
//! The items stand in segments of some dozens. A change makes only the segments anew that it touches, and the list
//! of segments. So what a change costs beside many items is a small part of a copy.

use std::ops::{Index, Range};
use std::sync::Arc;

/// A segment has at most this number of items.
const MOST: usize = 64;
/// A segment has at least this number of items, except for the last.
const LEAST: usize = MOST / 2;

/// A list that is not changed, but replaced by another version.
#[derive(Debug)]
pub(super) struct SharedList<T> {
    segments: Vec<Segment<T>>,
    /// For each multiple of [`LEAST`] the segment that has the item of this index.
    hints: Vec<u32>,
    len: usize,
}

#[derive(Debug)]
struct Segment<T> {
    /// The index of its first item.
    start: usize,
    items: Arc<[T]>,
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self {
            segments: Vec::new(),
            hints: Vec::new(),
            len: 0,
        }
    }
}

impl<T: Clone> SharedList<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        let hint = *self.hints.get(index / LEAST)? as usize;
        // As a segment has so many items, at most one more begins up to the index. The processor could not predict
        // whether one does.
        let next = self.segments.get(hint + 1);
        let is_in_next = next.is_some_and(|next| next.start <= index);
        let Segment { start, items } = self.segments.get(hint + usize::from(is_in_next))?;
        items.get(index - start)
    }

    /// The items of a range of indexes.
    pub(super) fn range(&self, range: Range<usize>) -> impl Iterator<Item = &T> {
        range.map_while(|index| self.get(index))
    }

    /// The list with other items in the place of those of a range.
    pub(super) fn splice(&self, range: Range<usize>, new: impl IntoIterator<Item = T>) -> Self {
        let mut touched = self.touched(&range);
        let before = self
            .segments
            .get(touched.start)
            .map_or(0, |segment| segment.start);
        let mut items: Vec<T> = Vec::new();
        for segment in &self.segments[touched.clone()] {
            items.extend_from_slice(&segment.items);
        }
        items.splice(range.start - before..range.end - before, new);
        // What is left must not be a short segment between others.
        while items.len() < LEAST && touched.end < self.segments.len() {
            items.extend(self.segments[touched.end].items.iter().cloned());
            touched.end += 1;
        }
        let parts = items.len().div_ceil(MOST);
        let mut items = items.into_iter();
        let mut list = Self::default();
        for segment in &self.segments[..touched.start] {
            list.push(segment.items.clone());
        }
        for part in 0..parts {
            let share = items.len() / (parts - part);
            list.push(items.by_ref().take(share).collect());
        }
        for segment in &self.segments[touched.end..] {
            list.push(segment.items.clone());
        }
        list
    }

    /// The segments that have items of a range, or to which items are added.
    fn touched(&self, range: &Range<usize>) -> Range<usize> {
        let segments = &self.segments;
        let first =
            segments.partition_point(|segment| segment.start + segment.items.len() <= range.start);
        let first = first.min(segments.len().saturating_sub(1));
        let end = segments.partition_point(|segment| segment.start < range.end);
        first..end.max(first + 1).min(self.segments.len())
    }

    fn push(&mut self, items: Arc<[T]>) {
        let start = self.len;
        self.len += items.len();
        let segment = self.segments.len() as u32;
        self.hints.resize(self.len.div_ceil(LEAST), segment);
        self.segments.push(Segment { start, items });
    }
}

impl<T: Clone> Index<usize> for SharedList<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        self.get(index)
            .expect("the index is below the length of the list")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_is(list: &SharedList<u32>, right: &[u32]) {
        assert_eq!(list.len(), right.len());
        assert!(list.range(0..usize::MAX).eq(right));
        for index in 0..right.len() + 70 {
            assert_eq!(list.get(index), right.get(index), "{index}");
        }
    }

    proptest! {
        #[test]
        fn a_list_after_any_changes_is_the_list_that_a_vector_would_be(
            changes in prop::collection::vec((any::<u32>(), 0..200usize, 0..300usize), 0..30),
        ) {
            let mut list = SharedList::default();
            let mut right = Vec::new();
            let mut next = 0;
            for (at, removed, added) in changes {
                let start = at as usize % (right.len() + 1);
                let range = start..right.len().min(start + removed);
                let new: Vec<u32> = (next..next + added as u32).collect();
                next += added as u32;
                let old = std::mem::take(&mut list);
                list = old.splice(range.clone(), new.iter().copied());
                assert_is(&old, &right);
                right.splice(range.clone(), new);
                assert_is(&list, &right);
                prop_assert!(list.range(range.clone()).eq(&right[range.start..range.end.min(right.len())]));
                let lengths: Vec<usize> = list.segments.iter().map(|segment| segment.items.len()).collect();
                let short = lengths.iter().rev().skip(1).filter(|&&length| length < LEAST).count();
                prop_assert!(short == 0 && lengths.iter().all(|length| (1..=MOST).contains(length)), "{lengths:?}");
            }
        }
    }

    /// What a change does not touch was copied, item by item.
    #[test]
    fn versions_share_what_did_not_change() {
        let list = SharedList::default().splice(0..0, 0..100_000);
        let changed = list.splice(50_000..50_003, [1, 2]);
        let shared = list.segments.iter().filter(|segment| {
            changed
                .segments
                .iter()
                .any(|other| Arc::ptr_eq(&segment.items, &other.items))
        });
        assert!(shared.count() >= list.segments.len() - 2);
    }
}
