//! Readers that share the dictionaries of a stripe, and readers for whose dictionaries there is no memory: the values
//! are those of a reader with a dictionary of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, UInt32Type};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::decode::{ColumnReader, Dictionary, DictionaryShare};
use grampus_orc_layout::metadata_reader::{read_stripe, read_tail};
use grampus_orc_layout::read_options::{Dictionaries, ReadOptions};
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use grampus_orc_layout::{LayoutError, Result};

mod common;
use common::Memory;

const ROWS: usize = 3_000;

/// Words of which each is in several rows: short and long ones, in several alphabets, and NULLs.
fn words(alphabet: &str) -> StringArray {
    let word = |row: usize| format!("{}{}", row % 251, alphabet.repeat(row % 251 % 40));
    (0..ROWS).map(|row| (row % 11 != 5).then(|| word(row * row))).collect()
}

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let words_of = |alphabet| Arc::new(words(alphabet)) as ArrayRef;
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let list = ListArray::new(
        item,
        OffsetBuffer::from_lengths((0..ROWS / 3).map(|_| 3)),
        words_of("x"),
        None,
    );
    vec![
        ("ascii", words_of("abc")),
        ("greek", words_of("αβγ")),
        ("empty", Arc::new(StringArray::from(vec![""; ROWS]))),
        ("null", Arc::new(StringArray::from(vec![None::<&str>; ROWS]))),
        ("list", Arc::new(list)),
    ]
}

/// A share that has memory for each dictionary, or for none.
struct Share {
    has_memory: bool,
    loads: AtomicUsize,
    held: Mutex<HashMap<ColumnId, (u64, Arc<Dictionary>)>>,
}

impl DictionaryShare for Share {
    fn get(
        &self,
        column: ColumnId,
        bytes: u64,
        load: &mut dyn FnMut() -> Result<Dictionary>,
    ) -> Result<Option<Arc<Dictionary>>> {
        if !self.has_memory {
            return Ok(None);
        }
        let mut held = self.held.lock().unwrap();
        if let Some((_, dictionary)) = held.get(&column) {
            return Ok(Some(Arc::clone(dictionary)));
        }
        self.loads.fetch_add(1, Ordering::Relaxed);
        let dictionary = Arc::new(load()?);
        held.insert(column, (bytes, Arc::clone(&dictionary)));
        Ok(Some(dictionary))
    }
}

fn share(has_memory: bool) -> Arc<Share> {
    Arc::new(Share {
        has_memory,
        loads: AtomicUsize::default(),
        held: Mutex::default(),
    })
}

fn file(column: &ArrayRef, codec: Option<Codec>) -> Arc<Memory> {
    let batch = RecordBatch::try_from_iter_with_nullable([("s", Arc::clone(column), true)]).unwrap();
    let options = WriterProperties {
        codec,
        dictionary_threshold: 1.0,
        ..WriterProperties::default()
    };
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(options)).unwrap();
    writer.write(&batch).unwrap();
    Arc::new(Memory(writer.into_inner().unwrap().into()))
}

fn reader(source: &Arc<Memory>, dictionaries: Dictionaries) -> ColumnReader {
    let tail = read_tail(&"words.orc".into(), source.0.len() as u64, source.as_ref()).unwrap();
    let stripe = Arc::new(read_stripe(&tail, source.as_ref(), 0).unwrap());
    let access = Access::of(&tail, &stripe, 1, None, source.as_ref(), false).unwrap();
    let mut options = ReadOptions::new();
    options.dictionaries = dictionaries;
    let bytes = Arc::clone(source) as _;
    ColumnReader::with_options(Arc::new(tail), stripe, 1, None, access, bytes, options).unwrap()
}

/// The values without codes.
fn plain(array: &ArrayRef, like: &DataType) -> ArrayRef {
    match array.data_type() == like {
        true => Arc::clone(array),
        false => cast(array, like).unwrap(),
    }
}

#[test]
fn shared_and_partial_dictionaries_have_the_same_values() {
    for (name, column) in columns() {
        for codec in [None, Some(Codec::Zstd)] {
            let source = file(&column, codec);
            for dictionaries in [Dictionaries::Expand, Dictionaries::Keep] {
                for has_memory in [true, false] {
                    let share = share(has_memory);
                    let mut readers = [(); 2].map(|()| reader(&source, dictionaries).sharing(Arc::clone(&share) as _));
                    let rows = column.len() as u64;
                    let mut every_seventh = RowSelection::new();
                    (0..rows).step_by(7).for_each(|row| every_seventh.push(row..row + 1));
                    let first = RowSelection::range(0..1);
                    let some = RowSelection::range(rows / 2..rows / 2 + 40);
                    let all = RowSelection::range(0..rows);
                    for (which, selection) in [(0, &first), (1, &every_seventh), (0, &some), (1, &all), (0, &all)] {
                        let read = readers[which].read(selection).unwrap();
                        let expected = reader(&source, Dictionaries::Expand).read(selection).unwrap();
                        let case = format!("{name} {codec:?} {dictionaries:?} {has_memory} {selection:?}");
                        assert!(
                            plain(&read, column.data_type()).to_data() == expected.to_data(),
                            "{case}"
                        );
                        if let Some(coded) = read.as_dictionary_opt::<UInt32Type>()
                            && !has_memory
                        {
                            assert!(coded.values().len() <= coded.len(), "{case}");
                        }
                    }
                    let loads = share.loads.load(Ordering::Relaxed);
                    let is_empty = name == "null";
                    assert_eq!(loads, usize::from(has_memory && !is_empty), "{name}: loaded once");
                }
            }
        }
    }
}

#[test]
fn bytes_of_a_dictionary_are_known_before_it_is_loaded() {
    for (name, column) in columns() {
        let share = share(true);
        let mut reader =
            reader(&file(&column, Some(Codec::Zlib)), Dictionaries::Expand).sharing(Arc::clone(&share) as _);
        reader.read(&RowSelection::range(0..column.len() as u64)).unwrap();
        for (bytes, dictionary) in share.held.lock().unwrap().values() {
            let actual = dictionary.entries().get_buffer_memory_size() as u64;
            assert!(
                actual <= *bytes + 64 && *bytes <= actual + 64,
                "{name}: {bytes}, and it takes {actual}"
            );
        }
    }
}

/// Without memory for the dictionary, a read takes no more than its limit.
#[test]
fn partial_dictionaries_stay_within_the_limit_of_a_read() {
    let text = "a".repeat(100_000);
    let column: ArrayRef = Arc::new(
        (0..40)
            .map(|row| Some(format!("{}{text}", row % 20)))
            .collect::<StringArray>(),
    );
    let source = file(&column, Some(Codec::Zstd));
    for dictionaries in [Dictionaries::Expand, Dictionaries::Keep] {
        let mut reader = reader(&source, dictionaries).sharing(share(false));
        let error = reader.read_within(&RowSelection::range(0..40), 1_000_000).unwrap_err();
        assert!(matches!(error, LayoutError::TooLarge { rows: 40, .. }), "{error}");
        let two = reader.read_within(&RowSelection::range(5..7), 1_000_000).unwrap();
        assert!(plain(&two, &DataType::Utf8).to_data() == column.slice(5, 2).to_data());
    }
}
