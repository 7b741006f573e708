//! The SQL dialect of the setting `datafusion.sql_parser.dialect`.
//!
//! DataFusion's `generic` gets forms that none of its own forms contradicts: lambdas (`x -> x + 1`, `lambda x: x + 1`),
//! `ORDER BY ALL`, `NOTNULL`, `1_000`, the [`operators`] and the [`statements`](extra_statements).

use std::any::TypeId;

use datafusion::common::plan_datafusion_err;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::{extra_statements, operators};

/// The dialect `generic` with more forms. For the parser it is `generic`.
#[derive(Debug)]
pub(super) struct GrampusDialect;

/// The methods in which `generic` differs from the trait. They are the base dialect's.
macro_rules! as_generic {
    ($($method:ident)*) => {
        $(fn $method(&self) -> bool {
            GenericDialect.$method()
        })*
    };
}

impl Dialect for GrampusDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        operators::next_precedence(parser).map(Ok)
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        operators::prefix(parser)
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        operators::infix(parser, left)
    }

    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        extra_statements::parse(parser)
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        GenericDialect.is_delimited_identifier_start(letter)
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        GenericDialect.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        GenericDialect.is_identifier_part(letter)
    }

    as_generic! {
        allow_extract_custom allow_extract_single_quotes support_map_literal_syntax supports_array_join_syntax
        supports_array_typedef_with_brackets supports_asc_desc_in_column_definition supports_bitwise_shift_operators
        supports_comma_separated_set_assignments supports_comma_separated_trim supports_comment_on
        supports_comment_optimizer_hint supports_connect_by supports_constraint_keyword_without_name
        supports_create_index_with_clause supports_create_view_comment_syntax supports_cte_without_as
        supports_data_type_signed_suffix supports_detach supports_dictionary_syntax supports_empty_projections
        supports_explain_with_utility_options supports_extract_comma_syntax supports_filter_during_aggregation
        supports_from_first_select supports_group_by_expr supports_group_by_with_modifier supports_install
        supports_interpolate supports_interval_options supports_key_column_option
        supports_left_associative_joins_without_parens supports_limit_by supports_limit_comma supports_load_extension
        supports_match_against supports_match_recognize supports_multiline_comment_hints
        supports_named_fn_args_with_assignment_operator supports_nested_comments supports_optimize_table
        supports_parens_around_table_factor supports_parenthesized_set_variables supports_partition_by_after_order_by
        supports_pipe_operator supports_prewhere supports_projection_trailing_commas supports_quote_delimited_string
        supports_select_format supports_select_item_multi_column_alias supports_select_wildcard_except
        supports_select_wildcard_exclude supports_select_wildcard_ilike supports_select_wildcard_rename
        supports_select_wildcard_replace supports_set_names supports_settings supports_start_transaction_modifier
        supports_string_escape_constant supports_struct_literal supports_try_convert supports_unicode_string_literal
        supports_update_order_by supports_user_host_grantee supports_values_as_table_factor
        supports_window_clause_named_window_reference supports_window_function_null_treatment_arg supports_with_fill
        supports_xml_expressions
    }
}

/// The dialect of a session.
///
/// # Errors
/// If no dialect has the setting's name.
pub(super) fn of_session(state: &SessionState) -> datafusion::error::Result<Box<dyn Dialect>> {
    let name = state.config_options().sql_parser.dialect;
    let found = dialect_from_str(name).ok_or_else(|| plan_datafusion_err!("there is no SQL dialect named {name}"))?;
    match found.is::<GenericDialect>() {
        true => Ok(Box::new(GrampusDialect)),
        false => Ok(found),
    }
}
