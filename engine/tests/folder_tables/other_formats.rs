//! Folders of Parquet and CSV files, with Hive partitions: each query sees the files that are there.

use std::fs;

use grampus::session::register_files;

use super::{answer, context};

#[tokio::test]
async fn folders_of_other_formats_are_listed_by_each_query() {
    for format in ["parquet", "csv"] {
        let folder = tempfile::tempdir().unwrap();
        let context = context();
        let path = folder.path().display().to_string();
        let write = async |year: i32, ids: &str| {
            let file = format!("{path}/year={year}/x.{format}");
            answer(&context, &format!("COPY (VALUES {ids}) TO '{file}'"))
                .await
                .unwrap();
        };
        write(2020, "(1), (2)").await;
        register_files(&context, "t", &path).await.unwrap();
        let sum = "SELECT count(*) AS n, sum(column1) AS s, max(year) AS y FROM t";
        assert!(
            answer(&context, sum).await.unwrap().contains("| 2 | 3 | 2020 |"),
            "{format}"
        );
        write(2021, "(3)").await;
        assert!(
            answer(&context, sum).await.unwrap().contains("| 3 | 6 | 2021 |"),
            "{format}"
        );
        let one = "SELECT count(*) AS n, sum(column1) AS s FROM t WHERE year = 2021";
        assert!(answer(&context, one).await.unwrap().contains("| 1 | 3 |"), "{format}");
        fs::remove_dir_all(folder.path().join("year=2020")).unwrap();
        assert!(
            answer(&context, sum).await.unwrap().contains("| 1 | 3 | 2021 |"),
            "{format}"
        );
        // A file of other keys has no place in the table.
        let stray = format!("COPY (VALUES (1)) TO '{path}/month=1/x.{format}'");
        answer(&context, &stray).await.unwrap();
        let error = answer(&context, sum).await.unwrap_err().to_string();
        assert!(error.contains("partitioned by other keys"), "{error}");
    }
}

#[tokio::test]
async fn folders_of_several_formats_are_refused_with_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let path = folder.path().display().to_string();
    for file in ["a.csv", "b.parquet"] {
        let copy = format!("COPY (VALUES (1)) TO '{path}/{file}'");
        answer(&context, &copy).await.unwrap();
    }
    let error = answer(&context, &format!("SELECT * FROM '{path}/'")).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("a.csv and") && error.contains("b.parquet"), "{error}");
    let one = answer(&context, &format!("SELECT count(*) AS n FROM '{path}/*.csv'")).await;
    assert!(one.unwrap().contains("| 1 |"));
}
