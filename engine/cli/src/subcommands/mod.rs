//! Subcommands, one file each.
//!
//! | file | subcommand |
//! | --- | --- |
//! | `demo` | `demo`: a tour on made-up taxi trips |
//! | `layout` | `layout`: the place of every part of an ORC file |
//! | `generate` | `taxi generate`: tables of taxi trips |
//! | `convert` | `convert`: ORC from Parquet, CSV and ORC |
//! | `device` | `device`: the hardware and software to compute on, and its rates |
//! | `nvme` | `nvme`: the NVMe controllers, and the change of their driver |
//! | `nvme_drive` | opening a namespace, or an image of one |
//! | `nvme_files` | `nvme load`, `files`, `remove`, `verify`: files on a namespace |
//! | `bench_sql` | `bench sql`: times of statements |
//! | `bench_io` | `bench io`: rates of each path between storage and GPU |
//! | `file_job` | progress and summary of the subcommands that write files |

pub(crate) mod bench_io;
pub(crate) mod bench_sql;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod device;
mod file_job;
pub(crate) mod generate;
pub(crate) mod layout;
pub(crate) mod nvme;
mod nvme_drive;
mod nvme_files;
