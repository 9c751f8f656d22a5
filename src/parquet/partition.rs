//! Partition: columns whose value is in the name of a directory, such as `scope=news/part-0.parquet`, as Spark, Hive and
//! others write them. The files below it do not have the column.

use std::path::Path;

/// Stands for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The value of a column in the names of the directories below `root` in which a file is. The innermost counts. `None` if
/// none names it, and `Some(None)` for null.
pub(super) fn value_of(
    column: &str,
    root: &Path,
    file: &Path,
) -> Result<Option<Option<String>>, String> {
    let Some(directory) = file.strip_prefix(root).ok().and_then(Path::parent) else {
        return Ok(None);
    };
    let is_column = |name: &[u8]| percent_decoded(name).as_deref() == Some(column.as_bytes());
    let named = directory.iter().rev().find_map(|part| {
        let part = part.as_encoded_bytes();
        let equals = part.iter().position(|&byte| byte == b'=')?;
        is_column(&part[..equals]).then_some(&part[equals + 1..])
    });
    let Some(value) = named else { return Ok(None) };
    if value == NULL.as_bytes() {
        return Ok(Some(None));
    }
    let text = percent_decoded(value).and_then(|it| String::from_utf8(it).ok());
    let odd = || format!("the `{column}` in the name of its directory is not UTF-8");
    text.map(|text| Some(Some(text))).ok_or_else(odd)
}

/// Bytes with `%20` for a space. `None` if no two hexadecimal digits follow a `%`.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(*rest.next()?).to_digit(16);
        decoded.push((digit()? * 16 + digit()?) as u8);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_from_the_directories_below_the_root_only() {
        let of = |file: &str| value_of("scope", Path::new("/scope=x/in"), Path::new(file));
        let text = |text: &str| Ok(Some(Some(text.to_owned())));
        assert_eq!(of("/scope=x/in/a.parquet"), Ok(None));
        assert_eq!(of("/scope=x/in/scope=y.parquet"), Ok(None));
        assert_eq!(
            of("/scope=x/in/scope=a%2Fb%20%C3%A9=/a.parquet"),
            text("a/b é=")
        );
        assert_eq!(
            of("/scope=x/in/scope=1/year=2024/scope=é/a.parquet"),
            text("é")
        );
        assert_eq!(of("/scope=x/in/scope=/a.parquet"), text(""));
        assert_eq!(
            of("/scope=x/in/scope=__HIVE_DEFAULT_PARTITION__/a.parquet"),
            Ok(Some(None))
        );
        for odd in ["%ff", "%f", "%zz"] {
            let file = format!("/scope=x/in/scope={odd}/a.parquet");
            assert!(
                value_of("scope", Path::new("/scope=x/in"), Path::new(&file)).is_err(),
                "{odd}"
            );
        }
    }
}
