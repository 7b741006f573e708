//! The conformance table of README.md: which files of other writers, and which types of our writer, this crate,
//! orc-rust and pyarrow read. The test makes the table from real runs and compares it with the page;
//! `GRAMPUS_WRITE_README=1` writes it there.

mod common;
mod tables;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UnionArray};
use arrow::compute::{can_cast_types, cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, UnionFields};
use arrow::ipc::reader::FileReader;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use common::{corpus, manifest};
use grampus_orc_layout::arrow_reader::{ArrowReaderOptions, OrcReaderBuilder};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::read_options::CharPadding;
use grampus_orc_layout::text_type::TextType;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties, WriterPropertiesBuilder};
use grampus_test_support::{Resource, python};
use tables::{Nulls, every_type};

/// Rows that are compared of each file.
const ROWS: usize = 20_000;

type Outcome = Result<RecordBatch, String>;

/// The first rows of a file, read by this crate. CHAR values keep their blanks, as the other readers return them.
fn by_this_crate(bytes: &Bytes) -> Outcome {
    let options = ArrowReaderOptions::new().with_char_padding(CharPadding::Kept);
    let builder = OrcReaderBuilder::try_new_with_options(bytes.clone(), &options).map_err(|e| e.to_string())?;
    let schema = builder.schema().clone();
    let reader = builder
        .with_limit(ROWS)
        .with_batch_size(4096)
        .build()
        .map_err(|e| e.to_string())?;
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    concat_batches(&schema, &batches).map_err(|e| e.to_string())
}

/// orc-rust panics on some files; its batches may differ in their schemas, which is ignored here.
fn by_orc_rust(bytes: &Bytes) -> Outcome {
    let bytes = bytes.clone();
    let read = catch_unwind(move || -> Outcome {
        let reader = orc_rust::ArrowReaderBuilder::try_new(bytes).map_err(|e| e.to_string())?;
        let reader = reader.with_batch_size(4096).build();
        let stated = arrow::array::RecordBatchReader::schema(&reader);
        let (mut batches, mut rows) = (Vec::<RecordBatch>::new(), 0);
        for batch in reader {
            let batch = batch.map_err(|e| e.to_string())?;
            rows += batch.num_rows();
            batches.push(batch);
            if rows >= ROWS {
                break;
            }
        }
        let Some(first) = batches.first() else {
            return Ok(RecordBatch::new_empty(stated));
        };
        let nullable = |field: &Arc<Field>| Field::clone(field).with_nullable(true);
        let schema = Arc::new(Schema::new(
            first.schema().fields().iter().map(nullable).collect::<Vec<_>>(),
        ));
        let columns = (0..schema.fields().len()).map(|column| {
            let parts: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(column)).collect();
            arrow::compute::concat(&parts)
        });
        let columns = columns
            .collect::<Result<Vec<ArrayRef>, _>>()
            .map_err(|e| e.to_string())?;
        let batch = RecordBatch::try_new(schema, columns).map_err(|e| e.to_string())?;
        Ok(batch.slice(0, batch.num_rows().min(ROWS)))
    });
    read.unwrap_or_else(|_| Err("panic".into()))
}

/// All files at once, by pyarrow.
fn by_pyarrow(python: &Path, paths: &[PathBuf]) -> Vec<Outcome> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/export_rows.py");
    let mut child = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .arg(ROWS.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a Python that starts");
    let names: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let input = serde_json::to_string(&names).unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let errors: Vec<Option<String>> = serde_json::from_slice(&output.stdout).expect("JSON");
    let read = |number: usize| -> Outcome {
        let file = std::fs::File::open(folder.path().join(format!("{number}.arrow"))).unwrap();
        let reader = FileReader::try_new(file, None).map_err(|e| e.to_string())?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        concat_batches(&schema, &batches).map_err(|e| e.to_string())
    };
    let outcomes = errors.into_iter().enumerate();
    outcomes
        .map(|(number, error)| error.map_or_else(|| read(number), Err))
        .collect()
}

