//! Scopes to bytes and back.

use super::ScopeNumber;
use super::codec::{self, Fields, Kind, Problem};

/// The record of a scope: its number.
pub(super) fn encode_scope(name: &str, number: ScopeNumber) -> Vec<u8> {
    codec::seal(Kind::Scope, codec::named_row(name.as_bytes()), |bytes| bytes.extend(number.0.to_le_bytes()))
}

/// The number in the record of a scope.
pub(super) fn decode_scope(name: &str, bytes: &[u8]) -> Result<ScopeNumber, Problem> {
    let mut fields = Fields(codec::unseal(Kind::Scope, codec::named_row(name.as_bytes()), bytes)?);
    let number = ScopeNumber(u32::from_le_bytes(fields.take()?));
    fields.finish()?;
    Ok(number)
}
