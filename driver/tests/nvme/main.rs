//! The conformance suite of controllers: the driver against QEMU's NVMe device over qtest, and against the software
//! controller. Every case runs on both, and compares all bytes with the images afterwards.

mod cases;
mod fault_cases;
mod file_cases;
mod machine;
mod qemu_machine;
mod qtest_registers;
mod queue_cases;
#[path = "../support/random.rs"]
mod random;
mod software_machine;

use machine::{Machine, MachineSetup};

/// Each case on each kind of machine.
macro_rules! conformance {
    ($($module:ident::$case:ident),* $(,)?) => {
        mod qtest {
            $(#[test]
            fn $case() {
                crate::$module::$case(&|setup| crate::qemu_machine::start(setup));
            })*
        }

        mod software {
            $(#[test]
            fn $case() {
                crate::$module::$case(&|setup| crate::software_machine::start(setup));
            })*
        }
    };
}

type Start<'a> = &'a dyn Fn(MachineSetup) -> Option<Box<dyn Machine>>;

conformance! {
    cases::identify_reports_limits_and_formats,
    cases::every_prp_shape_up_to_mdts_reads_its_bytes,
    cases::every_prp_shape_up_to_mdts_writes_its_bytes,
    cases::sgls_read_and_write_scattered_pages,
    cases::transfers_beyond_a_list_page_follow_the_chain,
    cases::write_zeroes_and_flush_reach_the_image,
    cases::two_controllers_with_blocks_of_512_and_4096_bytes,
    cases::smart_counters_count_the_commands,
    queue_cases::rings_of_eight_entries_wrap_over_thousands_of_commands,
    queue_cases::sixteen_queue_pairs_carry_their_own_commands,
    queue_cases::queues_end_at_the_granted_number_and_come_back,
    queue_cases::queues_longer_than_a_page_fill_up,
    queue_cases::full_queue_refuses_and_recovers,
    queue_cases::held_command_is_overtaken,
    fault_cases::failed_reads_writes_and_flushes_name_the_command,
    fault_cases::nth_read_fails_alone,
    fault_cases::bad_commands_are_refused_with_their_status,
    fault_cases::reset_with_commands_in_flight,
    fault_cases::bad_doorbells_are_reported_as_events,
    fault_cases::fatal_controller_recovers,
    fault_cases::health_warning_is_reported_as_an_event,
    fault_cases::shutdown_leaves_a_controller_that_opens_again,
    file_cases::files_are_loaded_found_again_and_read_over_several_queues,
    file_cases::failed_file_reads_and_writes_name_the_lba,
    file_cases::changed_bytes_of_a_file_are_found,
}
