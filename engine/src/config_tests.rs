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

/// The settings of docs/GPU.md's table: names, and the texts between backquotes of the column of values.
fn documented() -> Vec<(String, Vec<String>)> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/GPU.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `grampus."));
    let settings = rows.map(|row| {
        let (name, row) = row.split_once("` |").unwrap();
        let values = row.split('|').next().unwrap().split(',');
        let values = values.map(|value| value.trim().trim_matches('`').to_owned());
        (name.to_owned(), values.collect())
    });
    settings.collect()
}

#[test]
fn settings_of_the_gpu_page_are_those_of_the_table() {
    let mut options = GrampusOptions::default();
    let entries = options.entries();
    let of_gpu = |name: &str| name.contains("gpu") || matches!(name, "device" | "nvcomp_library" | "cache_folder");
    let names = entries.iter().map(|entry| entry.key.strip_prefix("grampus.").unwrap());
    let names: Vec<&str> = names.filter(|name| of_gpu(name)).collect();
    let documented = documented();
    let listed: Vec<&str> = documented.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(listed, names);
    for (name, values) in &documented {
        let key = format!("grampus.{name}");
        let entry = entries.iter().find(|entry| entry.key == key).unwrap();
        let first = if values[0] == "empty" { "" } else { &values[0] };
        assert_eq!(entry.value.as_deref(), Some(first), "{name}");
        for value in values.iter().filter(|value| !value.contains(' ') && *value != "empty") {
            if value != "bytes" {
                options.set(name, value).unwrap();
            }
        }
    }
}
