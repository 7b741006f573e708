//! What EXPLAIN says of the choice between CPU and GPU, one case for each rule.

use std::path::Path;

use datafusion::prelude::SessionContext;
use grampus::gpu::calibration::Calibration;
use grampus::session::register_orc;
use grampus_gpu_exec::MachineProfile;

use crate::common::{rows, set, text, write};
use crate::support::{GPU_SETTINGS, has_stand_ins};

const SQL: &str = "SELECT count(*), sum(x) FROM t WHERE x >= 2990";

/// A machine that takes seconds for the 24 KB of `x`.
fn slow() -> MachineProfile {
    MachineProfile {
        cpu_scan_bytes_per_s: 1e4,
        cpu_scan_all_bytes_per_s: 1e4,
        ..MachineProfile::of_cores(1)
    }
}

/// A machine whose link is slower still.
fn slow_link() -> MachineProfile {
    MachineProfile {
        push_bytes_per_s: 2e3,
        mapped_bytes_per_s: 2e3,
        mapped_loads_per_s: 1e2,
        ..slow()
    }
}

/// A session on such a machine, with 3,000 rows as table `t`.
async fn session(folder: &Path, profile: MachineProfile) -> SessionContext {
    let cache = folder.join("cache");
    Calibration::of(profile).save(&cache).unwrap();
    let path = folder.join("t.orc");
    write(&path, &rows());
    let context = GPU_SETTINGS[0].context();
    register_orc(&context, "t", &path.display().to_string()).await.unwrap();
    for (name, value) in [
        ("grampus.cache_folder", &*cache.display().to_string()),
        ("grampus.device", "auto"),
        ("grampus.gpu_backing", "auto"),
        ("grampus.prune", "false"),
    ] {
        set(&context, name, value).await;
    }
    context
}

/// The words for the choice.
async fn choice(context: &SessionContext) -> String {
    let plan = text(context, &format!("EXPLAIN {SQL}")).await;
    let found = ["not on the GPU: ", "because "].into_iter().find_map(|words| {
        let (_, after) = plan.split_once(words)?;
        let reason = after.lines().next()?.trim_end_matches(['|', ' ']);
        Some(format!("{words}{reason}"))
    });
    found.unwrap_or(plan)
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_rule_and_both_estimates() {
    if !has_stand_ins("explain_names_the_rule_and_both_estimates") {
        return;
    }
    let mut choices = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), MachineProfile::of_cores(1)).await;
    choices.push(choice(&context).await);
    set(&context, "grampus.device", "prefer").await;
    choices.push(choice(&context).await);

    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), slow()).await;
    choices.push(choice(&context).await);

    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), slow_link()).await;
    choices.push(choice(&context).await);
    set(&context, "grampus.gpu_load", "off").await;
    choices.push(choice(&context).await);
    set(&context, "grampus.device", "gpu").await;
    choices.push(choice(&context).await);
    text(&context, SQL).await;
    set(&context, "grampus.device", "auto").await;
    choices.push(choice(&context).await);
    insta::assert_snapshot!(choices.join("\n"));
}
