//! Two sessions of a program over one Grampus runtime: `cargo run -p grampus --example embed -- trips.orc`.

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use grampus::{Grampus, SessionChange};

#[tokio::main]
async fn main() -> Result<()> {
    let location = std::env::args().nth(1).expect("an ORC file, folder, glob or URL");

    // Files, metadata and the GPU belong to the runtime. One of its changes to sessions is switched off here.
    let grampus = Grampus::builder().without(SessionChange::CooperativeJoins).build()?;

    // A session of the program's own, and one with nothing else in it.
    let own = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(4))
        .with_default_features();
    let sessions = [
        SessionContext::new_with_state(grampus.register(own).build()),
        grampus.context()?,
    ];

    for session in &sessions {
        grampus::session::register_orc(session, "t", &location).await?;
        session.sql("SELECT count(*) FROM t").await?.show().await?;
    }
    Ok(())
}
