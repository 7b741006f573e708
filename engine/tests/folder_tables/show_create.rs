//! SHOW CREATE TABLE of ORC tables.

use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::session::plan_cache::plan_sql;

use super::{answer, context};

#[tokio::test]
async fn show_create_table_shows_a_statement_that_makes_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let path = folder.path().display().to_string();
    answer(&context, &format!("COPY (SELECT 1 AS a) TO '{path}/it''s/1.orc'"))
        .await
        .unwrap();
    let shown = async |context: &SessionContext, table: &str| {
        let (plan, task) = plan_sql(context, &format!("SHOW CREATE TABLE {table}")).await.unwrap();
        let batches = collect(plan, task).await.unwrap();
        let text = arrow::util::display::array_value_to_string(batches[0].column(3), 0).unwrap();
        assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
        text
    };
    for (statement, expected) in [
        (
            format!("CREATE EXTERNAL TABLE plain STORED AS ORC LOCATION '{path}/it''s/'"),
            format!("CREATE EXTERNAL TABLE plain STORED AS ORC LOCATION '{path}/it''s/'"),
        ),
        (
            format!(
                "CREATE EXTERNAL TABLE \"Odd name\" (n INT, \"Big\" DECIMAL(12, 3), \"order\" VARCHAR, t TIMESTAMP, \
                 l DOUBLE[], u BIGINT UNSIGNED, p BIGINT) STORED AS ORC PARTITIONED BY (p) LOCATION '{path}/new/' \
                 OPTIONS (row_group_rows 1000)"
            ),
            format!(
                "CREATE EXTERNAL TABLE \"Odd name\" (n INT, \"Big\" DECIMAL(12, 3), \"order\" VARCHAR, t TIMESTAMP, \
                 l DOUBLE[], u BIGINT UNSIGNED, p BIGINT) STORED AS ORC PARTITIONED BY (p) LOCATION '{path}/new/' \
                 OPTIONS ('format.row_group_rows' '1000')"
            ),
        ),
        (
            format!("CREATE EXTERNAL TABLE made STORED AS ORC LOCATION '{path}/made/' AS SELECT 7 AS n, 'x' AS s"),
            format!("CREATE EXTERNAL TABLE made (n BIGINT, s VARCHAR) STORED AS ORC LOCATION '{path}/made/'"),
        ),
    ] {
        answer(&context, &statement).await.unwrap();
        let name = if statement.contains("Odd") {
            "\"Odd name\""
        } else {
            statement.split(' ').nth(3).unwrap()
        };
        let definition = shown(&context, name).await;
        assert_eq!(definition, expected);
        // The statement makes the same table again.
        let columns = answer(&context, &format!("DESCRIBE {name}")).await.unwrap();
        answer(&context, &format!("DROP TABLE {name}")).await.unwrap();
        answer(&context, &definition).await.unwrap();
        assert_eq!(answer(&context, &format!("DESCRIBE {name}")).await.unwrap(), columns);
        assert_eq!(shown(&context, name).await, expected);
    }
    answer(&context, "CREATE VIEW v AS SELECT a FROM plain").await.unwrap();
    assert_eq!(shown(&context, "v").await, "CREATE VIEW v AS SELECT a FROM plain");
}