/// Whether two arrays have the same values, whatever their types.
fn is_same(ours: &ArrayRef, theirs: &ArrayRef) -> bool {
    if ours.len() != theirs.len() {
        return false;
    }
    if can_cast_types(theirs.data_type(), ours.data_type())
        && let Ok(theirs) = cast(theirs, ours.data_type())
        && ours.to_data() == theirs.to_data()
    {
        return true;
    }
    let options = FormatOptions::default().with_null("NULL");
    let text = |array: &ArrayRef| -> Option<Vec<String>> {
        let formatter = ArrayFormatter::try_new(array, &options).ok()?;
        (0..array.len())
            .map(|row| formatter.value(row).try_to_string().ok())
            .collect()
    };
    // The names of a union's variants differ from reader to reader.
    let of_union = |texts: Vec<String>| -> Vec<String> {
        let value = |text: String| text.split_once('=').map_or(text.clone(), |(_, value)| value.to_owned());
        texts.into_iter().map(value).collect()
    };
    match (text(ours), text(theirs)) {
        (Some(ours), Some(theirs)) => ours == theirs || of_union(ours) == of_union(theirs),
        _ => false,
    }
}

/// Columns that both read, those of them with the same values, and the names of the others.
fn compared(ours: &RecordBatch, theirs: &RecordBatch) -> (usize, Vec<String>) {
    let schema = ours.schema();
    if ours.num_columns() != theirs.num_columns() {
        return (ours.num_columns(), vec!["(columns)".into()]);
    }
    let columns = ours.columns().iter().zip(theirs.columns()).zip(schema.fields());
    let differing = columns.filter(|((ours, theirs), _)| !is_same(ours, theirs));
    let names = differing.map(|(_, field)| field.name().clone()).collect();
    (ours.num_columns(), names)
}

/// A kind of files, by a row of the manifest.
type Kind = (&'static str, fn(&HashMap<String, String>) -> bool);

fn has(file: &HashMap<String, String>, tag: &str) -> bool {
    file["tags"].split(' ').any(|known| known == tag)
}

const KINDS: [Kind; 19] = [
    ("uncompressed", |file| file["compression"] == "none"),
    ("zlib", |file| file["compression"] == "zlib"),
    ("snappy", |file| file["compression"] == "snappy"),
    ("lzo", |file| file["compression"] == "lzo"),
    ("lz4", |file| file["compression"] == "lz4"),
    ("zstd", |file| file["compression"] == "zstd"),
    ("run lengths of version 1", |file| {
        has(file, "enc:DIRECT") && !has(file, "enc:DIRECT_V2")
    }),
    ("dictionaries", |file| {
        has(file, "enc:DICTIONARY") || has(file, "enc:DICTIONARY_V2")
    }),
    ("lists", |file| has(file, "array")),
    ("maps", |file| has(file, "map")),
    ("unions", |file| has(file, "uniontype")),
    ("CHAR and VARCHAR", |file| has(file, "char") || has(file, "varchar")),
    ("decimals", |file| has(file, "decimal")),
    ("dates", |file| has(file, "date")),
    ("timestamps", |file| {
        has(file, "timestamp") || has(file, "timestamp_instant")
    }),
    ("no row index", |file| has(file, "no-row-index")),
    ("root is no struct", |file| file["class"].contains("non-struct root")),
    ("preview of format 2", |file| file["class"] == "future-version"),
    ("encrypted columns", |file| file["class"] == "encrypted"),
];

/// The table of other writers' files.
fn corpus_table(python: &Path, corpus: &Path, out: &mut String) {
    let files = manifest(corpus);
    let paths: Vec<PathBuf> = files.iter().map(|file| corpus.join(&file["file"])).collect();
    let pyarrow = by_pyarrow(python, &paths);
    let mut outcomes: Vec<[Outcome; 3]> = vec![];
    for (path, pyarrow) in paths.iter().zip(pyarrow) {
        let bytes = Bytes::from(std::fs::read(path).unwrap());
        outcomes.push([by_this_crate(&bytes), by_orc_rust(&bytes), pyarrow]);
    }
    let is_valid = |file: &HashMap<String, String>| file["class"] != "corrupt" && file["class"] != "empty-file";
    writeln!(out, "| valid files with | files | this crate | orc-rust | pyarrow |").unwrap();
    writeln!(out, "| --- | --- | --- | --- | --- |").unwrap();
    let all: [Kind; 1] = [("anything", |_| true)];
    for (name, is_kind) in all.iter().chain(&KINDS) {
        let of_kind = files
            .iter()
            .zip(&outcomes)
            .filter(|(file, _)| is_valid(file) && is_kind(file));
        let of_kind: Vec<_> = of_kind.collect();
        let read = |reader: usize| of_kind.iter().filter(|(_, outcomes)| outcomes[reader].is_ok()).count();
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} |",
            of_kind.len(),
            read(0),
            read(1),
            read(2)
        )
        .unwrap();
    }
    let corrupt = files.iter().zip(&outcomes).filter(|(file, _)| !is_valid(file));
    let corrupt: Vec<_> = corrupt.collect();
    let refused = |reader: usize| {
        let refused = corrupt.iter().filter(|(_, outcomes)| outcomes[reader].is_err()).count();
        let panics = corrupt
            .iter()
            .filter(|(_, outcomes)| matches!(&outcomes[reader], Err(e) if e == "panic"))
            .count();
        match panics {
            0 => format!("{refused} refused"),
            panics => format!("{refused} refused, {panics} by a panic"),
        }
    };
    writeln!(
        out,
        "| (corrupt) | {} | {} | {} | {} |",
        corrupt.len(),
        refused(0),
        refused(1),
        refused(2)
    )
    .unwrap();
    writeln!(out).unwrap();
    differences(&files, &outcomes, out);
}

