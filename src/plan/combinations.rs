//! Every combination of a given size, in lexicographic order.

/// Every way to choose `chosen` of the indexes `0..all`.
pub(super) fn combinations(all: usize, chosen: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut next = (chosen <= all).then(|| (0..chosen).collect::<Vec<_>>());
    std::iter::from_fn(move || {
        let choice = next.take()?;
        // The last index that can grow does, and those after it follow directly.
        let movable = (0..chosen).rev().find(|&i| choice[i] < all - chosen + i);
        next = movable.map(|index| {
            let mut later = choice.clone();
            (index..chosen).for_each(|i| later[i] = choice[index] + 1 + i - index);
            later
        });
        Some(choice)
    })
}
