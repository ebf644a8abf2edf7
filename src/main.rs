//! The thin binary.

fn main() -> std::process::ExitCode {
    oncegate::cli::run()
}
