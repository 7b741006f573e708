//! [`convert`]: rows survive every format, codec and division into files.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray, RecordBatch,
    RecordBatchReader, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type, SchemaRef, TimeUnit};
use grampus_orc_layout::codec::Codec;
use grampus_tools::ToolError;
use grampus_tools::convert::{ConvertOptions, ConvertReport, convert};
use orc_rust::ArrowReaderBuilder;
use parquet::arrow::ArrowWriter;

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn run(options: &ConvertOptions) -> Result<ConvertReport, ToolError> {
    convert(options, &go_on)
}

/// Some rows of every type that Parquet has, with NULLs.
fn sample(rows: i64) -> RecordBatch {
    let values = || (0..rows).map(|i| (i % 11 != 3).then_some(i));
    let dictionary: DictionaryArray<Int32Type> = values().map(|v| v.map(|v| ["N", "Y", "?"][v as usize % 3])).collect();
    let lists = values().map(|v| v.map(|v| (0..v % 4).map(|i| Some(i as i32)).collect::<Vec<_>>()));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(values().collect::<Int64Array>())),
        (
            "u",
            Arc::new(
                values()
                    .map(|v| v.map(|v| u64::MAX - v as u64))
                    .collect::<UInt64Array>(),
            ),
        ),
        (
            "f",
            Arc::new((0..rows).map(|i| Some(i as f64 / 8.0)).collect::<Float64Array>()),
        ),
        (
            "b",
            Arc::new(values().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
        ),
        (
            "s",
            Arc::new(values().map(|v| v.map(|v| format!("row {v}"))).collect::<StringArray>()),
        ),
        ("d", Arc::new(dictionary)),
        (
            "t",
            Arc::new(
                values()
                    .map(|v| v.map(|v| v * 1_000_003 + 7))
                    .collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "m",
            Arc::new(
                values()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
        ),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn write_parquet(path: &Path, batch: &RecordBatch) {
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// All rows of some ORC files, read by another implementation.
fn read(files: &[PathBuf]) -> RecordBatch {
    let mut batches = Vec::new();
    let mut schema: Option<SchemaRef> = None;
    for file in files {
        let reader = ArrowReaderBuilder::try_new(File::open(file).unwrap()).unwrap().build();
        schema = Some(reader.schema());
        batches.extend(reader.map(|b| b.unwrap()));
    }
    concat_batches(&schema.unwrap(), &batches).unwrap()
}

fn text(array: &ArrayRef) -> Vec<Option<String>> {
    let formatter = arrow::util::display::ArrayFormatter::try_new(array, &Default::default()).unwrap();
    (0..array.len())
        .map(|i| array.is_valid(i).then(|| formatter.value(i).to_string()))
        .collect()
}

#[test]
fn parquet_keeps_its_rows_in_every_codec_and_number_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.parquet");
    let rows = 12_000;
    let batch = sample(rows);
    write_parquet(&input, &batch);
    for (i, codec) in [
        None,
        Some(Codec::Zlib),
        Some(Codec::Snappy),
        Some(Codec::Lz4),
        Some(Codec::Zstd),
    ]
    .into_iter()
    .enumerate()
    {
        let report = run(&ConvertOptions {
            inputs: vec![input.clone()],
            out: dir.path().join(format!("out{i}")),
            codec,
            direct_columns: vec!["f".to_owned()],
            stripe_rows: Some(8_000),
            rows_per_file: (i % 2 == 1).then_some(5_001),
            verify: true,
            ..ConvertOptions::default()
        })
        .unwrap();
        assert_eq!(
            (report.rows, report.files.len()),
            (rows as u64, if i % 2 == 1 { 3 } else { 1 })
        );
        let bytes: u64 = report.files.iter().map(|f| fs::metadata(f).unwrap().len()).sum();
        assert_eq!(report.bytes, bytes);
        let back = read(&report.files);
        let schema = back.schema();
        assert_eq!(schema.field(1).data_type(), &DataType::Decimal128(20, 0));
        assert_eq!(
            schema.field(6).data_type(),
            &DataType::Timestamp(TimeUnit::Nanosecond, None)
        );
        for (column, field) in schema.fields().iter().enumerate() {
            assert!(
                text(back.column(column)) == text(batch.column(column)),
                "{codec:?} {}",
                field.name()
            );
        }
    }
}

#[test]
fn columns_are_chosen_and_ordered_from_parquet_and_orc() {
    let dir = tempfile::tempdir().unwrap();
    let (input, first, second) = (
        dir.path().join("in.parquet"),
        dir.path().join("a.orc"),
        dir.path().join("b.orc"),
    );
    let batch = sample(1000);
    write_parquet(&input, &batch);
    let step = |from: &Path, to: &Path, columns: &[&str]| {
        run(&ConvertOptions {
            inputs: vec![from.to_owned()],
            out: to.to_owned(),
            columns: Some(columns.iter().map(|c| (*c).to_owned()).collect()),
            codec: Some(Codec::Zstd),
            verify: true,
            ..ConvertOptions::default()
        })
    };
    step(&input, &first, &["t", "s", "u", "f", "l"]).unwrap();
    step(&first, &second, &["f", "l", "t"]).unwrap();
    let back = read(std::slice::from_ref(&second));
    let names: Vec<_> = back.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["f", "l", "t"]);
    for name in names {
        assert!(
            text(back.column_by_name(&name).unwrap()) == text(batch.column_by_name(&name).unwrap()),
            "{name}"
        );
    }
    let error = step(&input, &second, &["f"]).unwrap_err();
    assert!(matches!(error, ToolError::Exists(_)), "{error}");
    let error = step(&input, &dir.path().join("c.orc"), &["fare"])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no column 'fare'") && error.contains("i, u, f"),
        "{error}"
    );
    assert!(!dir.path().join("c.orc").exists());
}

#[test]
fn csv_types_come_from_the_rows_and_contradictions_are_errors_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("trips.csv");
    fs::write(
        &input,
        "id,miles,when,flag,note\n\
         1,2.5,2019-01-01 10:20:30,true,\"a, b\"\n\
         2,,2019-01-02 00:00:00.5,false,\n\
         -3,1e3,,true,n/a\n",
    )
    .unwrap();
    let mut options = ConvertOptions {
        inputs: vec![input.clone()],
        out: dir.path().join("out"),
        verify: true,
        ..ConvertOptions::default()
    };
    options.csv.null_text = Some("n/a".to_owned());
    let report = run(&options).unwrap();
    let back = read(&report.files);
    let types: Vec<_> = back.schema().fields().iter().map(|f| f.data_type().clone()).collect();
    let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    assert_eq!(
        types,
        [
            DataType::Int64,
            DataType::Float64,
            timestamp,
            DataType::Boolean,
            DataType::Utf8
        ]
    );
    assert_eq!(
        text(back.column(1)),
        [Some("2.5".to_owned()), None, Some("1000.0".to_owned())]
    );
    assert_eq!(text(back.column(4)), [Some("a, b".to_owned()), None, None]);
    assert_eq!(text(back.column(2))[1].as_deref(), Some("2019-01-02T00:00:00.500"));

    fs::write(&input, "id\n1\n2\nthree\n").unwrap();
    options.csv.infer_rows = 2;
    options.overwrite = true;
    let error = run(&options).unwrap_err().to_string();
    assert!(error.contains("three") && error.contains("look at more"), "{error}");
    assert_eq!(
        fs::read_dir(dir.path().join("out")).unwrap().count(),
        1,
        "the unfinished file is gone"
    );
}

