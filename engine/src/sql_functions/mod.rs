//! Functions of SQL that DataFusion lacks, by the names and with the meaning that DuckDB gives them.
//!
//! ```text
//! lengths        len: characters, bytes, elements
//! bits           bit_not, the operator ~
//! bars           bar: a bar of blocks
//! json_text      to_json
//! type_names     typeof: a type as SQL writes it
//! slices         text[from:to]
//! similarities   distances and similarities of two texts
//! format_text    a format and its places
//! formats        format and printf
//! time_fields    a time as fields of the calendar
//! epochs         epoch, epoch_ms: the time since 1970
//! time_buckets   time_bucket: the start of a bucket of time
//! time_texts     strftime, strptime
//! date_diff      boundaries between two times
//! age            the interval between two times in years, months and days
//! value_counts   mode, histogram and entropy
//! moments        skewness and kurtosis
//! list_aggregate list_aggregate, list_sum and their like
//! variables      getvariable
//! ```
//!
//! The functions of JSON are those of the package `datafusion-functions-json`. Functions that are short for expressions
//! are in `statement/macros.rs`.

mod age;
mod bars;
mod bits;
mod date_diff;
mod epochs;
mod format_text;
mod formats;
mod json_text;
mod lengths;
mod list_aggregate;
mod moments;
mod similarities;
mod slices;
mod time_buckets;
mod time_fields;
mod time_texts;
mod type_names;
mod value_counts;
pub(crate) mod variables;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::functions_nested::array_sum::array_sum_udf;
use datafusion::logical_expr::ScalarUDF;
use datafusion_functions_json::udfs;

pub use type_names::sql_type_name;

/// Adds the functions to a session. Functions of the session with such a name stay.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let session = builder.config().take().unwrap_or_default();
    let variables = Arc::new(variables::Variables::default());
    builder = builder.with_config(session.with_extension(Arc::clone(&variables)));
    let variable = Arc::new(ScalarUDF::new_from_impl(variables::GetVariable::new(variables)));
    let known = builder.scalar_functions().get_or_insert_default();
    // DataFusion's sums whole numbers as DOUBLE, which rounds large ones.
    known.retain(|known| !Arc::ptr_eq(known, &array_sum_udf()));
    for function in scalars().into_iter().chain([variable]) {
        let is_taken = |name: &str| known.iter().any(|known| known.name() == name);
        if !is_taken(function.name()) && !function.aliases().iter().any(|alias| is_taken(alias)) {
            known.push(function);
        }
    }
    let known = builder.aggregate_functions().get_or_insert_default();
    for function in value_counts::functions().into_iter().chain(moments::functions()) {
        if !known.iter().any(|known| known.name() == function.name()) {
            known.push(Arc::new(function));
        }
    }
    builder
        .expr_planners()
        .get_or_insert_default()
        .insert(0, Arc::new(slices::Slices));
    builder
}

fn scalars() -> Vec<Arc<ScalarUDF>> {
    let mut functions = vec![
        ScalarUDF::new_from_impl(age::Age::default()),
        ScalarUDF::new_from_impl(bars::Bar::default()),
        ScalarUDF::new_from_impl(bits::BitNot::default()),
        ScalarUDF::new_from_impl(json_text::ToJson::default()),
        ScalarUDF::new_from_impl(time_buckets::TimeBucket::default()),
        ScalarUDF::new_from_impl(date_diff::DateDiff::default()),
        ScalarUDF::new_from_impl(lengths::Length::default()),
        ScalarUDF::new_from_impl(slices::TextSlice::default()),
        ScalarUDF::new_from_impl(type_names::TypeOf::default()),
    ];
    functions.extend(epochs::functions());
    functions.extend(formats::functions());
    functions.extend(list_aggregate::functions());
    functions.extend(time_texts::functions());
    functions.extend(similarities::functions());
    let json = [
        udfs::json_as_text_udf(),
        udfs::json_contains_udf(),
        udfs::json_get_udf(),
        udfs::json_get_json_udf(),
        udfs::json_length_udf(),
        udfs::json_object_keys_udf(),
    ];
    functions.into_iter().map(Arc::new).chain(json).collect()
}