/// Columns whose values another reader returns differently.
fn differences(files: &[HashMap<String, String>], outcomes: &[[Outcome; 3]], out: &mut String) {
    for (reader, name) in [(1, "orc-rust"), (2, "pyarrow")] {
        let (mut columns, mut differing) = (0, BTreeMap::<String, Vec<String>>::new());
        for (file, outcomes) in files.iter().zip(outcomes) {
            let (Ok(ours), Ok(theirs)) = (&outcomes[0], &outcomes[reader]) else {
                continue;
            };
            let (count, names) = compared(ours, theirs);
            columns += count;
            if !names.is_empty() {
                let file = file["file"].rsplit('/').next().unwrap().to_owned();
                differing.insert(file, names);
            }
        }
        let count: usize = differing.values().map(Vec::len).sum();
        let same = columns - count;
        writeln!(
            out,
            "Of {columns} columns that this crate and {name} both read, {same} have the same values."
        )
        .unwrap();
        if count > 0 {
            writeln!(out, "The others:\n").unwrap();
        }
        for (file, names) in differing {
            writeln!(out, "- `{file}`: {}", names.join(", ")).unwrap();
        }
        writeln!(out).unwrap();
    }
}

/// Files of one column each, by the type's name, and the values that were written.
fn written_types() -> Vec<(String, RecordBatch, WriterProperties)> {
    let table = every_type(3_000, Nulls::Some, 33);
    let builder = || {
        WriterProperties::builder()
            .set_row_index_stride(500)
            .set_max_stripe_row_count(1_250)
    };
    let file = |name: &str, column: &str, array: ArrayRef, properties: WriterPropertiesBuilder| {
        let batch = RecordBatch::try_from_iter_with_nullable([(column, array, true)]).unwrap();
        (name.to_owned(), batch, properties.build())
    };
    let of_table = |name: &str| table.column_by_name(name).unwrap().clone();
    let kinds = [
        ("BOOLEAN", "flag"),
        ("BYTE", "tiny"),
        ("SHORT", "small"),
        ("INT", "int"),
        ("LONG", "long"),
        ("FLOAT", "float"),
        ("DOUBLE", "wild"),
        ("STRING, dictionary", "word"),
        ("STRING, direct", "text"),
        ("BINARY", "blob"),
        ("DATE", "day"),
        ("TIMESTAMP", "time"),
        ("TIMESTAMP_INSTANT", "instant"),
        ("DECIMAL(10, 2)", "money"),
        ("DECIMAL(38, 10)", "huge"),
        ("STRUCT", "struct"),
        ("LIST", "list"),
        ("MAP", "map"),
    ];
    let mut files: Vec<_> = kinds
        .iter()
        .map(|(name, column)| file(name, column, of_table(column), builder()))
        .collect();
    let word = || of_table("word");
    let char_type = |text_type| builder().set_column_text_type("c", text_type);
    let padded: StringArray = arrow::array::AsArray::as_string::<i32>(&word())
        .iter()
        .map(|text| text.map(|text| format!("{text:8}")))
        .collect();
    files.push(file(
        "CHAR(8)",
        "c",
        Arc::new(padded),
        char_type(TextType::Char { length: 8 }),
    ));
    files.push(file(
        "VARCHAR(8)",
        "c",
        word(),
        char_type(TextType::Varchar { length: 8 }),
    ));
    files.push(file(
        "UNION",
        "u",
        Arc::new(union(&of_table("long"), &word())),
        builder(),
    ));
    for (name, codec) in [
        ("zlib", Codec::Zlib),
        ("snappy", Codec::Snappy),
        ("lz4", Codec::Lz4),
        ("zstd", Codec::Zstd),
    ] {
        files.push(file(
            &format!("LONG in {name}"),
            "long",
            of_table("long"),
            builder().set_compression(Some(codec)),
        ));
    }
    let direct = builder()
        .set_compression(Some(Codec::Zstd))
        .set_column_direct("d", true);
    let doubles = every_type(3_000, Nulls::None, 34)
        .column_by_name("double")
        .unwrap()
        .clone();
    files.push(file("DOUBLE, original chunks in zstd", "d", doubles, direct));
    files.push(file(
        "LONG without row index",
        "long",
        of_table("long"),
        builder().set_row_index_stride(0),
    ));
    let blooms = builder().set_column_bloom_filter_enabled("money", true);
    files.push(file("DECIMAL with bloom filters", "money", of_table("money"), blooms));
    files
}

