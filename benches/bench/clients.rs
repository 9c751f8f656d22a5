//! The phase in which processes submit documents to the one that has the database open, as crawlers on one machine do.
//!
//! Each client is this program again. It connects, says so, and begins when it is told. All answers are durable, and
//! are checked as in the phase `writer`.

use std::path::Path;

use crate::Failure;
use crate::arguments::Arguments;
use crate::state::{Bench, Row};

#[cfg(unix)]
pub(crate) use on_unix::be_client;

#[cfg(not(unix))]
pub(crate) fn be_client(_: &Arguments, _: &Path) -> Result<(), Failure> {
    Err("clients need a system of the Unix family".into())
}

#[cfg(not(unix))]
impl Bench<'_> {
    pub(crate) fn serve_clients(&mut self, _: u64, _: &mut Row) -> Result<(), Failure> {
        Err("clients need a system of the Unix family".into())
    }
}

#[cfg(unix)]
mod on_unix {
    use std::collections::VecDeque;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use simdb::{Client, ClientOptions, ClientTicket, Policy};

    use super::{Arguments, Bench, Failure, Path, Row};

    impl Bench<'_> {
        pub(crate) fn serve_clients(&mut self, clients: u64, row: &mut Row) -> Result<(), Failure> {
            let documents = self.arguments.documents;
            let server = self.database()?.serve()?;
            let first = |client: u64| self.inserted + documents * client / clients;
            let mut running = Vec::new();
            for client in 0..clients {
                running.push(self.start_client(first(client), first(client + 1))?);
            }
            for client in &mut running {
                line_of(client)?;
            }
            let begun = Instant::now();
            for client in &mut running {
                // It goes on when its input ends.
                drop(client.stdin.take());
            }
            let mut near_duplicates = 0;
            for client in &mut running {
                near_duplicates += line_of(client)?.trim().parse::<u64>()?;
            }
            let seconds = begun.elapsed().as_secs_f64();
            for mut client in running {
                if !client.wait()?.success() {
                    return Err("a client has failed".into());
                }
            }
            drop(server);
            self.inserted += documents;
            row.add("clients", clients);
            row.add("documents", documents);
            row.add_rounded("per_second", documents as f64 / seconds);
            row.add("near_duplicates", near_duplicates);
            self.assert_stored()
        }

        fn start_client(&self, first: u64, end: u64) -> Result<Child, Failure> {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(std::env::args_os().skip(1));
            command.arg("--client-of").arg(&self.path);
            command
                .arg("--numbers")
                .arg(format!("{first},{end},{}", self.inserted));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            Ok(command.spawn()?)
        }
    }

    /// The next line that a client says.
    fn line_of(client: &mut Child) -> Result<String, Failure> {
        let output = client.stdout.as_mut().ok_or("its output is a pipe")?;
        let mut line = String::new();
        // Nothing is read ahead, since it says one line and then waits.
        BufReader::with_capacity(1, output).read_line(&mut line)?;
        match line.is_empty() {
            true => Err("a client has ended".into()),
            false => Ok(line),
        }
    }

    /// Is a client of another process.
    pub(crate) fn be_client(arguments: &Arguments, database: &Path) -> Result<(), Failure> {
        let [first, end, inserted] = arguments.numbers[..] else {
            return Err("a client has the numbers of its documents".into());
        };
        let bench = Bench::of_client(arguments, database, inserted)?;
        let options = ClientOptions::new().timeout(Duration::from_secs(60));
        let client = Client::connect(database, &options)?;
        let mut output = std::io::stdout();
        writeln!(output, "ready")?;
        std::io::stdin().lines().count();
        let mut near_duplicates = 0;
        let most = arguments.outstanding as usize;
        let mut outstanding: VecDeque<(u64, ClientTicket)> = VecDeque::new();
        for number in first..end {
            if outstanding.len() == most {
                for (number, ticket) in outstanding.drain(..most.div_ceil(2)) {
                    bench.check_verdict(number, &ticket.wait()?, &mut near_duplicates)?;
                }
            }
            let ticket = client.submit(&bench.document(number), &Policy::link())?;
            outstanding.push_back((number, ticket));
        }
        for (number, ticket) in outstanding {
            bench.check_verdict(number, &ticket.wait()?, &mut near_duplicates)?;
        }
        writeln!(output, "{near_duplicates}")?;
        Ok(())
    }
}
