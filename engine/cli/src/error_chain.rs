//! [`RootError`]: the error at the end of a chain of wrappers. DataFusion, Arrow and the scan wrap each other's errors.

use std::error::Error;
use std::io;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use grampus::StoreError;
use grampus_orc_layout::LayoutError;

/// The operation that failed, in DataFusion's words.
pub(crate) fn context(error: &DataFusionError) -> Option<&str> {
    match error {
        DataFusionError::Context(words, _) => Some(words),
        DataFusionError::Diagnostic(_, inner) => context(inner),
        _ => None,
    }
}

/// The root of a chain, by its library.
pub(crate) enum RootError<'a> {
    DataFusion(&'a DataFusionError),
    Arrow(&'a ArrowError),
    Io(&'a io::Error),
    Layout(&'a LayoutError),
    Store(&'a object_store::Error),
    Place(&'a StoreError),
    Other(&'a (dyn Error + 'static)),
}

/// Takes the wrappers off an error.
pub(crate) fn root_error(error: &DataFusionError) -> RootError<'_> {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root_error(inner),
        DataFusionError::Shared(inner) => root_error(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => root_error(&errors[0]),
        DataFusionError::External(inner) => foreign(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => arrow_root(inner),
        DataFusionError::IoError(inner) => io_root(inner),
        DataFusionError::ObjectStore(inner) => match StoreError::find(inner.as_ref()) {
            Some(place) => RootError::Place(place),
            None => RootError::Store(inner),
        },
        other => RootError::DataFusion(other),
    }
}

fn arrow_root(error: &ArrowError) -> RootError<'_> {
    match error {
        ArrowError::ExternalError(inner) => foreign(inner.as_ref()),
        // A spilled file's error, of the operating system or of the limit on temporary files.
        ArrowError::IoError(_, inner) if inner.get_ref().is_some_and(|inner| inner.is::<DataFusionError>()) => {
            io_root(inner)
        }
        other => RootError::Arrow(other),
    }
}

fn io_root(error: &io::Error) -> RootError<'_> {
    match error.get_ref() {
        Some(inner) => foreign(inner),
        None => RootError::Io(error),
    }
}

fn foreign<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> RootError<'a> {
    let plain: &'a (dyn Error + 'static) = error;
    if let Some(inner) = StoreError::find(plain) {
        RootError::Place(inner)
    } else if let Some(inner) = plain.downcast_ref::<DataFusionError>() {
        root_error(inner)
    } else if let Some(inner) = plain.downcast_ref::<Arc<DataFusionError>>() {
        root_error(inner)
    } else if let Some(inner) = plain.downcast_ref::<ArrowError>() {
        arrow_root(inner)
    } else if let Some(inner) = plain.downcast_ref::<io::Error>() {
        io_root(inner)
    } else if let Some(inner) = plain.downcast_ref::<LayoutError>() {
        RootError::Layout(inner)
    } else if let Some(inner) = plain.downcast_ref::<object_store::Error>() {
        RootError::Store(inner)
    } else {
        RootError::Other(plain)
    }
}

/// The chain of errors in the libraries' words, outermost first.
pub(crate) fn causes(error: &DataFusionError) -> Vec<String> {
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