fn union(longs: &ArrayRef, words: &ArrayRef) -> UnionArray {
    let fields = [
        Field::new("_union_0", DataType::Int64, true),
        Field::new("_union_1", DataType::Utf8, true),
    ];
    let fields = UnionFields::try_new([0, 1], fields).unwrap();
    let ids: Vec<i8> = (0..longs.len()).map(|row| (row % 3 == 0).into()).collect();
    UnionArray::try_new(fields, ids.into(), None, vec![longs.clone(), words.clone()]).unwrap()
}

/// The table of our writer's files.
fn writer_table(python: &Path, out: &mut String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = written_types();
    let mut paths = vec![];
    for (number, (_, batch, properties)) in files.iter().enumerate() {
        let path = folder.path().join(format!("{number}.orc"));
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.clone())).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        paths.push(path);
    }
    let pyarrow = by_pyarrow(python, &paths);
    writeln!(out, "| written type or feature | this crate | orc-rust | pyarrow |").unwrap();
    writeln!(out, "| --- | --- | --- | --- |").unwrap();
    for (((name, batch, _), path), pyarrow) in files.iter().zip(&paths).zip(&pyarrow) {
        let bytes = Bytes::from(std::fs::read(path).unwrap());
        let cell = |outcome: &Outcome| match outcome {
            Ok(read) if compared(batch, read).1.is_empty() => "same values",
            Ok(_) => "other values",
            Err(error) if error == "panic" => "panic",
            Err(_) => "error",
        };
        let ours = by_this_crate(&bytes);
        assert_eq!(cell(&ours), "same values", "{name}: {:?}", ours.err());
        let cells = [cell(&ours), cell(&by_orc_rust(&bytes)), cell(pyarrow)];
        writeln!(out, "| {name} | {} |", cells.join(" | ")).unwrap();
    }
}

#[test]
fn readme_has_the_table_of_real_runs() {
    let (Some(corpus), Some(python)) = (corpus(), python(&[Resource::Pyarrow])) else {
        return;
    };
    let python = PathBuf::from(python);
    let mut table = String::from("\n");
    corpus_table(&python, &corpus, &mut table);
    writer_table(&python, &mut table);
    table.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- conformance: begin -->\n").expect("a mark");
    let (stated, after) = rest.split_once("<!-- conformance: end -->").expect("a mark");
    if std::env::var_os("GRAMPUS_WRITE_README").is_some() {
        let marks = ["<!-- conformance: begin -->\n", "<!-- conformance: end -->"];
        std::fs::write(&path, [before, marks[0], &table, marks[1], after].concat()).unwrap();
        return;
    }
    assert_eq!(
        stated, table,
        "README.md is out of date: run this test with GRAMPUS_WRITE_README=1"
    );
}
