//! The matches that an answer lists.

use super::query::Match;

/// The first matches in the order that is asked for. They come in the order of distance.
pub(super) struct Listed {
    pub(super) list: Vec<Match>,
    pub(super) limit: usize,
    pub(super) by_similarity: bool,
}

impl Listed {
    pub(super) fn add(&mut self, it: Match) {
        if !self.by_similarity {
            if self.list.len() < self.limit {
                self.list.push(it);
            }
            return;
        }
        self.list.push(it);
        // So memory grows with the limit and not with the matches.
        const MORE: usize = 64;
        if self.list.len() >= self.limit.saturating_mul(2).saturating_add(MORE) {
            self.keep_most_similar();
        }
    }

    pub(super) fn finish(mut self) -> Vec<Match> {
        if self.by_similarity {
            self.keep_most_similar();
        }
        self.list
    }

    fn keep_most_similar(&mut self) {
        let jaccard = |it: &Match| {
            it.similarity
                .map_or(-1.0, |similarity| similarity.jaccard())
        };
        // Equal ones stay in their order.
        self.list.sort_by(|a, b| jaccard(b).total_cmp(&jaccard(a)));
        self.list.truncate(self.limit);
    }
}