/// Half a second before 1970, of which readers would make half a second after it.
#[test]
fn times_that_orc_cannot_store_are_errors_with_file_and_advice() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("times.parquet");
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, -500_000]));
    write_parquet(&input, &RecordBatch::try_from_iter([("at", times)]).unwrap());
    for rows_per_file in [None, Some(1)] {
        let options = ConvertOptions {
            inputs: vec![input.clone()],
            out: dir.path().join("out"),
            rows_per_file,
            ..ConvertOptions::default()
        };
        let error = run(&options).unwrap_err().to_string();
        let named = format!("{}: column at: ORC cannot store 1969-12-31T23:59:59.5", input.display());
        assert!(error.starts_with(&named), "{error}");
        assert!(
            error.contains("date_trunc('second', at)") && error.contains("leave the column out"),
            "{error}"
        );
        assert_eq!(error.matches("times.parquet").count(), 1, "{error}");
        assert!(!dir.path().join("out").exists());
    }
    // Other errors name the file once, too.
    let broken = dir.path().join("broken.orc");
    fs::write(&broken, "ORC and then nothing that belongs to a file").unwrap();
    let options = ConvertOptions {
        inputs: vec![broken],
        out: dir.path().join("out"),
        ..ConvertOptions::default()
    };
    let error = run(&options).unwrap_err().to_string();
    assert_eq!(error.matches("broken.orc").count(), 1, "{error}");
}

