//! A first program: which pages are new, and which pages are like a text?

use std::borrow::Cow;

use simdb::{Change, CreateOptions, Database, Match, Near, Policy, Query};

const PAGES: [(&str, &str); 3] = [
    (
        "https://a.example/",
        "The lighthouse at the north end of the island was built in 1854. It is open on Sundays, and the climb is 120 \
         steps.",
    ),
    (
        "https://b.example/",
        "The lighthouse at the north end of the island was built in 1854. It is open on Sundays, and the climb is 121 \
         steps.",
    ),
    (
        "https://c.example/",
        "Ferries leave the harbour every hour in summer. In winter there are two a day, and none when the wind is \
         strong.",
    ),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::open_or_create("seen.simdb", &CreateOptions::new())?;
    let fingerprinter = database.fingerprinter()?;
    let mut txn = database.begin_write()?;
    for (url, text) in PAGES {
        let document = fingerprinter.document(url, text);
        let verdict = txn.insert_if_new(&document, &Policy::skip())?;
        match verdict.matches().nearest() {
            Some(near) => println!(
                "{url} is {} bits from {}, and not stored",
                near.distance,
                key(near)
            ),
            None if *verdict.change() == Change::Inserted => println!("{url} is new"),
            None => println!("{url} was seen before"),
        }
    }
    // Durable when it returns.
    txn.commit()?;

    // Which pages are like a text that was never stored?
    let text =
        "The lighthouse at the north end of the island was built in 1854. It is open on Sundays.";
    let asked = fingerprinter.document("", text);
    let query = Query::like(&asked).ok_or("the text is too short to judge")?;
    for found in database
        .snapshot()?
        .query(&query.near(Near::new().min_similarity(0.5)))?
    {
        println!("{} bits from {}", found.distance, key(&found));
    }
    Ok(())
}

fn key(found: &Match) -> Cow<'_, str> {
    String::from_utf8_lossy(found.document.key())
}
