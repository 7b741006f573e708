//! Grampus in a program's own DataFusion session: `cargo run -p grampus --example embed -- trips.orc`.

use std::process::ExitCode;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use grampus::{Device, GrampusOptions};

#[tokio::main]
async fn main() -> ExitCode {
    let Some(location) = std::env::args().nth(1) else {
        eprintln!("usage: embed ORC-FILE-OR-FOLDER [SQL]; the table is called t");
        return ExitCode::from(2);
    };
    let sql = std::env::args()
        .nth(2)
        .unwrap_or_else(|| "SELECT count(*) FROM t".to_owned());
    match run(&location, &sql).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", grampus::error::message(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(location: &str, sql: &str) -> Result<()> {
    // The program's own session.
    let builder = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(4))
        .with_default_features();

    // Grampus adds ORC tables, settings, and the rule that moves filtered aggregates to the GPU.
    let mut options = GrampusOptions::default();
    options.device = Device::Auto;
    let context = SessionContext::new_with_state(grampus::register(builder, options).build());

    grampus::session::register_orc(&context, "t", location).await?;
    context.sql(sql).await?.show().await?;
    context.sql(&format!("EXPLAIN {sql}")).await?.show().await
}