#[test]
fn csv_numbers_with_leading_zeros_are_texts() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("zips.csv");
    let mut options = ConvertOptions {
        inputs: vec![input.clone()],
        out: dir.path().join("out"),
        overwrite: true,
        verify: true,
        ..ConvertOptions::default()
    };
    // Also after the rows from which types are inferred, and in quotation marks.
    options.csv.infer_rows = 2;
    let number = |column: usize| {
        if column == 0 {
            DataType::Int64
        } else {
            DataType::Float64
        }
    };
    for (rows, texts) in [
        ("00501,1.5\n2134,2\n", vec![0]),
        ("10,0.5\n20,-0.5\n30,00.5\n", vec![1]),
        ("10,0.5\n20,-0.5\n\"007\",1\n", vec![0]),
        ("10,0.5\r\n20,-0.5\r\n-01,-01.5\r\n", vec![0, 1]),
        ("10,0.5\n0,-0.5\n100,0.007\n", vec![]),
    ] {
        fs::write(&input, format!("zip,x\n{rows}")).unwrap();
        let back = read(&run(&options).unwrap().files);
        for column in 0..2 {
            let expected = if texts.contains(&column) {
                DataType::Utf8
            } else {
                number(column)
            };
            assert_eq!(back.column(column).data_type(), &expected, "{rows}");
        }
        let lines: Vec<&str> = rows.lines().collect();
        for column in texts {
            let fields = lines.iter().map(|line| line.split(',').nth(column).unwrap());
            let fields: Vec<_> = fields.map(|field| Some(field.trim_matches('"').to_owned())).collect();
            assert_eq!(text(back.column(column)), fields, "{rows}");
        }
    }
}

#[test]
fn folders_are_converted_whole_and_clashing_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("in");
    fs::create_dir(&folder).unwrap();
    write_parquet(&folder.join("b.parquet"), &sample(10));
    write_parquet(&folder.join("a.parquet"), &sample(20));
    fs::write(folder.join("readme.txt"), "not data").unwrap();
    let mut options = ConvertOptions {
        inputs: vec![folder.clone()],
        out: dir.path().join("out"),
        ..ConvertOptions::default()
    };
    let report = run(&options).unwrap();
    let names: Vec<_> = report.files.iter().map(|f| f.file_name().unwrap().to_owned()).collect();
    assert_eq!((names, report.rows), (vec!["a.orc".into(), "b.orc".into()], 30));
    let error = run(&options).unwrap_err();
    assert!(matches!(error, ToolError::NotEmpty(_)), "{error}");
    options.inputs.push(folder.join("a.parquet"));
    options.overwrite = true;
    let error = run(&options).unwrap_err().to_string();
    assert!(error.contains("both become a.orc"), "{error}");
    options.inputs = vec![dir.path().join("nothing.parquet")];
    let error = run(&options).unwrap_err().to_string();
    assert!(error.contains("nothing.parquet"), "{error}");
}

