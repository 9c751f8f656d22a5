//! Listing: which documents an expiry would remove.

use std::ops::ControlFlow;

use super::selection::{Conditions, Selection};
use crate::document::Document;
use crate::error::Result;
use crate::store::file::{DEAD, View, damaged_document};
use crate::store::numbers::DocumentNumber;

/// Called with each document that would be removed.
pub(crate) type ToExpire<'a> = &'a mut dyn FnMut(Document) -> ControlFlow<()>;

/// Goes through the documents of a view that meet the conditions, in the order in which they were written, until
/// there are none or `each` breaks. Reads the blocks that an expiry would read, and no others.
pub(crate) fn list(
    view: &View,
    conditions: &Conditions,
    each: ToExpire<'_>,
) -> Result<ControlFlow<()>> {
    let selection = Selection::new(view, conditions)?;
    let (documents, of) = (&view.state().documents, view.document_blocks());
    let mut next = 0;
    while let Some(position) = selection.next_block(view, next)? {
        let Some(entry) = documents.entry(position, of)? else {
            break;
        };
        let block = of.documents_once(entry)?;
        let first = block.documents().next().map_or(0, |first| first.number);
        let dead = view.set(DEAD).rows(&(first..=entry.high))?;
        for document in block.documents() {
            let damaged = |problem| damaged_document(DocumentNumber(document.number), problem);
            if dead.binary_search(&document.number).is_err()
                && selection.takes(&document).map_err(damaged)?
                && each(document.to_document().map_err(damaged)?).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        next = entry.high + 1;
        if next >= selection.end() {
            break;
        }
    }
    Ok(ControlFlow::Continue(()))
}
