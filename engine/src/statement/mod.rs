//! Statements: from their text to an optimized logical plan.
//!
//! ```text
//! text               the tokens of statements, and their places
//! expressions        the expressions of a statement
//! query_mark         what the parser does not read of a statement, as a mark of its query
//! dialect            the dialect in which they are parsed
//! copy_options       COPY … TO 'file' (format csv), COPY … FROM
//! parser             the statements of a text
//! depth              statements that are too deep for the threads' stacks
//! long_chains        long chains of AND and OR become balanced trees
//! shown_tables       SHOW TABLES, SHOW ALL TABLES
//! distinct_from      IS DISTINCT FROM binds tighter than AND and OR
//! options            OPTIONS of stores and OPTIONS of formats
//! secrets            statements without passwords and keys
//! store_statements   stores of the OPTIONS of CREATE EXTERNAL TABLE and COPY
//! summary            SUMMARIZE: figures of each column
//! column_summaries   the aggregate function of these figures
//! placeholders       ? as $1; values in their place
//! confinement        sessions whose statements open no other files
//! create_table_as    CREATE EXTERNAL TABLE … AS SELECT …
//! new_table          a table that the catalog gets when its rows are complete
//! described          DESCRIBE with SQL's names of types
//! table_spellings    a table in the catalog's spelling
//! percent_limits     LIMIT 10% as a plan
//! order_by_all       ORDER BY ALL of columns that a plan counts
//! names              unquoted names in any letter case
//! set_operations     EXCEPT ALL and INTERSECT ALL as subqueries
//! select_forms       forms of queries that DataFusion does not plan
//! like_escapes       escape characters of LIKE
//! range_names        the columns of range and generate_series
//! samples            USING SAMPLE
//! ignored_clauses    clauses that DataFusion's planner leaves out
//! refused_statements statements that nothing runs
//! json_forms         operators and paths of JSON
//! operators          ** GLOB BETWEEN SYMMETRIC, list comprehensions
//! insert_by_name     INSERT … BY NAME
//! clause_words       LIMIT 10%, USING SAMPLE, * LIKE
//! pivot_words        t PIVOT (…) with several FOR as a short statement
//! scalar_forms       ** GLOB BETWEEN SYMMETRIC, SIMILAR TO, try as DataFusion has them
//! extra_words        ASOF JOIN, MATERIALIZED, CREATE FUNCTION
//! nested_pivots      PIVOT and UNPIVOT inside of other statements
//! extra_statements   PIVOT, UNPIVOT, SET VARIABLE, DROP MACRO
//! scope              the common table expressions that a place sees
//! wildcards          COLUMNS(…), * RENAME, struct.*
//! aliases            aliases of the select list as columns
//! pivot_values       the values of pivots that do not list them
//! definitions        CREATE MACRO, SET VARIABLE
//! user_macros        calls of the session's macros
//! macros             functions that are short for expressions
//! file_metadata      what files say of themselves, as rows
//! read_functions     read_csv, read_parquet, glob … as names of tables
//! row_memberships    (a, b) IN (SELECT …)
//! logical_plan       the plan of a statement that is not executed yet
//! plan_cache         the optimized logical plan of each statement text
//! listed_once        a query planner that lists each ORC table once
//! replaced_files     an analyzer rule that lists the files which INSERT OVERWRITE replaces
//! char_literals      an analyzer rule for comparisons of CHAR columns with literals
//! timestamp_literals an analyzer rule for comparisons of timestamps in microseconds with constants
//! ```

mod aliases;
pub(crate) mod char_literals;
mod clause_words;
mod column_summaries;
pub(crate) mod confinement;
mod copy_options;
mod create_table_as;
pub(crate) mod definitions;
mod depth;
mod described;
mod dialect;
mod distinct_from;
mod expressions;
mod extra_statements;
mod extra_words;
mod file_metadata;
mod ignored_clauses;
mod insert_by_name;
mod json_forms;
mod like_escapes;
pub(crate) mod listed_once;
pub mod logical_plan;
pub(crate) mod long_chains;
mod macros;
mod names;
mod nested_pivots;
mod new_table;
mod operators;
mod options;
mod order_by_all;
pub mod parser;
mod percent_limits;
mod pivot_values;
mod pivot_words;
pub mod placeholders;
pub mod plan_cache;
mod query_mark;
mod range_names;
pub(crate) mod read_functions;
mod refused_statements;
pub(crate) mod replaced_files;
mod row_memberships;
mod samples;
mod scalar_forms;
mod scope;
mod secrets;
mod select_forms;
mod set_operations;
mod shown_tables;
pub(crate) mod store_statements;
mod summary;
mod table_spellings;
mod text;
pub(crate) mod timestamp_literals;
mod user_macros;
mod wildcards;