#[test]
fn outputs_do_not_depend_on_the_other_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let inputs: Vec<PathBuf> = (0..9).map(|k| folder.path().join(format!("in/{k}.parquet"))).collect();
    fs::create_dir(folder.path().join("in")).unwrap();
    for (k, input) in (1..).zip(&inputs) {
        write_parquet(input, &sample(k * 700));
    }
    let options = |inputs: &[PathBuf], out: &str| ConvertOptions {
        codec: Some(Codec::Snappy),
        rows_per_file: Some(1000),
        inputs: inputs.to_vec(),
        out: folder.path().join(out),
        ..ConvertOptions::default()
    };
    let together = run(&options(&inputs, "together")).unwrap();
    let mut alone = Vec::new();
    for input in &inputs {
        let report = run(&options(std::slice::from_ref(input), &format!("alone/{}", alone.len()))).unwrap();
        alone.extend(report.files);
    }
    assert_eq!(together.rows, (1..=9).map(|k| k * 700).sum::<u64>());
    assert_eq!(together.files.len(), alone.len());
    for (one, other) in together.files.iter().zip(&alone) {
        assert_eq!(one.file_name(), other.file_name());
        assert!(fs::read(one).unwrap() == fs::read(other).unwrap(), "{}", one.display());
    }

    fs::write(&inputs[5], "PAR1, and nothing that follows from it. PAR1").unwrap();
    let error = run(&options(&inputs, "broken")).unwrap_err();
    assert!(
        matches!(&error, ToolError::Input { path, .. } if *path == inputs[5]),
        "{error}"
    );
    assert!(
        std::error::Error::source(&error).is_some(),
        "the reader's error is kept"
    );
}

#[test]
fn input_without_rows_becomes_a_file_without_rows() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("none.parquet");
    write_parquet(&input, &sample(0));
    let report = run(&ConvertOptions {
        inputs: vec![input],
        out: dir.path().join("none.orc"),
        verify: true,
        ..ConvertOptions::default()
    })
    .unwrap();
    assert_eq!((report.rows, report.files.len()), (0, 1));
}

#[test]
fn timestamps_of_any_year_are_converted_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (input, first, second) = (
        dir.path().join("in.parquet"),
        dir.path().join("first.orc"),
        dir.path().join("second.orc"),
    );
    // 0001-01-01, 1969-12-31 23:59:58, 9999-12-31, and values of a list.
    let values = vec![
        Some(-62_135_596_800_000_000),
        None,
        Some(-2_000_000),
        Some(253_402_214_400_000_001),
    ];
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(values.clone()));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([1, 0, 3, 0]);
    let item = Arc::new(Field::new("item", times.data_type().clone(), true));
    let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::clone(&times), None));
    let columns = [("t", times), ("l", lists)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    write_parquet(&input, &batch);
    for (from, to) in [(&input, &first), (&first, &second)] {
        let options = ConvertOptions {
            inputs: vec![from.clone()],
            out: to.clone(),
            verify: true,
            ..ConvertOptions::default()
        };
        assert_eq!(run(&options).unwrap().rows, 4, "{}", to.display());
    }
    let reader = ArrowReaderBuilder::try_new(File::open(&second).unwrap()).unwrap();
    let reader = reader.with_timestamp_precision(orc_rust::schema::TimestampPrecision::Microsecond);
    let back: Vec<RecordBatch> = reader.build().map(|batch| batch.unwrap()).collect();
    for (back, stored) in back[0].columns().iter().zip(batch.columns()) {
        assert_eq!(text(back), text(stored));
    }
}
