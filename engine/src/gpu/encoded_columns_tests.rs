//! Tests of decoding on the device: the decode kernel gives the values of orc-layout's decoder.
//!
//! Files, some of them damaged, come from Grampus's writer, Apache ORC and orc-rust (`shared/data/orc`, else ignored).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampNanosecondArray,
};
use bytes::Bytes;
use grampus_cuda::{self as cuda, Device, Module, Nvcomp};
use grampus_gpu_exec::decode as decoding;
use grampus_gpu_exec::decode::standalone::{Modules, Rows, decode};
use grampus_gpu_exec::decompress::ChunkKernel;
use grampus_gpu_exec::input::Decoded;
use grampus_gpu_exec::input::encoded_check::fits;
use grampus_gpu_exec::kernel_cache::KernelCache;
use grampus_gpu_exec::program::{Stored, Type};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::decode::{ColumnReader, dictionary_entries};
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedStream, EncodedValues, RunLength};
use grampus_orc_layout::index::ColumnIndex;
use grampus_orc_layout::metadata_reader::{read_index, read_stripe, read_tail};
use grampus_orc_layout::read_options::ReadOptions;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::gpu::lower::types::type_of;
use crate::gpu::string_dictionary::StringDictionary;
use crate::gpu::stripe_decoder::decoded;

#[path = "encoded_decimals_tests.rs"]
mod decimals;

/// Host threads as warps of one lane, and as warps of 32 lanes in lockstep.
struct Machines {
    device: Device,
    /// With one lane, with 32 lanes, and with one lane and nvCOMP.
    kernels: [Kernels; 3],
    /// A stand-in for nvCOMP.
    nvcomp: Arc<Nvcomp>,
}

struct Kernels {
    decoding: Arc<Module>,
    decompressing: Vec<(ChunkKernel, Arc<Module>)>,
    around_library: Option<Arc<Module>>,
}

fn machines() -> Option<Machines> {
    if let Err(e) = cuda::host_compiler() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
        return None;
    }
    let device = Device::host(2, 1 << 30);
    let modules = KernelCache::new(&device, None).unwrap();
    let lockstep = |unit: String, entry: &str| {
        let [begin, end] = [
            include_str!("../../../io-stack/cuda/src/lanes.h"),
            include_str!("../../../io-stack/cuda/src/lanes_end.h"),
        ];
        let lockstep = [begin, &unit, end].concat();
        let lockstep = cuda::compile_for(&device, &lockstep, entry).unwrap();
        Arc::new(Module::load(&device, &lockstep.cubin).unwrap())
    };
    let one_lane = |around_library| Kernels {
        decoding: modules.decoding().unwrap().module,
        decompressing: (ChunkKernel::ALL)
            .map(|kernel| (kernel, modules.decompressing(kernel).unwrap().module))
            .into(),
        around_library,
    };
    Some(Machines {
        kernels: [
            one_lane(None),
            Kernels {
                decoding: lockstep(decoding::translation_unit(), decoding::ENTRY),
                decompressing: (ChunkKernel::ALL)
                    .map(|kernel| (kernel, lockstep(kernel.translation_unit(), kernel.entry())))
                    .into(),
                around_library: None,
            },
            one_lane(Some(modules.around_library().unwrap().module)),
        ],
        nvcomp: Nvcomp::load(Some(&grampus_host_nvcomp::file())).unwrap(),
        device,
    })
}

/// A column of a stripe, for both decoders.
struct Column {
    file: Arc<Bytes>,
    tail: Arc<FileTail>,
    stripe: Arc<StripeLayout>,
    index: Option<Arc<ColumnIndex>>,
    id: ColumnId,
    ty: Type,
    encoded: EncodedColumn,
    dictionary: StringDictionary,
}

/// Numbers of comparisons by outcome.
#[derive(Debug, Default)]
struct Tally {
    equal: usize,
    /// The decoder has values, and the device has none.
    left_to_cpu: usize,
    errors: usize,
}

