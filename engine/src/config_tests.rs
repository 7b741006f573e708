//! Tests of the settings.

use datafusion::common::config::ConfigOptions;

use super::*;

#[test]
fn settings_are_set_by_name_and_refuse_wrong_values() {
    let mut options = ConfigOptions::default();
    options.extensions.insert(GrampusOptions::default());
    options.set("grampus.local_io", "READ").unwrap();
    options.set("grampus.tile_rows", "1000").unwrap();
    let grampus = options.extensions.get::<GrampusOptions>().unwrap();
    assert_eq!((grampus.local_io, grampus.tile_rows), (LocalIo::Read, 1000));
    let error = options.set("grampus.local_io", "tape").unwrap_err();
    assert!(error.to_string().contains("'mmap' or 'read', not 'tape'"), "{error}");
    options.set("grampus.timestamp_unit", "US").unwrap();
    options.set("grampus.invalid_utf8", "replace").unwrap();
    let grampus = options.extensions.get::<GrampusOptions>().unwrap();
    assert_eq!(
        (grampus.timestamp_unit, grampus.invalid_utf8),
        (TimestampUnit::Us, InvalidUtf8::Replace)
    );
    options.set("grampus.device", "Prefer").unwrap();
    options.set("grampus.gpu_backing", "queued").unwrap();
    options.set("grampus.gpu_load", "off").unwrap();
    let grampus = options.extensions.get::<GrampusOptions>().unwrap();
    assert_eq!(
        (grampus.device, grampus.gpu_backing),
        (Device::Prefer, GpuBacking::Queued)
    );
    let error = options.set("grampus.device", "abacus").unwrap_err().to_string();
    assert!(error.contains("one of auto, gpu, prefer, cpu, not 'abacus'"), "{error}");
}

#[test]
fn cache_folder_is_as_set() {
    let options = GrampusOptions {
        cache_folder: "/somewhere".to_owned(),
        ..GrampusOptions::default()
    };
    assert_eq!(cache_folder(&options), Some(PathBuf::from("/somewhere")));
    assert_eq!(
        options.device_settings().kernel_folder(),
        Some(PathBuf::from("/somewhere/kernels"))
    );
}
