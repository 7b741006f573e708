//! Queries over files on NVMe namespaces: QEMU's controller over its qtest socket, and the software controller.
//!
//! The files are loaded through the driver, and the local ones removed before the first query. So each byte of an
//! answer came from the controller. The number of read commands is the controller's own (SMART).

mod cases;
mod device_cases;
mod machine;
#[path = "../../../driver/tests/nvme/qtest_registers.rs"]
mod qtest_registers;

use machine::Setup;

/// Each case on each kind of controller.
macro_rules! cases {
    ($($module:ident::$case:ident),* $(,)?) => {
        mod qtest {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::$module::$case(&|setup| crate::machine::qemu(setup)).await;
            })*
        }

        mod software {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::$module::$case(&|setup| Some(crate::machine::software(setup))).await;
            })*
        }
    };
}

type Start<'a> = &'a (dyn Fn(&Setup) -> Option<grampus_driver::files::Drive> + Sync);

cases! {
    cases::taxi_queries_answer_as_over_the_local_files,
    cases::locations_name_files_folders_patterns_and_other_formats,
    cases::failed_commands_name_the_file_the_drive_and_the_lba,
    cases::writes_and_wrong_names_are_refused,
    device_cases::device_answers_as_the_cpu_over_the_local_files,
    device_cases::commands_go_through_the_driver_without_free_queues,
    device_cases::failed_commands_of_kernels_name_the_file_and_the_drive,
}