impl Column {
    fn by_cpu(&self, rows: Range<u64>) -> Result<Decoded, String> {
        let source: Arc<dyn ByteSource> = self.file.clone();
        let words = |e: grampus_orc_layout::LayoutError| e.to_string();
        let access = Access::of(&self.tail, &self.stripe, self.id, self.index.as_deref(), &*source, true);
        let mut reader = ColumnReader::new(
            self.tail.clone(),
            self.stripe.clone(),
            self.id,
            self.index.clone(),
            access.map_err(words)?,
            source,
        )
        .map_err(words)?;
        let array = reader.read(&RowSelection::range(rows)).map_err(words)?;
        decoded(&array, &self.dictionary).map_err(|e| e.to_string())
    }

    fn on_device(&self, machines: &Machines, kernels: &Kernels, rows: Range<u64>) -> Option<Decoded> {
        let numbers = match self.encoded.values {
            EncodedValues::Dictionary(..) => {
                let (tail, stripe) = (self.tail.clone(), self.stripe.clone());
                let entries =
                    dictionary_entries(tail, stripe, self.id, self.file.clone(), ReadOptions::default()).ok()?;
                self.dictionary.codes(&entries).unwrap()
            }
            _ => Vec::new(),
        };
        let what = Rows {
            encoded: &self.encoded,
            ty: self.ty,
            stored: Stored::of(self.ty),
            rows,
            codes: &numbers,
            nullable: true,
            batch_bytes: 1 << 22,
        };
        let modules = Modules {
            decoding: &kernels.decoding,
            decompressing: &kernels.decompressing,
            library: (kernels.around_library.as_ref()).map(|module| (&*machines.nvcomp, &**module)),
        };
        decode(&machines.device, modules, &what, &self.file).unwrap()
    }

    /// Values of the device must equal the decoder's.
    fn compare(&self, machines: &Machines, rows: Range<u64>, what: &str, tally: &mut Tally) {
        let wanted = self.by_cpu(rows.clone());
        for (k, kernels) in machines.kernels.iter().enumerate() {
            let found = self.on_device(machines, kernels, rows.clone());
            match (&wanted, found) {
                (Ok(wanted), Some(found)) => {
                    let valid = wanted
                        .valid
                        .clone()
                        .unwrap_or_else(|| vec![1; found.valid.as_ref().unwrap().len()]);
                    let same = found.values == wanted.values && found.valid.as_ref() == Some(&valid);
                    assert!(
                        same,
                        "{what}, rows {rows:?}, width {k}: other values than the decoder's"
                    );
                    tally.equal += 1;
                }
                (Err(words), Some(_)) => {
                    panic!("{what}, rows {rows:?}, width {k}: values, where the decoder says: {words}")
                }
                (Ok(_), None) => tally.left_to_cpu += 1,
                (Err(_), None) => tally.errors += 1,
            }
        }
    }
}

/// The columns of a file that the device may decode. A damaged file has none.
fn columns(file: Bytes) -> Vec<Column> {
    let file = Arc::new(file);
    let Ok(tail) = read_tail(&"file".into(), file.len() as u64, &*file) else {
        return Vec::new();
    };
    let tail = Arc::new(tail);
    let mut columns = Vec::new();
    for stripe in 0..tail.stripes.len() {
        let Ok(stripe) = read_stripe(&tail, &*file, stripe).map(Arc::new) else {
            continue;
        };
        for (field, &id) in tail.schema.arrow.fields().iter().zip(tail.schema.fields()) {
            let Some(ty) = type_of(field.data_type()) else { continue };
            let Ok(index) = read_index(&tail, &stripe, &*file, id) else {
                continue;
            };
            let has_index = !index.positions.is_empty();
            let index = has_index.then(|| Arc::new(index));
            let encoded = EncodedColumn::of(&tail, &stripe, id, index.as_deref(), &*file);
            let Some(encoded) = encoded.filter(|of| fits(of, ty, stripe.info.rows, file.len() as u64)) else {
                continue;
            };
            columns.push(Column {
                file: file.clone(),
                tail: tail.clone(),
                stripe: stripe.clone(),
                index,
                id,
                ty,
                encoded,
                dictionary: StringDictionary::default(),
            });
        }
    }
    columns
}

