//! The log: what each commit did to the sorted sets. A page of the log stays until all sets have its rows
//! in their levels.
//!
//! An operation takes 25 bytes, and a page has up to 162 operations. Pages are numbered one after the other.

use super::operation::{Change, Operation};
use crate::fingerprint::Fingerprint;
use crate::store::blocks::{Fields, FileSeed, HEADER_BYTES, Kind, Problem, seal, unseal};
use crate::store::numbers::{DocumentNumber, ScopeNumber};

const HAS_FINGERPRINT: u8 = 1;
const REMOVE: u8 = 2;
const FINGERPRINT_GONE: u8 = 4;
const UNSTORED: u8 = 8;
const FORGET: u8 = 16;

const OPERATION_BYTES: usize = 25;
/// The number of operations that fit into a value of 4,080 bytes.
const OPERATIONS_PER_PAGE: usize = (4080 - HEADER_BYTES - 2) / OPERATION_BYTES;

/// The pages of a commit. The first page has the number `first`.
pub(crate) fn encode_log(
    file: FileSeed,
    first: u64,
    operations: &[Operation],
) -> Vec<(u64, Vec<u8>)> {
    let mut pages = Vec::new();
    for (number, operations) in (first..).zip(operations.chunks(OPERATIONS_PER_PAGE)) {
        let bytes = seal(Kind::Log, file, &number.to_le_bytes(), |bytes| {
            bytes.extend((operations.len() as u16).to_le_bytes());
            for operation in operations {
                encode_operation(operation, bytes);
            }
        });
        pages.push((number, bytes));
    }
    pages
}

fn encode_operation(operation: &Operation, bytes: &mut Vec<u8>) {
    let mut flags = match operation.change {
        Change::Put => 0,
        Change::Forget => FORGET,
        Change::Remove {
            fingerprint_gone,
            unstored,
        } => REMOVE | flag(fingerprint_gone, FINGERPRINT_GONE) | flag(unstored, UNSTORED),
    };
    flags |= flag(operation.fingerprint.is_some(), HAS_FINGERPRINT);
    bytes.push(flags);
    bytes.extend(&operation.number.0.to_le_bytes()[..5]);
    bytes.extend(operation.key_hash.to_le_bytes());
    let fingerprint = operation.fingerprint.map_or(0, Fingerprint::bits);
    bytes.extend(fingerprint.to_le_bytes());
    bytes.extend(&operation.scope.0.to_le_bytes()[..3]);
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

/// Reads a page back, and adds its operations to others.
pub(super) fn decode_page(
    file: FileSeed,
    number: u64,
    bytes: &[u8],
    operations: &mut Vec<Operation>,
) -> Result<(), Problem> {
    let mut fields = Fields(unseal(Kind::Log, file, &number.to_le_bytes(), bytes)?);
    let count = u16::from_le_bytes(fields.take()?);
    for _ in 0..count {
        operations.push(decode_operation(&mut fields)?);
    }
    fields.finish()
}

fn decode_operation(fields: &mut Fields<'_>) -> Result<Operation, Problem> {
    let [flags] = fields.take()?;
    if flags & !(HAS_FINGERPRINT | REMOVE | FINGERPRINT_GONE | UNSTORED) != 0 && flags != FORGET {
        return Err("it has flags this release does not know");
    }
    let mut number = [0; 8];
    number[..5].copy_from_slice(fields.take_slice(5)?);
    let key_hash = u64::from_le_bytes(fields.take()?);
    let bits = u64::from_le_bytes(fields.take()?);
    let mut scope = [0; 4];
    scope[..3].copy_from_slice(fields.take_slice(3)?);
    let change = if flags == FORGET {
        Change::Forget
    } else if flags & REMOVE == 0 {
        Change::Put
    } else {
        Change::Remove {
            fingerprint_gone: flags & FINGERPRINT_GONE != 0,
            unstored: flags & UNSTORED != 0,
        }
    };
    Ok(Operation {
        change,
        number: DocumentNumber(u64::from_le_bytes(number)),
        key_hash,
        fingerprint: (flags & HAS_FINGERPRINT != 0).then(|| Fingerprint::from_bits(bits)),
        scope: ScopeNumber(u32::from_le_bytes(scope)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::schema::{key_row, posting_row};
    use super::*;
    use crate::store::blocks::worked_example;

    #[test]
    fn the_worked_example_of_the_format_description_is_what_is_written() {
        let operation = Operation {
            change: Change::Put,
            number: DocumentNumber(1),
            key_hash: 0x1122_3344_5566_7788,
            fingerprint: Some(Fingerprint::from_bits(0x0123_4567_89ab_cdef)),
            scope: ScopeNumber(1),
        };
        let pages = encode_log(FileSeed(0x0123_4567_89ab_cdef), 1, &[operation]);
        assert_eq!(pages[0].1, worked_example("page of the log"));
        let row = |row: u128| {
            format!(
                "{:016x} {:06x} {:010x}",
                row >> 64,
                row >> 40 & 0xff_ffff,
                row & 0xff_ffff_ffff
            )
        };
        let description = include_str!("../../../docs/format.md");
        let fingerprint = Fingerprint::from_bits(0x0123_4567_89ab_cdef);
        assert!(description.contains(&row(key_row(operation.key_hash, operation.number))));
        for scope in operation.scope.listing() {
            assert!(description.contains(&row(posting_row(fingerprint, scope, operation.number))));
        }
    }

    #[test]
    fn operations_read_back_from_their_own_page_and_file_only() -> Result<(), Problem> {
        let file = FileSeed(7);
        let changes = [
            Change::Put,
            Change::Remove {
                fingerprint_gone: true,
                unstored: false,
            },
            Change::Remove {
                fingerprint_gone: false,
                unstored: true,
            },
        ];
        let forget = Operation::forget(DocumentNumber(9));
        let operations: Vec<_> = (0..1000)
            .map(|i| Operation {
                change: changes[i % 3],
                number: DocumentNumber((1 << 40) - 1 - i as u64),
                key_hash: u64::MAX - i as u64,
                fingerprint: (i % 2 == 0).then(|| Fingerprint::from_bits(i as u64)),
                scope: if i % 5 == 0 {
                    ScopeNumber::ANY
                } else {
                    ScopeNumber::EMPTY
                },
            })
            .chain([forget])
            .collect();
        let pages = encode_log(file, 7, &operations);
        assert!(pages.iter().all(|(_, bytes)| bytes.len() <= 4080));
        let mut found = Vec::new();
        for (number, bytes) in &pages {
            decode_page(file, *number, bytes, &mut found)?;
            let refused =
                |file, number, bytes| decode_page(file, number, bytes, &mut Vec::new()).is_err();
            assert!(refused(file, number + 1, bytes));
            assert!(refused(FileSeed(8), *number, bytes));
            assert!(refused(file, *number, &bytes[1..]));
        }
        assert_eq!(found, operations);
        // Nothing goes together with the flag of a document whose block is taken out.
        let odd = Operation {
            fingerprint: Some(Fingerprint::from_bits(1)),
            ..forget
        };
        let (number, bytes) = encode_log(file, 7, &[odd]).remove(0);
        assert!(decode_page(file, number, &bytes, &mut Vec::new()).is_err());
        Ok(())
    }
}
