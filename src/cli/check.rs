//! `simdb check`: checks every invariant of a database.

use serde_json::json;
use simdb::{Error, Problem};

use super::answer::{Answer, CommandResult, chain};
use super::arguments::DatabaseArgument;
use super::open::open_to_write;
use super::output::{Output, complain};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,
}

/// If there is damage the answer is no, even if the file is too damaged to be opened.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let path = &arguments.database.database;
    let report = match open_to_write(path).and_then(|database| database.check()) {
        Ok(report) => report,
        Err(error @ (Error::Damaged { .. } | Error::Corrupted(_))) => {
            complain(&chain(&error));
            output.print(
                || json!({"sound": false, "problems": [chain(&error)], "total_problems": 1}),
                || format!("{}: damaged", path.display()),
            );
            return Ok(Answer::No);
        }
        Err(error) => return Err(error.into()),
    };
    let problems: Vec<String> = report.problems.iter().map(Problem::to_string).collect();
    if !output.is_json() {
        for problem in &problems {
            output.print(|| json!(null), || problem.clone());
        }
    }
    output.print(
        || {
            json!({
                "sound": report.is_sound(),
                "documents": report.documents,
                "fingerprints": report.fingerprints,
                "problems": problems,
                "total_problems": report.total_problems,
            })
        },
        || match report.total_problems {
            0 => format!(
                "{}: sound; {} documents, {} fingerprints",
                path.display(),
                report.documents,
                report.fingerprints
            ),
            total => format!("{}: damaged; {total} problems", path.display()),
        },
    );
    Ok(Answer::yes_if(report.is_sound()))
}