/// Compares each column whole and over some random ranges of rows.
fn compare_all(machines: &Machines, columns: &[Column], random: &mut ChaCha8Rng, ranges: usize, name: &str) -> Tally {
    let mut tally = Tally::default();
    for column in columns {
        let rows = column.stripe.info.rows;
        let what = format!(
            "{name}, stripe {}, column {}: {:?}",
            column.stripe.info.index,
            column.tail.schema.path(column.id),
            column.encoded.values
        );
        column.compare(machines, 0..rows, &what, &mut tally);
        for _ in 0..ranges {
            let (a, b) = (random.random_range(0..=rows), random.random_range(0..=rows));
            column.compare(machines, a.min(b)..a.max(b), &what, &mut tally);
        }
    }
    tally
}

/// A table with a column of each kind with NULLs, and one without, in all kinds of runs.
fn rows(random: &mut ChaCha8Rng, count: usize) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for with_nulls in [false, true] {
        // Stretches of one pattern each, so that the writer chooses all kinds of runs.
        let mut numbers = |bits: u32| {
            let mut out: Vec<Option<i64>> = Vec::new();
            while out.len() < count {
                let length = random.random_range(1..700);
                let base = random.random::<i64>() >> (64 - bits) >> 1;
                let (pattern, step) = (random.random_range(0..6), random.random_range(-3..4));
                for k in 0..length {
                    let value = match pattern {
                        0 => base,
                        1 => (base / 2).saturating_add(k * step),
                        2 => base / 2 + (random.random::<i64>() >> (65 - bits / 2)),
                        3 => random.random::<i64>() >> (64 - bits),
                        4 if random.random_ratio(1, 40) => random.random::<i64>() >> (64 - bits),
                        _ => random.random_range(0..50),
                    };
                    let limit = i64::MAX >> (64 - bits);
                    let value = value.clamp(-limit - 1, limit);
                    let missing = with_nulls && (pattern == 5 || random.random_ratio(1, 9));
                    out.push((!missing).then_some(value));
                }
            }
            out.truncate(count);
            out
        };
        let name = |kind: &str| format!("{kind}{}", if with_nulls { "_null" } else { "" });
        let narrow = |values: Vec<Option<i64>>| values.into_iter().map(|v| v.map(|v| v as i32));
        let bytes = numbers(8).into_iter().map(|v| v.map(|v| v as i8));
        columns.push((name("byte"), Arc::new(Int8Array::from_iter(bytes))));
        let shorts = numbers(16).into_iter().map(|v| v.map(|v| v as i16));
        columns.push((name("short"), Arc::new(Int16Array::from_iter(shorts))));
        columns.push((name("int"), Arc::new(Int32Array::from_iter(narrow(numbers(32))))));
        columns.push((name("date"), Arc::new(Date32Array::from_iter(narrow(numbers(32))))));
        columns.push((name("long"), Arc::new(Int64Array::from_iter(numbers(64)))));
        let times = numbers(62)
            .into_iter()
            .map(|v| v.map(|v| if v % 3 == 0 { v / 1_000_000 * 1_000_000 } else { v }));
        columns.push((name("time"), Arc::new(TimestampNanosecondArray::from_iter(times))));
        let booleans = numbers(16).into_iter().map(|v| v.map(|v| v % 2 == 0));
        columns.push((name("boolean"), Arc::new(BooleanArray::from_iter(booleans))));
        let floats = numbers(32).into_iter().map(|v| v.map(|v| v as f32 / 8.0));
        columns.push((name("float"), Arc::new(Float32Array::from_iter(floats))));
        let doubles = numbers(60).into_iter().map(|v| v.map(|v| v as f64 / 8.0));
        columns.push((name("double"), Arc::new(Float64Array::from_iter(doubles))));
        let words = numbers(16).into_iter().map(|v| v.map(|v| format!("word {}", v % 37)));
        columns.push((name("word"), Arc::new(StringArray::from_iter(words))));
        columns.push((name("decimal"), decimals::array(numbers(59), 18, 5)));
        columns.push((name("wide"), decimals::array(numbers(64), 38, 10)));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// `codec`, with its chunks' size.
fn write(rows: &RecordBatch, stride: u32, stripe_rows: usize, codec: Option<(Codec, usize)>) -> Bytes {
    let defaults = WriterProperties::default();
    let options = WriterProperties {
        row_index_stride: stride,
        stripe_rows,
        codec: codec.map(|(codec, _)| codec),
        chunk_size_bytes: codec.map_or(defaults.chunk_size_bytes, |(_, bytes)| bytes),
        ..defaults
    };
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(options)).unwrap();
    writer.write(rows).unwrap();
    writer.into_inner().unwrap().into()
}

