//! Queries at low memory limits: they end, with the answer or an error that names the limit.

mod dictionaries;
mod joins;
mod repartition;
mod scans;
mod sorts;
mod tables;
mod writes;
