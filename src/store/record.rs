//! Documents to bytes and back.

use serde::{Deserialize, Serialize};

use super::codec::{self, Fields, Kind, Problem};
use super::{DocumentNumber, ScopeNumber};
use crate::document::Document;
use crate::fingerprint::Fingerprint;

/// Bit of the flags: the document has a fingerprint.
const HAS_FINGERPRINT: u8 = 1;
/// Bit of the flags: a rank, scope or payload follows the key.
const HAS_EXTRAS: u8 = 2;

/// The parts of varying length that most documents do without.
#[derive(Serialize, Deserialize)]
struct Extras {
    rank: Vec<i64>,
    scope: String,
    payload: Vec<u8>,
}

/// The record of a document: flags, fingerprint, seen, length of the key, key, extras.
pub(super) fn encode_document(number: DocumentNumber, document: &Document) -> Vec<u8> {
    let extras = Extras {
        rank: document.rank().to_vec(),
        scope: document.scope().to_owned(),
        payload: document.payload().to_vec(),
    };
    let has_extras = !(extras.rank.is_empty() && extras.scope.is_empty() && extras.payload.is_empty());
    let key_bytes = u16::try_from(document.key().len()).expect("keys are validated before they are stored");
    codec::seal(Kind::Document, number.0, |bytes| {
        let fingerprint_flag = if document.fingerprint().is_some() { HAS_FINGERPRINT } else { 0 };
        bytes.push(fingerprint_flag | if has_extras { HAS_EXTRAS } else { 0 });
        bytes.extend(document.fingerprint().map_or(0, Fingerprint::bits).to_le_bytes());
        bytes.extend(document.seen().to_le_bytes());
        bytes.extend(key_bytes.to_le_bytes());
        bytes.extend(document.key());
        if has_extras {
            codec::encode(&extras, bytes);
        }
    })
}

/// The document of a record.
pub(super) fn decode_document(number: DocumentNumber, bytes: &[u8]) -> Result<Document, Problem> {
    let mut fields = Fields(codec::unseal(Kind::Document, number.0, bytes)?);
    let [flags] = fields.take()?;
    if flags & !(HAS_FINGERPRINT | HAS_EXTRAS) != 0 {
        return Err("it has flags this release does not know");
    }
    let bits = u64::from_le_bytes(fields.take()?);
    let seen = i64::from_le_bytes(fields.take()?);
    let key_bytes = u16::from_le_bytes(fields.take()?);
    let key = fields.take_slice(usize::from(key_bytes))?;
    let fingerprint = (flags & HAS_FINGERPRINT != 0).then(|| Fingerprint::from_bits(bits));
    let document = Document::new(key, fingerprint).with_seen(seen);
    if flags & HAS_EXTRAS == 0 {
        fields.finish()?;
        return Ok(document);
    }
    let Extras { rank, scope, payload } = codec::decode(fields.0)?;
    Ok(document.with_rank(rank).with_scope(scope).with_payload(payload))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_read_back_as_they_were() {
        let bare = Document::new("k", None).with_seen(i64::MIN);
        let full = Document::new([0xff; 4096], Fingerprint::from_bits(u64::MAX))
            .with_seen(-1)
            .with_rank([i64::MIN, 0, 1, i64::MAX])
            .with_scope("zh")
            .with_payload([0; 60_000]);
        for document in [bare, full] {
            let bytes = encode_document(DocumentNumber(5), &document);
            assert_eq!(decode_document(DocumentNumber(5), &bytes), Ok(document));
        }
    }

    #[test]
    fn a_record_in_the_place_of_another_is_refused() {
        let bytes = encode_document(DocumentNumber(5), &Document::new("k", None));
        assert!(decode_document(DocumentNumber(6), &bytes).is_err());
    }

    /// The worked row of docs/format.md.
    #[test]
    fn the_worked_row_of_the_format_description_is_what_is_written() {
        let document = Document::new("http://a/", Fingerprint::from_bits(0x0123_4567_89ab_cdef))
            .with_seen(1_700_000_000)
            .with_scope("en");
        let bytes = encode_document(DocumentNumber(1), &document);
        let description = include_str!("../../docs/format.md");
        let row = description.split("<!-- worked row -->").nth(1).expect("docs/format.md has a worked row");
        let code = row.split("```").nth(1).expect("the worked row is a code block");
        // Each line: up to 16 bytes in hexadecimal, then `;` and what they are.
        let hexadecimal: Vec<&str> = code
            .lines()
            .skip(1)
            .flat_map(|line| line.split(';').next().unwrap_or("").split_whitespace())
            .collect();
        let written: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hexadecimal.join(" "), written.join(" "));
    }
}