#[test]
fn own_files_decode_to_the_decoders_values() {
    let Some(machines) = machines() else { return };
    for (seed, (stride, stripe_rows)) in [(500, 3000), (1000, 2500), (100, 1500), (0, 2000), (7, 500)]
        .into_iter()
        .enumerate()
    {
        let mut random = ChaCha8Rng::seed_from_u64(seed as u64);
        let rows = rows(&mut random, 3000);
        let columns = columns(write(&rows, stride, stripe_rows, None));
        let (count, tally) = (columns.len(), compare_all(&machines, &columns, &mut random, 2, "ours"));
        println!("stride {stride}: {count} columns of stripes, {tally:?}");
        // Doubles and floats without NULLs are stored raw. The test decodes them too.
        assert!(
            count >= 20 && tally.left_to_cpu == 0 && tally.errors == 0,
            "stride {stride}: {tally:?}"
        );
    }
}

#[test]
fn own_compressed_files_decode_to_the_decoders_values() {
    let Some(machines) = machines() else { return };
    let mut seed = 7;
    for (stride, stripe_rows, bytes) in [
        (500, 3000, 1 << 18),
        (100, 1500, 700),
        (0, 2000, 4096),
        (1000, 2500, 64),
    ] {
        for codec in [Codec::Snappy, Codec::Lz4, Codec::Zlib, Codec::Zstd] {
            seed += 1;
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let rows = rows(&mut random, 3000);
            let columns = columns(write(&rows, stride, stripe_rows, Some((codec, bytes))));
            let (count, tally) = (columns.len(), compare_all(&machines, &columns, &mut random, 2, "ours"));
            println!("{codec:?}, stride {stride}: {count} columns of stripes, {tally:?}");
            assert!(
                count >= 20 && tally.left_to_cpu == 0 && tally.errors == 0,
                "{codec:?}, stride {stride}: {tally:?}"
            );
        }
    }
}

fn orc_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            orc_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "orc") {
            found.push(path);
        }
    }
}

/// Columns of stripes that are compared of one of other writers' files.
const MOST_COLUMNS: usize = 60;

