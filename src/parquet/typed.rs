//! Typed: columns of a batch as the types that are needed, whatever whole numbers, bytes and times another program has
//! written.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};

use crate::fingerprint::Fingerprint;

/// What a column has to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The bits of a fingerprint.
    Bits,
    Number,
    Bytes,
    Time,
}

impl Kind {
    fn takes(self, kind: &DataType) -> bool {
        match self {
            Self::Bits => matches!(kind, DataType::Int64 | DataType::UInt64),
            Self::Number => kind.is_integer(),
            Self::Bytes => matches!(
                kind,
                DataType::Utf8 | DataType::Binary | DataType::FixedSizeBinary(_)
            ),
            Self::Time => matches!(kind, DataType::Timestamp(..) | DataType::Int64),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Bits => "INT64, the bit pattern of a fingerprint (in SQL: CAST(... AS BIGINT))",
            Self::Number => "a whole number, such as INT64,",
            Self::Bytes => "STRING or BINARY",
            Self::Time => "TIMESTAMP, or INT64 with Unix seconds",
        }
    }
}

/// Refuses a schema in which a column has a type that its kind cannot be read from.
pub(super) fn ensure_types(schema: &Schema, columns: &[(&str, Kind)]) -> Result<(), String> {
    for (name, kind) in columns {
        if let Ok(field) = schema.field_with_name(name)
            && !kind.takes(field.data_type())
        {
            let (found, wanted) = (field.data_type(), kind.wanted());
            return Err(format!(
                "its column `{name}` is of the type {found}; {wanted} is needed"
            ));
        }
    }
    Ok(())
}

/// The whole number of a row in a column, of any width. `None` if there is none, or no such column.
pub(super) fn whole(batch: &RecordBatch, name: &str, row: usize) -> Option<i128> {
    let column = batch.column_by_name(name).filter(|it| it.is_valid(row))?;
    match column.data_type() {
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt64 => Some(column.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Int32 => Some(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt32 => Some(column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::Int16 => Some(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::UInt16 => Some(column.as_primitive::<UInt16Type>().value(row).into()),
        DataType::Int8 => Some(column.as_primitive::<Int8Type>().value(row).into()),
        DataType::UInt8 => Some(column.as_primitive::<UInt8Type>().value(row).into()),
        _ => None,
    }
}

/// The number of a row in a column. `None` if there is none, or no such column. One that is too large is an error.
pub(super) fn number(batch: &RecordBatch, name: &str, row: usize) -> Result<Option<i64>, String> {
    let fits = |it| {
        i64::try_from(it)
            .map_err(|_| format!("its `{name}` is {it}, which is more than INT64 holds"))
    };
    whole(batch, name, row).map(fits).transpose()
}

/// The fingerprint of a row in a column of bit patterns. `None` if there is none, or no such column.
pub(super) fn fingerprint(batch: &RecordBatch, name: &str, row: usize) -> Option<Fingerprint> {
    let column = batch.column_by_name(name).filter(|it| it.is_valid(row))?;
    let bits = match column.data_type() {
        DataType::Int64 => column
            .as_primitive::<Int64Type>()
            .value(row)
            .cast_unsigned(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row),
        _ => return None,
    };
    Some(Fingerprint::from_bits(bits))
}

/// The bytes of a row in a column. `None` if there are none, or no such column.
pub(super) fn bytes<'b>(batch: &'b RecordBatch, name: &str, row: usize) -> Option<&'b [u8]> {
    let column = batch.column_by_name(name).filter(|it| it.is_valid(row))?;
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary => Some(column.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => Some(column.as_fixed_size_binary().value(row)),
        _ => None,
    }
}

/// The Unix seconds of a row in a column of times, rounded down. `None` if there are none, or no such column.
pub(super) fn seconds(batch: &RecordBatch, name: &str, row: usize) -> Option<i64> {
    let column = batch.column_by_name(name).filter(|it| it.is_valid(row))?;
    let DataType::Timestamp(unit, _) = column.data_type() else {
        return number(batch, name, row).ok().flatten();
    };
    Some(match unit {
        TimeUnit::Second => column.as_primitive::<TimestampSecondType>().value(row),
        TimeUnit::Millisecond => column
            .as_primitive::<TimestampMillisecondType>()
            .value(row)
            .div_euclid(1_000),
        TimeUnit::Microsecond => column
            .as_primitive::<TimestampMicrosecondType>()
            .value(row)
            .div_euclid(1_000_000),
        TimeUnit::Nanosecond => column
            .as_primitive::<TimestampNanosecondType>()
            .value(row)
            .div_euclid(1_000_000_000),
    })
}
