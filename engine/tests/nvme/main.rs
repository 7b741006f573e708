//! Queries over files on NVMe namespaces: QEMU's controller over its qtest socket, and the software controller.
//!
//! The files are loaded through the driver, and the local ones removed before the first query. So each byte of an
//! answer came from the controller. The number of read commands is the controller's own (SMART).

mod cases;
mod machine;
#[path = "../../../driver/tests/nvme/qtest_registers.rs"]
mod qtest_registers;

use machine::Setup;

/// Each case on each kind of controller.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        mod qtest {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::cases::$case(&|setup| crate::machine::qemu(setup)).await;
            })*
        }

        mod software {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::cases::$case(&|setup| Some(crate::machine::software(setup))).await;
            })*
        }
    };
}

type Start<'a> = &'a (dyn Fn(&Setup) -> Option<grampus_driver::files::Drive> + Sync);

cases! {
    taxi_queries_answer_as_over_the_local_files,
    locations_name_files_folders_patterns_and_other_formats,
    failed_commands_name_the_file_the_drive_and_the_lba,
    writes_and_wrong_names_are_refused,
}
