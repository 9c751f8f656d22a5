//! `simdb check`: checks every invariant of a database.

use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::output::Output;
use super::verbs::{LiveDatabase, Opening, Verb};
use crate::inspect::{CheckReport, Problem};
use crate::plural::counted;
use crate::{Database, Error};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,
}

impl Verb for Arguments {
    fn opening(&self) -> Opening {
        Opening::Check
    }

    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let progress = output.console().progress();
        let checked = match output.console().is_of_client() {
            // Others use the database meanwhile.
            true => database
                .snapshot()
                .and_then(|snapshot| snapshot.check_with(progress.steps())),
            false => database.check_with(progress.steps()),
        };
        drop(progress);
        match checked {
            Ok(report) => Ok(print_report(self, &report, output)),
            Err(error) => self.cannot_open(error, output),
        }
    }

    fn when_ended(&self) -> Option<&'static str> {
        Some("stopped before all was checked, so it is not known whether the database is damaged")
    }

    /// If there is damage the answer is no, even if the file is too damaged to be opened.
    fn cannot_open(&self, error: Error, output: &mut Output) -> CommandResult {
        if !matches!(error, Error::Damaged { .. } | Error::Corrupted(_)) {
            return Err(error.into());
        }
        let problem = Error::with_causes(&error);
        output.complain(&format!("{}: {problem}", self.database.path.display()));
        output.print_record(
            &json!({"sound": false, "problems": [problem], "total_problems": 1}),
            &format!("{}: damaged", self.database.path.display()),
        );
        Ok(Answer::No)
    }
}

fn print_report(arguments: &Arguments, report: &CheckReport, output: &mut Output) -> Answer {
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
    let path = arguments.database.path.display();
    let line = format!("{path}: {}", summary(report));
    output.print_record(&object, &line);
    Answer::yes_if(report.is_sound())
}

fn summary(report: &CheckReport) -> String {
    let mut summary = match report.total_problems {
        0 => format!(
            "sound; {}, {}",
            counted(report.documents, "document"),
            counted(report.fingerprints, "fingerprint")
        ),
        total => format!(
            "damaged; {}; restore a copy, or take out what is whole: `simdb salvage`",
            counted(total, "problem")
        ),
    };
    if !report.pages_verified {
        summary += "; the checksums of the pages were not verified: for that, nobody else may use the file, and it must \
                    be allowed to write to it";
    }
    summary
}
