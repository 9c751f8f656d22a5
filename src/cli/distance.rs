//! `simdb distance`: prints the distance of two fingerprints.

use crate::Fingerprint;
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A fingerprint: 16 hexadecimal digits
    #[arg(value_name = "HEX")]
    a: Fingerprint,

    /// Another
    #[arg(value_name = "HEX")]
    b: Fingerprint,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let distance = arguments.a.distance(arguments.b);
    output.print(|| json!({"distance": distance}), || distance.to_string());
    Ok(Answer::Yes)
}