#[test]
fn other_writers_files_decode_to_the_decoders_values() {
    let Some(machines) = machines() else { return };
    let Some(folder) = grampus_test_support::data("orc") else {
        return;
    };
    let mut files = Vec::new();
    orc_files(&folder, &mut files);
    files.sort();
    let (mut all, mut total, mut version_1, mut compressed) = (0, Tally::default(), 0, 0);
    for path in files {
        let mut random = ChaCha8Rng::seed_from_u64(path.as_os_str().len() as u64);
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let mut columns = columns(bytes);
        // One file has 385 stripes of nine columns.
        columns.shuffle(&mut random);
        columns.truncate(MOST_COLUMNS);
        version_1 += columns.iter().filter(|c| is_version_1(&c.encoded)).count();
        compressed += columns.iter().filter(|c| is_compressed(&c.encoded)).count();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let tally = compare_all(&machines, &columns, &mut random, 3, &name);
        if !columns.is_empty() {
            println!("{name}: {} columns of stripes, {tally:?}", columns.len());
        }
        all += columns.len();
        total.equal += tally.equal;
        total.left_to_cpu += tally.left_to_cpu;
        total.errors += tally.errors;
    }
    println!("{all} columns of stripes, {version_1} with runs of version 1, {compressed} compressed: {total:?}");
    assert!(
        all > 100 && version_1 > 0 && compressed > 0,
        "{all}, {version_1}, {compressed}"
    );
    assert!(total.left_to_cpu * 20 < total.equal, "{total:?}");
}

fn is_version_1(encoded: &EncodedColumn) -> bool {
    use EncodedValues::{Decimals, Dictionary, Integers, Timestamps};
    matches!(
        encoded.values,
        Integers(RunLength::V1)
            | Dictionary(RunLength::V1, _)
            | Timestamps(RunLength::V1, _)
            | Decimals(RunLength::V1, _)
    )
}

fn is_compressed(encoded: &EncodedColumn) -> bool {
    encoded.data.chunks.is_some()
}

/// For damaged streams too, values of the device must equal the decoder's.
#[test]
fn damaged_files_decode_to_the_decoders_values_or_to_none() {
    let Some(machines) = machines() else { return };
    for codec in [
        None,
        Some((Codec::Snappy, 600)),
        Some((Codec::Lz4, 2000)),
        Some((Codec::Zlib, 600)),
        Some((Codec::Zstd, 600)),
    ] {
        let total = damaged(&machines, codec);
        println!("{codec:?}: {total:?}");
        assert!(total.equal > 200 && total.errors > 100, "{codec:?}: {total:?}");
    }
}

fn damaged(machines: &Machines, codec: Option<(Codec, usize)>) -> Tally {
    let mut random = ChaCha8Rng::seed_from_u64(99);
    let rows = rows(&mut random, 900);
    let whole = write(&rows, 300, 900, codec);
    let data: Vec<Range<usize>> = columns(whole.clone())
        .iter()
        .flat_map(|c| {
            [
                Some(&c.encoded.data),
                c.encoded.present.as_ref(),
                c.encoded.secondary.as_ref(),
            ]
        })
        .flatten()
        .map(stored_bytes)
        .collect();
    let mut total = Tally::default();
    for _ in 0..60 {
        let mut bytes = whole.to_vec();
        for stream in &data {
            let most = if codec.is_some() { 8 } else { 40 };
            for _ in 0..random.random_range(0..most) {
                bytes[random.random_range(stream.clone())] = random.random();
            }
        }
        let mut tally = Tally::default();
        for column in columns(bytes.into()) {
            // After a run of a damaged length, values depend on the row at which reading begins. The decoder continues
            // from one row group to the next, and the device begins at each. The rows here are of one row group.
            let group = random.random_range(0..3) * 300;
            let (first, last) = (random.random_range(0..300), random.random_range(0..300));
            let rows = group + first.min(last)..group + first.max(last) + 1;
            let what = format!("damaged column {}", column.tail.schema.path(column.id));
            column.compare(machines, rows, &what, &mut tally);
        }
        total.equal += tally.equal;
        total.left_to_cpu += tally.left_to_cpu;
        total.errors += tally.errors;
    }
    total
}

/// Bytes of the file that hold a stream.
fn stored_bytes(stream: &EncodedStream) -> Range<usize> {
    let end = match stream.chunks.as_ref().and_then(|list| list.chunks.last()) {
        Some(last) => last.offset + u64::from(last.length),
        None => stream.offset + stream.length,
    };
    stream.offset as usize..end as usize
}
