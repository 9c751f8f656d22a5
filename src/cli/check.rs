//! `simdb check`: checks every invariant of a database.

use crate::{CheckReport, Database, Error, Problem};
use serde_json::json;

use super::answer::{Answer, CommandResult, chain};
use super::arguments::LiveDatabase;
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,
}

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let progress = output.console().progress();
    let update = |done, all| progress.update(done, Some(all));
    let checked = match output.console().is_of_client() {
        // Others use the database meanwhile.
        true => database
            .snapshot()
            .and_then(|snapshot| snapshot.check_with(update)),
        false => database.check_with(update),
    };
    drop(progress);
    answer(arguments, checked, output)
}

/// Prints what was found. If there is damage the answer is no, even if the file is too damaged to be opened.
pub(super) fn answer(
    arguments: &Arguments,
    checked: Result<CheckReport, Error>,
    output: &mut Output,
) -> CommandResult {
    let path = &arguments.database.database;
    let report = match checked {
        Ok(report) => report,
        Err(error @ (Error::Damaged { .. } | Error::Corrupted(_))) => {
            let problem = chain(&error);
            output.complain(&problem);
            output.print_record(
                &json!({"sound": false, "problems": [problem], "total_problems": 1}),
                &format!("{}: damaged", path.display()),
            );
            return Ok(Answer::No);
        }
        Err(error) => return Err(error.into()),
    };
    let problems: Vec<String> = report.problems.iter().map(Problem::to_string).collect();
    if !output.is_json() {
        for problem in &problems {
            output.print_line(problem);
        }
    }
    let object = json!({
        "sound": report.is_sound(),
        "documents": report.documents,
        "fingerprints": report.fingerprints,
        "pages_verified": report.pages_verified,
        "problems": problems,
        "total_problems": report.total_problems,
    });
    let line = format!("{}: {}", path.display(), summary(&report));
    output.print_record(&object, &line);
    Ok(Answer::yes_if(report.is_sound()))
}

fn summary(report: &CheckReport) -> String {
    let CheckReport {
        documents,
        fingerprints,
        total_problems,
        ..
    } = report;
    let mut summary = match total_problems {
        0 => format!("sound; {documents} documents, {fingerprints} fingerprints"),
        total => format!("damaged; {total} problems"),
    };
    if !report.pages_verified {
        summary += "; the checksums of the pages were not verified";
    }
    summary
}
