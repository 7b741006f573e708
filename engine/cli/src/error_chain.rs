//! Takes the wrappers off an error: DataFusion, Arrow and the scan carry each other's errors, and one of them counts.

use std::error::Error;
use std::io;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use grampus_orc_layout::LayoutError;

/// What was being done, in DataFusion's words.
pub(super) fn context(error: &DataFusionError) -> Option<&str> {
    match error {
        DataFusionError::Context(words, _) => Some(words),
        DataFusionError::Diagnostic(_, inner) => context(inner),
        _ => None,
    }
}

/// The error that counts at the end of a chain of wrappers.
pub(super) enum Root<'a> {
    DataFusion(&'a DataFusionError),
    Arrow(&'a ArrowError),
    Io(&'a io::Error),
    Layout(&'a LayoutError),
    Store(&'a object_store::Error),
    Other(&'a (dyn Error + 'static)),
}

pub(super) fn root(error: &DataFusionError) -> Root<'_> {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => root(&errors[0]),
        DataFusionError::External(inner) => foreign(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => arrow_root(inner),
        DataFusionError::IoError(inner) => io_root(inner),
        DataFusionError::ObjectStore(inner) => Root::Store(inner),
        other => Root::DataFusion(other),
    }
}

fn arrow_root(error: &ArrowError) -> Root<'_> {
    match error {
        ArrowError::ExternalError(inner) => foreign(inner.as_ref()),
        other => Root::Arrow(other),
    }
}

fn io_root(error: &io::Error) -> Root<'_> {
    match error.get_ref() {
        Some(inner) => foreign(inner),
        None => Root::Io(error),
    }
}

fn foreign<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> Root<'a> {
    let plain: &'a (dyn Error + 'static) = error;
    if let Some(inner) = plain.downcast_ref::<DataFusionError>() {
        root(inner)
    } else if let Some(inner) = plain.downcast_ref::<Arc<DataFusionError>>() {
        root(inner)
    } else if let Some(inner) = plain.downcast_ref::<ArrowError>() {
        arrow_root(inner)
    } else if let Some(inner) = plain.downcast_ref::<io::Error>() {
        io_root(inner)
    } else if let Some(inner) = plain.downcast_ref::<LayoutError>() {
        Root::Layout(inner)
    } else if let Some(inner) = plain.downcast_ref::<object_store::Error>() {
        Root::Store(inner)
    } else {
        Root::Other(plain)
    }
}

/// The chain of errors in the libraries' words, outermost first.
pub(super) fn causes(error: &DataFusionError) -> Vec<String> {
    let mut causes = Vec::new();
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if causes.last() != Some(&text) {
            causes.push(text);
        }
        next = error.source();
    }
    causes
}
